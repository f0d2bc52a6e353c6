// Plug-in: the emulated CUDA plug-in, as a test sees it that asks it more than a device is asked.
#pragma once
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// A function of the plug-in that $LONGBP_CUDA names; ends the test where there is none.
static inline void *emulated(const char *function)
{
    const char *path = getenv("LONGBP_CUDA");
    void *plugin = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = plugin ? dlsym(plugin, function) : NULL;
    if (!found) {
        fprintf(stderr, "LONGBP_CUDA must name the emulated plug-in: %s\n", path ? dlerror() : "it is not set");
        exit(1);
    }
    return found;
}
