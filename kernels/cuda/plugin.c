#include "kernels/cuda/plugin.h"
#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

// A process has one CUDA; it cannot be unloaded.
static const struct cuda_plugin *plugin;

// The folder that the running program lies in, without its last slash.
static bool program_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) {
        return false;
    }
    folder[length] = 0;
    char *slash = strrchr(folder, '/');
    if (slash) {
        *slash = 0;
    }
    return slash;
}

static void *load(const char *path, struct status *status)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        status_set(status, STATUS_UNSUPPORTED, "device cuda could not be loaded: %s", dlerror());
    }
    return library;
}

static void *find(struct status *status)
{
    const char *named = getenv("LONGBP_CUDA");
    if (named && *named) {
        return load(named, status);
    }
    char folder[PATH_MAX], path[PATH_MAX + 64];
    static const char *const places[] = {"", "/../lib/longbp"};
    for (size_t i = 0; i < 2 && program_folder(folder); i++) {
        snprintf(path, sizeof path, "%s%s/longbp-cuda.so", folder, places[i]);
        if (access(path, F_OK) == 0) {
            return load(path, status);
        }
    }
    status_set(status, STATUS_UNSUPPORTED,
               "device cuda is a plug-in that is not there: longbp-cuda.so is neither beside the program nor in "
               "../lib/longbp from there, and LONGBP_CUDA names no other; `make cuda` builds it");
    return NULL;
}

bool cuda_plugin_load(struct status *status)
{
    if (plugin) {
        return true;
    }
    void *library = find(status);
    if (!library) {
        return false;
    }
    const struct cuda_plugin *found = dlsym(library, CUDA_PLUGIN_SYMBOL);
    if (!found || found->version != CUDA_PLUGIN_VERSION || found->device_bytes != sizeof(struct device) ||
        found->ops_bytes != sizeof(struct device_ops) || found->rules_bytes != sizeof(struct device_rules)) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "device cuda's plug-in was built from other sources than this program: build both anew");
    }
    plugin = found;
    return true;
}

const struct device_ops *cuda_plugin_ops(enum dtype dtype)
{
    CHECK(plugin);
    return plugin->ops(dtype);
}
