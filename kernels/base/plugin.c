#include "kernels/base/plugin.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

// The folder of the running program, without a trailing slash.
static bool program_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0)
        return false;
    folder[length] = 0;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    return slash;
}

static const void *load(const struct plugin *plugin, const char *path, struct status *status)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *error = dlerror();
        bool missing = access(path, F_OK) != 0 && errno == ENOENT;
        status_set(status, STATUS_UNSUPPORTED, "%s could not be loaded: %s%s%s", plugin->serves, error,
                   missing ? "; " : "", missing ? plugin->remedy : "");
        return NULL;
    }
    const void *found = dlsym(library, plugin->symbol);
    if (!found) {
        status_set(status, STATUS_UNSUPPORTED, "%s is no plug-in of longbp for %s", path, plugin->serves);
        return NULL;
    }
    if (strncmp(found, plugin->sources, PLUGIN_SOURCES_BYTES) != 0) {
        status_set(status, STATUS_UNSUPPORTED, "%s was built from other sources than this program; %s", path,
                   plugin->remedy);
        return NULL;
    }
    return found;
}

const void *plugin_load(const struct plugin *plugin, struct status *status)
{
    const char *named = getenv(plugin->variable);
    if (named && *named)
        return load(plugin, named, status);
    char folder[PATH_MAX], path[PATH_MAX + 64];
    static const char *const places[] = {"", "/../lib/longbp"};
    for (size_t i = 0; i < 2 && program_folder(folder); i++) {
        snprintf(path, sizeof path, "%s%s/%s", folder, places[i], plugin->library);
        if (access(path, F_OK) == 0)
            return load(plugin, path, status);
    }
    status_set(status, STATUS_UNSUPPORTED,
               "plug-in %s is missing: %s is neither beside the program nor in ../lib/longbp from there, and %s "
               "names no other; %s",
               plugin->serves, plugin->library, plugin->variable, plugin->remedy);
    return NULL;
}
