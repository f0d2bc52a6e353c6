#include "kernels/base/world.h"
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
    if (world->ops->close) {
        world->ops->close(world);
    }
}
