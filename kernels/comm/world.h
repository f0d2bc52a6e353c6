// World: the processes of a trial, one per rank, and their communication besides tensors, which is not counted.
#pragma once
#include "kernels/comm/comm.h"

struct world;
struct world_ops {
    // Barrier for long waits: waiting ranks leave their processor to working ones.
    void (*rest)(const struct world *world);
    // Barrier that returns without delay.
    void (*meet)(const struct world *world);
    // Copies rank 0's data to all ranks.
    void (*broadcast)(const struct world *world, void *data, size_t bytes);
    // all: on rank 0 the `bytes` of each rank in order; ignored on other ranks.
    void (*gather)(const struct world *world, void *all, const void *own, size_t bytes);
    // Point to point.
    void (*send)(const struct world *world, size_t to, const void *data, size_t bytes);
    void (*receive)(const struct world *world, size_t from, void *data, size_t bytes);
    // Marks that this rank waits for others by other means, so that it answers correctly who holds up the ranks.
    void (*set_waiting)(bool waits);
    // Disconnects from the other ranks. NULL: nothing to do.
    void (*close)(struct world *world);
};

struct world {
    const struct world_ops *ops;
    struct comm comm;  // of all ranks
    size_t local_rank; // among the ranks on this machine
    char engine[64];   // "Open MPI 4.1.4"; empty: none
    char backend[256]; // owned by the transport
};

// A single rank.
void world_open_alone(struct world *world);
// Joins the ranks that the program's launcher started, through the plug-in longbp-mpi.so. Returns false and a
// status (unsupported) if that is missing.
bool world_open_mpi(struct world *world, struct status *status);
void world_close(struct world *world);
// Switches tensor communication to direct transfers between devices of this name, if they have a transport. Does
// nothing for one rank. Returns false and a status (unsupported) on failure.
bool world_join(struct world *world, const char *device, struct status *status);
// Sums each number over the ranks in order, with the same bits on all.
void world_sum(const struct world *world, double *numbers, size_t count);
// Tells whether the plug-in is there.
bool world_has_mpi(struct status *status);
