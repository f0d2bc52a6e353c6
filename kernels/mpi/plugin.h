// Plug-in: MPI is a shared library of its own, loaded when ranks are asked for, so that the program needs no MPI to
// be built or to run. This is all that the two know of each other.
#pragma once
#include "kernels/base/plugin.h"
#include "kernels/comm/world.h"

// The library's one symbol, longbp_mpi.
struct mpi_plugin {
    char sources[PLUGIN_SOURCES_BYTES]; // MPI_PLUGIN_SOURCES, the Makefile's
    bool (*open)(struct world *world, struct status *status);
};
#define MPI_PLUGIN_SYMBOL "longbp_mpi"
