#include "kernels/mpi/plugin.h"

static const struct mpi_plugin *load(struct status *status)
{
    static const struct plugin wanted = {
        .library = "longbp-mpi.so",
        .variable = "LONGBP_MPI",
        .serves = "a trial over several ranks",
        .remedy = "install openmpi-bin and libopenmpi-dev, then `make` builds it",
        .symbol = MPI_PLUGIN_SYMBOL,
        .sources = MPI_PLUGIN_SOURCES,
    };
    return plugin_load(&wanted, status);
}

bool world_has_mpi(struct status *status)
{
    return load(status);
}

bool world_open_mpi(struct world *world, struct status *status)
{
    const struct mpi_plugin *plugin = load(status);
    return plugin && plugin->open(world, status);
}
