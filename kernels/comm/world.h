// World: the processes that a trial runs in, one per rank, and what they tell each other besides tensors. None of
// that is counted.
#pragma once
#include "kernels/comm/comm.h"

struct world;
struct world_ops {
    // Everyone meets; a rank that waits for long leaves its processor to those that work.
    void (*rest)(const struct world *world);
    // Everyone meets, and goes on at once.
    void (*meet)(const struct world *world);
    // data: rank 0's, then everyone's.
    void (*broadcast)(const struct world *world, void *data, size_t bytes);
    // all: on rank 0 everyone's `bytes`, rank after rank; on others nothing is read.
    void (*gather)(const struct world *world, void *all, const void *own, size_t bytes);
    // From one rank to another.
    void (*send)(const struct world *world, size_t to, const void *data, size_t bytes);
    void (*receive)(const struct world *world, size_t from, void *data, size_t bytes);
    // Before this rank waits for the others by means that are not these, and after: it is asked who keeps them
    // from their end.
    void (*set_waiting)(bool waits);
    // Lets go of the others. NULL: nothing.
    void (*close)(struct world *world);
};

struct world {
    const struct world_ops *ops;
    struct comm comm;  // of all ranks
    size_t local_rank; // among those on this one's machine
    char engine[64];   // "Open MPI 4.1.4"; empty: none
    char backend[256]; // the transport's own
};

// One rank alone.
void world_open_alone(struct world *world);
// One of several, as the program's launcher started them, by the plug-in longbp-mpi.so. False and a status
// (unsupported) if that is not there.
bool world_open_mpi(struct world *world, struct status *status);
void world_close(struct world *world);
// What the ranks tell each other by tensors goes from device to device from here on, where devices of this name
// have a transport of their own. Of one rank nothing. False and a status (unsupported) if that cannot be had.
bool world_join(struct world *world, const char *device, struct status *status);
// Each number becomes its sum over the ranks, rank 0's first, the same bits on all.
void world_sum(const struct world *world, double *numbers, size_t count);
// Whether the plug-in is there.
bool world_has_mpi(struct status *status);
