#include "harness/tensors/folder_path.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *folder_file(const char *folder, const char *name)
{
    char *path = NULL;
    path = text_new("%s/%s", folder, name);
    return path;
}

char *folder_path(const char *path)
{
    char *copy = strdup(path);
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    return copy;
}

bool folder_has(const char *folder, const char *name)
{
    char *path = folder_file(folder, name);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}
