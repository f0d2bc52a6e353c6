// Plug-in: the CUDA device is a shared library of its own, loaded when it is asked for, so that the program needs
// no CUDA to be built or to run. This is all that the two know of each other.
#pragma once
#include "kernels/base/world.h"

// The library's one symbol, longbp_cuda. Both sides must have been built from the same headers.
struct cuda_plugin {
    size_t version, device_bytes, ops_bytes, rules_bytes, world_bytes;
    const struct device_ops *(*ops)(enum dtype dtype);        // NULL: not in this dtype
    bool (*join)(struct world *world, struct status *status); // world_join
};
#define CUDA_PLUGIN_VERSION 4
#define CUDA_PLUGIN_SYMBOL  "longbp_cuda"

// Loads $LONGBP_CUDA, or longbp-cuda.so beside the program or in ../lib/longbp from there; once. False and a status
// (unsupported) if it is not there, needs a library that is not there, or was built from other sources.
bool cuda_plugin_load(struct status *status);
// After cuda_plugin_load.
const struct device_ops *cuda_plugin_ops(enum dtype dtype);
bool cuda_plugin_join(struct world *world, struct status *status);
