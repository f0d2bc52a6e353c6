#include "kernels/plan/plan.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/workspace.h"
#include <string.h>

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

static void upload(struct device *device, struct tensor t, const void *src)
{
    (void)device, (void)t, (void)src;
}

static void download(struct device *device, void *dst, struct tensor t)
{
    (void)device;
    memset(dst, 0, tensor_bytes(t));
}

static void synchronize(struct device *device)
{
    (void)device;
}

static void draw_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                        enum dtype rounding)
{
    (void)device, (void)t, (void)random, (void)mean, (void)deviation, (void)rounding;
}

static void zero(struct device *device, struct tensor t)
{
    (void)device, (void)t;
}

static void copy(struct device *device, struct tensor dst, struct tensor src)
{
    (void)device, (void)dst, (void)src;
}

static void scale(struct device *device, struct tensor t, double factor)
{
    (void)device, (void)t, (void)factor;
}

static void gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                 struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    (void)device, (void)c, (void)a, (void)transpose_a, (void)b, (void)transpose_b, (void)alpha, (void)beta;
}

static void bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    (void)device, (void)y, (void)bias;
}

static void bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    (void)device, (void)grad_bias, (void)grad_y;
}

static void rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                            struct tensor gain, double epsilon)
{
    (void)device, (void)y, (void)rstd, (void)x, (void)gain, (void)epsilon;
}

static void rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                             struct tensor grad_y, struct tensor x, struct tensor gain, struct tensor rstd)
{
    (void)device, (void)grad_x, (void)accumulate, (void)grad_gain, (void)grad_y, (void)x, (void)gain, (void)rstd;
}

static void rope(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
                 int direction)
{
    (void)device, (void)x, (void)frequencies, (void)start, (void)batch, (void)direction;
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    (void)device, (void)shape, (void)o, (void)logsumexp, (void)q, (void)k, (void)v;
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                               struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                               struct tensor v, struct tensor workspace)
{
    (void)device, (void)shape, (void)grad_q, (void)segments, (void)segment_count, (void)grad_o, (void)o;
    (void)logsumexp, (void)q, (void)k, (void)v, (void)workspace;
}

static void swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    (void)device, (void)y, (void)gate, (void)up;
}

static void swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    (void)device, (void)gate, (void)up, (void)grad_y;
}

static void embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    (void)device, (void)y, (void)table, (void)ids;
}

static void embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y,
                               struct tensor ids)
{
    (void)device, (void)grad_table, (void)grad_y, (void)ids;
}

static void cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                          double loss_weight, double grad_weight)
{
    (void)device, (void)logits, (void)targets, (void)loss, (void)loss_weight, (void)grad_weight;
}

static void adamw(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
                  double rate, double beta1, double beta2, double epsilon, double decay, size_t t)
{
    (void)device, (void)w, (void)g, (void)m, (void)v, (void)rate, (void)beta1, (void)beta2, (void)epsilon;
    (void)decay, (void)t;
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
        .elements_max = most, .upload = upload, .download = download, .synchronize = synchronize,                  \
        .random_normal = draw_normal, .zero = zero, .copy = copy, .scale = scale, .gemm = gemm,                    \
        .bias_forward = bias_forward, .bias_backward = bias_backward, .rmsnorm_forward = rmsnorm_forward,          \
        .rmsnorm_backward = rmsnorm_backward, .rope = rope, .attention_forward = attention_forward,                \
        .attention_backward = attention_backward, .attention_backward_workspace = workspace,                       \
        .attention_backward_glue = glue, .block_rows = rows, .swiglu_forward = swiglu_forward,                     \
        .swiglu_backward = swiglu_backward, .embedding_forward = embedding_forward,                                \
        .embedding_backward = embedding_backward, .cross_entropy = cross_entropy, .adamw = adamw                   \
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
