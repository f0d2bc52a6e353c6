// Table: the CPU device for one dtype.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/tile.h"

#if REAL_BITS != 64
static bool open(struct device *device, struct status *status)
{
    device->backend = onednn_open(REAL_DTYPE); // NULL: the BLAS
    bool packs = tile_packs(tile_sums_of(false));
    const char *by = packs ? ", attention by " : "", *attention = packs ? bf16_unit_name() : "";
    if (device->backend)
        snprintf(device->description, sizeof device->description, "%s by %s%s%s", dtype_name(REAL_DTYPE),
                 onednn_description(device->backend), by, attention);
    else if (REAL_BITS == 16)
        snprintf(device->description, sizeof device->description, "bf16 widened to f32%s%s", by, attention);
    return true;
}

static void close(struct device *device)
{
    onednn_close(device->backend);
}
#endif

// Synchronous: a second thread would take cores and memory bandwidth from the operations.
static void transfer(struct device *device, enum queue queue, struct tensor dst, struct tensor src)
{
    NAME(copy)(device, dst, src);
}

const struct device_rules NAME(cpu_rules) = {.attention_backward_workspace = NAME(attention_backward_workspace),
                                             .delta_backward_workspace = NAME(delta_backward_workspace),
                                             .block_rows = cpu_block_rows,
                                             .expert_rows = 2048};

const struct device_ops NAME(cpu_ops) = {
    .name = "cpu",
    .dtype = REAL_DTYPE,
    .rules = &NAME(cpu_rules),
    .source = {.allocate = cpu_allocate, .release = cpu_release},
    .host_source = {.allocate = cpu_host_allocate, .release = cpu_host_release, .close = cpu_host_close},
#if REAL_BITS != 64
    .open = open,
    .close = close,
#endif
    .transfer = transfer,
#define OPERATION(name) .name = NAME(name),
    DEVICE_OPERATIONS_OF_ALL(OPERATION)
#undef OPERATION
};
