#include "kernels/cuda/plugin.h"

// A process has one CUDA, which cannot be unloaded.
static const struct cuda_plugin *plugin;

bool cuda_plugin_load(struct status *status)
{
    static const struct plugin wanted = {.library = "longbp-cuda.so",
                                         .variable = "LONGBP_CUDA",
                                         .serves = "device cuda",
                                         .remedy = "`make cuda` builds it, `make cuda-emulated` the emulated one",
                                         .symbol = CUDA_PLUGIN_SYMBOL,
                                         .sources = CUDA_PLUGIN_SOURCES};
    if (!plugin)
        plugin = plugin_load(&wanted, status);
    return plugin;
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
