#include "tests/simt/device.h"
#include "kernels/cuda/kernels/kernels.h"
#include "tests/cases/memory.h"
#include <cuda_runtime.h>
extern "C" {
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/workspace.h"
#include "kernels/device/ops.h"

// Those that no kernel here computes have no function.
#define OPERATION(name) name##_op cuda_##name __attribute__((weak));
DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
}

struct CUstream_st *cuda_stream(const struct device *)
{
    return nullptr;
}

size_t cuda_shared_bytes(const struct device *)
{
    return simt::card_shared_bytes;
}

// Attention by own kernels takes none.
static size_t no_workspace(const struct device *, struct attention_shape, const struct key_segment *, size_t)
{
    return 0;
}

struct device *simt_device_open(enum dtype dtype)
{
    static struct device_rules rules;
    rules.workspace_bytes = CUDA_SCRATCH_BYTES;
    rules.attention_backward_workspace = no_workspace;
    rules.head_max = CUDA_HEAD_MAX;
    rules.delta_backward_workspace = cuda_rules.delta_backward_workspace;
    rules.takes_low_rank = cuda_rules.takes_low_rank;
    static struct device_ops tables[DTYPE_COUNT];
    struct device_ops &ops = tables[dtype];
    ops.name = "cuda";
    ops.dtype = dtype;
    ops.source = fenced_memory;
    ops.rules = &rules;
#define OPERATION(name) ops.name = cuda_##name;
    DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
    ops.attention_forward = attention_own_forward;
    ops.attention_backward = attention_own_backward;
    struct device *device = (struct device *)calloc(1, sizeof *device);
    CHECK(device);
    device->ops = &ops;
    device->multiprocessors = 1; // grids that these bound are so in small cases
    arena_open(&device->arena, device, PLACE_DEVICE, ops.source);
    device->workspace = tensor_new(device, 1, CUDA_SCRATCH_BYTES / sizeof(double), DTYPE_F64, CATEGORY_WORKSPACE);
    return device;
}

void simt_device_close(struct device *device)
{
    tensor_free(device, &device->workspace);
    arena_close(&device->arena);
    free(device);
}
