// NCCL: the transport between the cards of ranks with one card each.
#pragma once
#include "kernels/comm/world.h"

// Makes NCCL the transport of the world's comm, which must not move. Returns false and a status (unsupported) if
// the library is missing.
bool nccl_join(struct world *world, struct status *status);

struct nccl;
// Waits until all work in the operations' stream of a device that uses NCCL is done. If NCCL fails meanwhile, its
// operations are aborted and the device gets a status.
void nccl_wait(struct nccl *nccl, struct device *device);
