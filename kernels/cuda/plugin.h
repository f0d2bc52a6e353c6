// Plug-in: the CUDA device is a shared library of its own, loaded when it is asked for, so that the program needs
// no CUDA to be built or to run. This is all that the two know of each other.
#pragma once
#include "kernels/base/plugin.h"
#include "kernels/comm/world.h"

// The library's one symbol, longbp_cuda.
struct cuda_plugin {
    char sources[PLUGIN_SOURCES_BYTES];                       // CUDA_PLUGIN_SOURCES, the Makefile's
    const struct device_ops *(*ops)(enum dtype dtype);        // NULL: not in this dtype
    bool (*join)(struct world *world, struct status *status); // world_join
};
#define CUDA_PLUGIN_SYMBOL "longbp_cuda"

// Loads $LONGBP_CUDA, or longbp-cuda.so beside the program or in ../lib/longbp from there; once. False and a status
// (unsupported) if it is not there, needs a library that is not there, is none of longbp's, or was built from other
// sources.
bool cuda_plugin_load(struct status *status);
// After cuda_plugin_load.
const struct device_ops *cuda_plugin_ops(enum dtype dtype);
bool cuda_plugin_join(struct world *world, struct status *status);
