#include "harness/tensors/folder_path.h"
#include "harness/files/output_file.h"
#include "harness/text/text.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *folder_file(const char *folder, const char *name)
{
    return text_new("%s/%s", folder, name);
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

bool folder_write_json(const char *folder, const char *name, json_t *json, struct status *status)
{
    char *path = folder_file(folder, name), *text = json_dumps(json, JSON_INDENT(2));
    bool written = output_file_write(path, text, strlen(text), status);
    free(text);
    free(path);
    json_decref(json);
    return written;
}
