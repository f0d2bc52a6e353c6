#include "kernels/comm/world.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>

static void nothing(const struct world *world)
{
    (void)world;
}

static void broadcast(const struct world *world, void *data, size_t bytes)
{
    (void)world, (void)data, (void)bytes;
}

static void gather(const struct world *world, void *all, const void *own, size_t bytes)
{
    (void)world;
    memcpy(all, own, bytes);
}

static const struct world_ops alone = {.rest = nothing, .meet = nothing, .broadcast = broadcast, .gather = gather};

void world_open_alone(struct world *world)
{
    *world = (struct world){.ops = &alone, .comm = comm_self};
}

void world_close(struct world *world)
{
    if (world->comm.ops->close)
        world->comm.ops->close(&world->comm);
    if (world->ops->close)
        world->ops->close(world);
}

void world_sum(const struct world *world, double *numbers, size_t count)
{
    size_t ranks = world->comm.size;
    double *all = calloc(ranks * count + 1, sizeof *all);
    world->ops->gather(world, all, numbers, count * sizeof *numbers);
    for (size_t i = 0; world->comm.rank == 0 && i < count; i++) {
        numbers[i] = all[i];
        for (size_t rank = 1; rank < ranks; rank++)
            numbers[i] += all[rank * count + i];
    }
    world->ops->broadcast(world, numbers, count * sizeof *numbers);
    free(all);
}
