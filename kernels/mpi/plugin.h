// Plug-in: MPI code is a shared library, loaded for trials with ranks, so that the program builds and runs without
// MPI. This file is the whole interface.
#pragma once
#include "kernels/base/plugin.h"
#include "kernels/comm/world.h"

// The library's one symbol, longbp_mpi.
struct mpi_plugin {
    char sources[PLUGIN_SOURCES_BYTES]; // MPI_PLUGIN_SOURCES, the Makefile's
    bool (*open)(struct world *world, struct status *status);
};
#define MPI_PLUGIN_SYMBOL "longbp_mpi"
