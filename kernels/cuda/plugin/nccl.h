// NCCL: the transport between cards, of ranks that have one each.
#pragma once
#include "kernels/comm/world.h"

// From here on the world's comm, which must stay where it is, is NCCL's. False and a status (unsupported) if the
// library is not there.
bool nccl_join(struct world *world, struct status *status);

struct nccl;
// Waits until a device that NCCL has carried something for has done all that its stream of operations was asked
// for. Should NCCL fail meanwhile, all that it was asked for is given up, and the device has a status.
void nccl_wait(struct nccl *nccl, struct device *device);
