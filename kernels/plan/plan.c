#include "kernels/plan/plan.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/workspace.h"

// Addresses that are never read, but differ, as those of live tensors must.
static void *allocate(const struct arena *arena, size_t bytes)
{
    (void)bytes;
    return (void *)(uintptr_t)(ARENA_ALIGNMENT + arena->allocated_bytes);
}

static void release(const struct arena *arena, void *pointer)
{
    (void)arena, (void)pointer;
}

// What the real device itself uses.
static size_t cpu_workspace_f32(const struct device *device, struct attention_shape shape)
{
    return cpu_ops_f32.attention_backward_workspace(device, shape);
}

static size_t cpu_workspace_f64(const struct device *device, struct attention_shape shape)
{
    return cpu_ops_f64.attention_backward_workspace(device, shape);
}

static size_t cuda_rows(const struct device *device, size_t cols)
{
    return cuda_block_rows(device->multiprocessors, cols);
}

#define PLAN(like, element, held, most, rows, workspace, glue)                                                     \
    {                                                                                                              \
        .name = like, .dtype = element, .source = {allocate, release}, .dataless = true, .workspace_bytes = held,  \
        .elements_max = most, .attention_backward_workspace = workspace, .attention_backward_glue = glue,          \
        .block_rows = rows                                                                                         \
    }

const struct device_ops *plan_ops_like_cpu(enum dtype dtype)
{
    static const struct device_ops f32 = PLAN("plan-cpu", DTYPE_F32, 0, 0, cpu_block_rows, cpu_workspace_f32, NULL);
    static const struct device_ops f64 = PLAN("plan-cpu", DTYPE_F64, 0, 0, cpu_block_rows, cpu_workspace_f64, NULL);
    return dtype == DTYPE_F32 ? &f32 : dtype == DTYPE_F64 ? &f64 : NULL;
}

#define PLAN_CUDA(element)                                                                                         \
    PLAN("plan-cuda", element, CUDA_WORKSPACE_BYTES, CUDA_ELEMENTS_MAX, cuda_rows,                                 \
         cuda_attention_backward_workspace, cuda_attention_backward_glue)

const struct device_ops *plan_ops_like_cuda(enum dtype dtype)
{
    static const struct device_ops bf16 = PLAN_CUDA(DTYPE_BF16);
    static const struct device_ops f32 = PLAN_CUDA(DTYPE_F32);
    static const struct device_ops f64 = PLAN_CUDA(DTYPE_F64);
    return dtype == DTYPE_BF16 ? &bf16 : dtype == DTYPE_F32 ? &f32 : dtype == DTYPE_F64 ? &f64 : NULL;
}
