#define _GNU_SOURCE // asprintf
#include "harness/tensors/folder_path.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *folder_file(const char *folder, const char *name)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/%s", folder, name) >= 0);
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
