#include "kernels/base/comm_levels.h"

// The ranks of this one's node; those with its place in theirs, a node each, and the rows that they own.
struct levels {
    struct comm near, far;
    struct row_range *far_owned; // [far.size]
};

static struct levels levels_of(const struct comm *comm, const struct row_range *owned)
{
    size_t node = comm->node, nodes = comm->size / node, place = comm->rank % node;
    CHECK(comm->size % node == 0);
    struct levels levels = {comm_part(comm, comm->rank - place, 1, node), comm_part(comm, place, node, nodes),
                            calloc(nodes, sizeof *levels.far_owned)};
    CHECK(levels.far_owned);
    for (size_t i = 0; i < nodes; i++) {
        levels.far_owned[i] = owned[i * node + place];
    }
    return levels;
}

void comm_levels_sum_rows(const struct comm *comm, struct device *device, struct tensor t,
                          const struct row_range *owned)
{
    struct levels levels = levels_of(comm, owned);
    // Each rank the rows that its like own in all nodes.
    for (size_t first = 0; first < comm->size; first += comm->node) {
        comm_sum_rows(&levels.near, device, t, owned + first);
    }
    comm_sum_rows(&levels.far, device, t, levels.far_owned);
    free(levels.far_owned);
}

void comm_levels_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                             const struct row_range *owned)
{
    struct levels levels = levels_of(comm, owned);
    comm_gather_rows(&levels.far, device, t, levels.far_owned);
    for (size_t first = 0; first < comm->size; first += comm->node) {
        comm_gather_rows(&levels.near, device, t, owned + first);
    }
    free(levels.far_owned);
}
