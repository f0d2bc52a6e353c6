#include "kernels/cuda/plugin.h"
#include "kernels/base/plugin.h"

// A process has one CUDA; it cannot be unloaded.
static const struct cuda_plugin *plugin;

bool cuda_plugin_load(struct status *status)
{
    static const struct plugin wanted = {.library = "longbp-cuda.so",
                                         .variable = "LONGBP_CUDA",
                                         .serves = "device cuda",
                                         .remedy = "`make cuda` builds it",
                                         .symbol = CUDA_PLUGIN_SYMBOL};
    if (plugin) {
        return true;
    }
    const struct cuda_plugin *found = plugin_load(&wanted, status);
    if (status->code != STATUS_OK) {
        return false;
    }
    if (!found || found->version != CUDA_PLUGIN_VERSION || found->device_bytes != sizeof(struct device) ||
        found->ops_bytes != sizeof(struct device_ops) || found->rules_bytes != sizeof(struct device_rules) ||
        found->world_bytes != sizeof(struct world)) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "device cuda's plug-in was built from other sources than this program: build both anew");
    }
    plugin = found;
    return true;
}

const struct device_ops *cuda_plugin_ops(enum dtype dtype)
{
    CHECK(plugin);
    return plugin->ops(dtype);
}

bool cuda_plugin_join(struct world *world, struct status *status)
{
    CHECK(plugin);
    return plugin->join(world, status);
}
