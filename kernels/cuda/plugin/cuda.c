// CUDA: the device's table: memory from the driver's stream-ordered pool, GEMM by cuBLASLt, attention in bf16 by
// cuDNN, everything else by the device's own kernels, all in one stream, so that nothing waits but what reads a
// result.
#include "kernels/base/tensor.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/plugin/attention_cudnn.h"
#include "kernels/cuda/plugin/check.h"
#include "kernels/cuda/plugin/gemm.h"
#include "kernels/cuda/plugin/kernels.h"
#include "kernels/cuda/plugin/ranges.h"
#include "kernels/cuda/workspace.h"
#include <stddef.h>

_Static_assert(CUDA_SCRATCH_BYTES <= CUDA_WORKSPACE_BYTES, "the kernels' scratch is part of the workspace");

// Of the card's free memory, what the arena leaves: kernels of the device and its libraries are loaded when first
// run.
#define LOADED_LATER_BYTES ((size_t)512 << 20)

struct backend {
    cudaStream_t stream;
    cudaEvent_t marks[DEVICE_MARKS]; // made when first set
    cudaMemPool_t pool;
    struct gemm *gemm;
    struct attention_cudnn *attention; // NULL: not bf16
    size_t shared_bytes;               // shared memory that a block may take
    struct ranges *ranges;             // NULL: no profiler is attached
};

static struct backend *backend(struct device *device)
{
    return device->backend;
}

static cudaStream_t stream(struct device *device)
{
    return backend(device)->stream;
}

// ---- memory

// The arena is a member of its device.
static struct backend *backend_of(const struct arena *arena)
{
    const char *address = (const char *)arena;
    return ((const struct device *)(address - offsetof(struct device, arena)))->backend;
}

// The pool keeps what is released, so that after the first step no allocation reaches the driver. What it keeps in
// pieces too small may still be too much for a large one: then everything unused goes back first. Drivers call a
// size beyond the card out of memory, invalid or not supported; a fault of earlier work, which an allocation may
// report too, stays, and aborts in the wait.
static void *allocate(const struct arena *arena, size_t bytes)
{
    struct backend *b = backend_of(arena);
    void *pointer = NULL;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (cudaMallocFromPoolAsync(&pointer, bytes, b->pool, b->stream) == cudaSuccess) {
            return pointer;
        }
        (void)cudaGetLastError(); // it is dealt with
        CUDA_CHECK(cudaStreamSynchronize(b->stream));
        CUDA_CHECK(cudaMemPoolTrimTo(b->pool, 0));
    }
    return NULL;
}

// In stream order: whoever gets this memory next, uses it after all that was asked for before.
static void release(const struct arena *arena, void *pointer)
{
    CUDA_CHECK(cudaFreeAsync(pointer, backend_of(arena)->stream));
}

static void upload(struct device *device, struct tensor t, const void *src)
{
    CUDA_CHECK(cudaMemcpyAsync(t.data, src, tensor_bytes(t), cudaMemcpyHostToDevice, stream(device)));
    CUDA_CHECK(cudaStreamSynchronize(stream(device))); // src is the caller's again
}

static void download(struct device *device, void *dst, struct tensor t)
{
    CUDA_CHECK(cudaMemcpyAsync(dst, t.data, tensor_bytes(t), cudaMemcpyDeviceToHost, stream(device)));
    CUDA_CHECK(cudaStreamSynchronize(stream(device)));
}

static void synchronize(struct device *device)
{
    CUDA_CHECK(cudaStreamSynchronize(stream(device)));
}

static void zero(struct device *device, struct tensor t)
{
    CUDA_CHECK(cudaMemsetAsync(t.data, 0, tensor_bytes(t), stream(device)));
}

// ---- time and memory as the card sees them

static void mark(struct device *device, size_t mark)
{
    cudaEvent_t *event = &backend(device)->marks[mark];
    if (!*event) {
        CUDA_CHECK(cudaEventCreate(event));
    }
    CUDA_CHECK(cudaEventRecord(*event, stream(device)));
}

static double marks_ms(struct device *device, size_t from, size_t to)
{
    const struct backend *b = backend(device);
    float ms;
    CUDA_CHECK(cudaEventSynchronize(b->marks[to]));
    CUDA_CHECK(cudaEventElapsedTime(&ms, b->marks[from], b->marks[to]));
    return ms;
}

static size_t used_bytes(struct device *device)
{
    (void)device;
    size_t free_bytes, total_bytes;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    return total_bytes - free_bytes;
}

static size_t reserved_bytes(struct device *device)
{
    uint64_t bytes = 0;
    CUDA_CHECK(cudaMemPoolGetAttribute(backend(device)->pool, cudaMemPoolAttrReservedMemHigh, &bytes));
    return bytes;
}

// ---- operations

static void draw_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                        enum dtype rounding)
{
    cuda_random_normal(t, random, mean, deviation, rounding, stream(device));
}

static void copy(struct device *device, struct tensor dst, struct tensor src)
{
    cuda_copy(dst, src, stream(device));
}

static void scale(struct device *device, struct tensor t, double factor)
{
    cuda_scale(t, factor, stream(device));
}

static void gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                 struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    gemm_run(backend(device)->gemm, c, a, transpose_a, b, transpose_b, alpha, beta, device->reverse_sums,
             device->tf32, device->workspace.data, &device->status);
}

static void bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    cuda_bias_forward(y, bias, stream(device));
}

static void bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    cuda_bias_backward(grad_bias, grad_y, device->workspace.data, stream(device));
}

static void rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                            struct tensor gain, double epsilon)
{
    cuda_rmsnorm_forward(y, rstd, x, gain, epsilon, stream(device));
}

static void rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                             struct tensor grad_y, struct tensor x, struct tensor gain, struct tensor rstd)
{
    cuda_rmsnorm_backward(grad_x, accumulate, grad_gain, grad_y, x, gain, rstd, device->workspace.data,
                          stream(device));
}

static void rope(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
                 int direction)
{
    cuda_rope(x, frequencies, start, batch, direction, stream(device));
}

static bool own_attention_holds(struct device *device, struct attention_shape shape)
{
    return shape.head_dim <= CUDA_ATTENTION_HEAD_DIM ||
           status_set(&device->status, STATUS_UNSUPPORTED,
                      "attention on device cuda holds heads of at most %d numbers, not %zu",
                      CUDA_ATTENTION_HEAD_DIM, shape.head_dim);
}

static void no_tile(struct device *device, struct attention_shape shape, const char *direction)
{
    status_set(&device->status, STATUS_UNSUPPORTED,
               "attention's %s on device cuda has no tile for heads of %zu numbers in %s: a block of this card has "
               "%zu KiB of shared memory",
               direction, shape.head_dim, dtype_name(device->ops->dtype), backend(device)->shared_bytes >> 10);
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    if (backend(device)->attention && cuda_attention_by_cudnn(shape) && !device->reverse_sums) {
        attention_cudnn_forward(backend(device)->attention, shape, o, logsumexp, q, k, v, device->workspace.data,
                                &device->status);
    } else if (own_attention_holds(device, shape) &&
               !cuda_attention_forward(o, logsumexp, q, k, v, shape, device->reverse_sums,
                                       backend(device)->shared_bytes, stream(device))) {
        no_tile(device, shape, "forward");
    }
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                               struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                               struct tensor v, struct tensor workspace)
{
    if (cuda_attention_backward_by_cudnn(device, shape)) {
        // All of it but the parts that are the engines'.
        range_push(device,
                   (struct range){.level = RANGE_PART, .work = WORK_ATTENTION_GLUE, .name = "attention_glue"});
        attention_cudnn_backward(backend(device)->attention, shape, device->whole_attention, grad_q, segments,
                                 segment_count, grad_o, o, logsumexp, q, k, v, workspace, &device->status);
        range_pop(device);
    } else if (own_attention_holds(device, shape) &&
               !cuda_attention_backward(grad_q, segments, segment_count, grad_o, o, logsumexp, q, k, v, shape,
                                        device->reverse_sums, backend(device)->shared_bytes, stream(device))) {
        no_tile(device, shape, "backward");
    }
}

static size_t block_rows(const struct device *device, size_t cols)
{
    return cuda_block_rows(device->multiprocessors, cols);
}

static void swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    cuda_swiglu_forward(y, gate, up, stream(device));
}

static void swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    cuda_swiglu_backward(gate, up, grad_y, stream(device));
}

static void embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    cuda_embedding_forward(y, table, ids, stream(device));
}

static void embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y,
                               struct tensor ids)
{
    cuda_embedding_backward(grad_table, grad_y, ids, stream(device));
}

static void cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                          double loss_weight, double grad_weight)
{
    cuda_cross_entropy(logits, loss, targets, loss_weight, grad_weight, device->workspace.data, stream(device));
}

static void log_prob(struct device *device, struct tensor log_prob, struct tensor logsumexp, struct tensor logits,
                     struct tensor targets)
{
    cuda_log_prob(log_prob, logsumexp, logits, targets, stream(device));
}

static void objective_rows(struct device *device, enum row_objective objective, struct tensor grad,
                           struct tensor loss, struct tensor log_prob, struct tensor weights, struct tensor targets,
                           double loss_weight, double grad_weight)
{
    cuda_objective_rows(grad, loss, log_prob, weights, targets, objective, loss_weight, grad_weight,
                        stream(device));
}

static void log_prob_backward(struct device *device, struct tensor logits, struct tensor logsumexp,
                              struct tensor targets, struct tensor grad)
{
    cuda_log_prob_backward(logits, logsumexp, targets, grad, stream(device));
}

static void adamw(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
                  double rate, double beta1, double beta2, double epsilon, double decay, size_t t)
{
    cuda_adamw(w, m, v, g, rate, beta1, beta2, epsilon, decay, t, stream(device));
}

// ---- opening

static void close(struct device *device)
{
    struct backend *b = backend(device);
    CUDA_CHECK(cudaStreamSynchronize(b->stream)); // until then the libraries' plans are in use
    ranges_close(b->ranges, device);
    attention_cudnn_close(b->attention);
    gemm_close(b->gemm);
    if (b->pool) {
        CUDA_CHECK(cudaMemPoolDestroy(b->pool));
    }
    for (size_t i = 0; i < DEVICE_MARKS; i++) {
        if (b->marks[i]) {
            CUDA_CHECK(cudaEventDestroy(b->marks[i]));
        }
    }
    CUDA_CHECK(cudaStreamDestroy(b->stream));
    free(b);
    device->backend = NULL;
}

// The card's place among those that CUDA_VISIBLE_DEVICES leaves.
static bool find_card(struct device *device, struct cudaDeviceProp *card, struct status *status)
{
    int count = 0, driver = 0, runtime = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "device cuda needs an NVIDIA GPU and its driver: %s (error %d)",
                          error == cudaSuccess ? "there is no GPU" : cudaGetErrorString(error), (int)error);
    }
    if (device->card >= (size_t)count) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "there is no device cuda:%zu: this machine has %d GPU%s, %s%d", device->card, count,
                          count == 1 ? "" : "s", count == 1 ? "cuda:" : "cuda:0 to cuda:", count - 1);
    }
    int number = (int)device->card;
    error = cudaSetDevice(number);
    if (error == cudaSuccess) {
        error = cudaGetDeviceProperties(card, number);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetPCIBusId(device->bus_id, sizeof device->bus_id, number);
    }
    if (error == cudaSuccess) {
        error = cudaFree(NULL); // makes the context
    }
    if (error != cudaSuccess) {
        return status_set(status, STATUS_UNSUPPORTED, "device cuda cannot use its GPU: %s (error %d)",
                          cudaGetErrorString(error), (int)error);
    }
    struct cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, cuda_probe());
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); // it is dealt with
        return status_set(
            status, STATUS_UNSUPPORTED,
            "device cuda has no code for this GPU, %s: %s (error %d); it has compute capability %d.%d, "
            "the plug-in is built for " CUDA_BUILT_FOR "; `make cuda CUDA_ARCHS=80` builds it for 8.0 "
            "and all above",
            card->name, cudaGetErrorString(error), (int)error, card->major, card->minor);
    }
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    snprintf(
        device->description, sizeof device->description,
        "%.200s, %s, %d multiprocessors, compute capability %d.%d, driver for CUDA %d.%d, runtime %d.%d, cuBLASLt "
        "%zu, cuDNN %zu",
        card->name, device->bus_id, card->multiProcessorCount, card->major, card->minor, driver / 1000,
        driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, gemm_library_version(),
        attention_cudnn_library_version());
    return true;
}

static bool open(struct device *device, struct status *status)
{
    struct cudaDeviceProp card = {0};
    if (!find_card(device, &card, status)) {
        return false;
    }
    struct backend *b = calloc(1, sizeof *b);
    CHECK(b);
    device->backend = b;
    device->multiprocessors = (size_t)card.multiProcessorCount;
    b->shared_bytes = card.sharedMemPerBlockOptin;
    CUDA_CHECK(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    struct cudaMemPoolProps pool = {.allocType = cudaMemAllocationTypePinned,
                                    .location = {.type = cudaMemLocationTypeDevice, .id = (int)device->card}};
    uint64_t keep = UINT64_MAX;
    int pools = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, (int)device->card));
    if (!pools) {
        status_set(status, STATUS_UNSUPPORTED, "device cuda needs a driver with memory pools, which %s has not",
                   card.name);
        close(device);
        return false;
    }
    CUDA_CHECK(cudaMemPoolCreate(&b->pool, &pool));
    CUDA_CHECK(cudaMemPoolSetAttribute(b->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    b->gemm = gemm_open(b->stream, status);
    if (b->gemm && device->ops->dtype == DTYPE_BF16) {
        b->attention = attention_cudnn_open(device, b->stream, status);
    }
    if (!b->gemm || (device->ops->dtype == DTYPE_BF16 && !b->attention)) {
        close(device);
        return false;
    }
    b->ranges = ranges_open(device);
    size_t free_bytes, total_bytes;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (device->arena.limit_bytes == 0) {
        device->arena.limit_bytes = free_bytes > LOADED_LATER_BYTES ? free_bytes - LOADED_LATER_BYTES : 1;
    }
    return true;
}

#define TABLE(element)                                                                                             \
    {                                                                                                              \
        .name = "cuda", .dtype = element, .source = {allocate, release}, .workspace_bytes = CUDA_WORKSPACE_BYTES,  \
        .elements_max = CUDA_ELEMENTS_MAX, .open = open, .close = close, .mark = mark, .marks_ms = marks_ms,       \
        .used_bytes = used_bytes, .reserved_bytes = reserved_bytes, .upload = upload, .download = download,        \
        .synchronize = synchronize, .random_normal = draw_normal, .zero = zero, .copy = copy, .scale = scale,      \
        .gemm = gemm, .bias_forward = bias_forward, .bias_backward = bias_backward,                                \
        .rmsnorm_forward = rmsnorm_forward, .rmsnorm_backward = rmsnorm_backward, .rope = rope,                    \
        .attention_forward = attention_forward, .attention_backward = attention_backward,                          \
        .attention_backward_workspace = cuda_attention_backward_workspace,                                         \
        .attention_backward_glue = cuda_attention_backward_glue, .block_rows = block_rows,                         \
        .swiglu_forward = swiglu_forward, .swiglu_backward = swiglu_backward,                                      \
        .embedding_forward = embedding_forward, .embedding_backward = embedding_backward,                          \
        .cross_entropy = cross_entropy, .log_prob = log_prob, .objective_rows = objective_rows,                    \
        .log_prob_backward = log_prob_backward, .adamw = adamw                                                     \
    }

static const struct device_ops *ops(enum dtype dtype)
{
    static const struct device_ops bf16 = TABLE(DTYPE_BF16), f32 = TABLE(DTYPE_F32), f64 = TABLE(DTYPE_F64);
    return dtype == DTYPE_BF16 ? &bf16 : dtype == DTYPE_F32 ? &f32 : dtype == DTYPE_F64 ? &f64 : NULL;
}

__attribute__((visibility("default"))) const struct cuda_plugin longbp_cuda = {
    .version = CUDA_PLUGIN_VERSION,
    .device_bytes = sizeof(struct device),
    .ops_bytes = sizeof(struct device_ops),
    .ops = ops,
};
