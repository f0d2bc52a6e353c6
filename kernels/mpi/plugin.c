#include "kernels/mpi/plugin.h"
#include "kernels/base/plugin.h"

static const struct mpi_plugin *load(struct status *status)
{
    static const struct plugin wanted = {
        .library = "longbp-mpi.so",
        .variable = "LONGBP_MPI",
        .serves = "a trial over several ranks",
        .remedy = "install openmpi-bin and libopenmpi-dev, then `make` builds it",
        .symbol = MPI_PLUGIN_SYMBOL,
    };
    const struct mpi_plugin *plugin = plugin_load(&wanted, status);
    bool fits = plugin && plugin->version == MPI_PLUGIN_VERSION && plugin->world_bytes == sizeof(struct world) &&
                plugin->message_bytes == sizeof(struct message);
    if (status->code == STATUS_OK && !fits) {
        status_set(status, STATUS_UNSUPPORTED,
                   "the MPI plug-in was built from other sources than this program: build both anew");
    }
    return fits ? plugin : NULL;
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
