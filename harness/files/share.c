#include "harness/files/share.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool share_find(const char *name, char path[PATH_MAX])
{
    static const char *const places[] = {".", "..", "../share/longbp", "../.."};
    char program[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int bytes = snprintf(joined, sizeof joined, "%s/%s/%s", program, places[i], name);
        if (bytes < (int)sizeof joined && realpath(joined, path) && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

const char *share_resolve(const char *name, char path[PATH_MAX])
{
    static const char folder[] = "experiments/";
    bool shared = strncmp(name, folder, strlen(folder)) == 0 && access(name, F_OK) != 0;
    return shared && share_find(name, path) ? path : name;
}
