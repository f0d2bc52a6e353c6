#include "kernels/plan/plan.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/workspace.h"

// Addresses that are never read, but differ, as those of live tensors must.
static void *allocate(const struct arena *arena, size_t bytes, struct status *status)
{
    (void)bytes, (void)status;
    return (void *)(uintptr_t)(ARENA_ALIGNMENT + arena->allocated_bytes);
}

static void release(const struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena, (void)pointer, (void)bytes;
}

// What the real device itself uses.
static size_t cpu_workspace(const struct device *device, struct attention_shape shape,
                            const struct key_segment *segments, size_t segment_count)
{
    return cpu_ops(device->ops->dtype)->attention_backward_workspace(device, shape, segments, segment_count);
}

#define PLAN(like, element, held, most, rows, workspace, glue)                                                     \
    {                                                                                                              \
        .name = like, .dtype = element, .source = {allocate, release}, .host_source = {allocate, release},         \
        .dataless = true, .workspace_bytes = held, .elements_max = most,                                           \
        .attention_backward_workspace = workspace, .attention_backward_glue = glue, .block_rows = rows             \
    }

#define PLAN_CPU(element) PLAN("plan-cpu", element, 0, 0, cpu_block_rows, cpu_workspace, NULL)
#define PLAN_CUDA(element)                                                                                         \
    PLAN("plan-cuda", element, CUDA_WORKSPACE_BYTES, CUDA_ELEMENTS_MAX, cuda_block_rows,                           \
         cuda_attention_backward_workspace, cuda_attention_backward_glue)

static const struct device_ops like_cpu[DTYPE_COUNT] = {
    [DTYPE_F64] = PLAN_CPU(DTYPE_F64), [DTYPE_F32] = PLAN_CPU(DTYPE_F32), [DTYPE_BF16] = PLAN_CPU(DTYPE_BF16)};
static const struct device_ops like_cuda[DTYPE_COUNT] = {
    [DTYPE_F64] = PLAN_CUDA(DTYPE_F64), [DTYPE_F32] = PLAN_CUDA(DTYPE_F32), [DTYPE_BF16] = PLAN_CUDA(DTYPE_BF16)};

const struct device_ops *plan_ops_like_cpu(enum dtype dtype)
{
    return like_cpu[dtype].name ? &like_cpu[dtype] : NULL;
}

const struct device_ops *plan_ops_like_cuda(enum dtype dtype)
{
    return like_cuda[dtype].name ? &like_cuda[dtype] : NULL;
}
