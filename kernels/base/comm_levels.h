// Comm levels: sums and gathers of ranks of which some are nearer to each other than to the rest: first between the
// ranks of a node, then between those that have the same place in their nodes, which carry a node's share of what
// all would send each other. Sums run over a node's ranks in order, then over the nodes in order: the number of
// ranks and that of a node's alone fix their bits.
#pragma once
#include "kernels/base/comm.h"

// As comm_sum_rows and comm_gather_rows, of a comm whose nodes have several ranks. Sums are rounded once on each
// level.
void comm_levels_sum_rows(const struct comm *comm, struct device *device, struct tensor t,
                          const struct row_range *owned);
void comm_levels_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                             const struct row_range *owned);
