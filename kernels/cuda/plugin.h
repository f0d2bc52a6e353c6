// Plug-in: the CUDA device is a shared library, loaded on demand, so that the program builds and runs without CUDA.
// This file is the whole interface.
#pragma once
#include "kernels/base/plugin.h"
#include "kernels/comm/world.h"

// The library's one symbol, longbp_cuda.
struct cuda_plugin {
    char sources[PLUGIN_SOURCES_BYTES];                       // CUDA_PLUGIN_SOURCES, the Makefile's
    const struct device_ops *(*ops)(enum dtype dtype);        // NULL: unsupported dtype
    bool (*join)(struct world *world, struct status *status); // world_join
};
#define CUDA_PLUGIN_SYMBOL "longbp_cuda"

// Loads $LONGBP_CUDA, or longbp-cuda.so beside the program or in ../lib/longbp from there, once. Returns false and
// a status (unsupported) if the library or a dependency is missing, it is no plug-in of longbp, or it was built
// from other sources.
bool cuda_plugin_load(struct status *status);
// Call after cuda_plugin_load.
const struct device_ops *cuda_plugin_ops(enum dtype dtype);
bool cuda_plugin_join(struct world *world, struct status *status);
