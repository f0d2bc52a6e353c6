// Plug-in: MPI is a shared library of its own, loaded when ranks are asked for, so that the program needs no MPI to
// be built or to run. This is all that the two know of each other.
#pragma once
#include "kernels/base/world.h"

// The library's one symbol, longbp_mpi. Both sides must have been built from the same headers.
struct mpi_plugin {
    size_t version, world_bytes, message_bytes;
    bool (*open)(struct world *world, struct status *status);
};
#define MPI_PLUGIN_VERSION 3
#define MPI_PLUGIN_SYMBOL  "longbp_mpi"
