// CUDA: the device's table. Memory comes from the driver's stream-ordered pool, GEMM from cuBLASLt, bf16 attention
// from cuDNN, everything else from the device's own kernels, all in one stream, so that only reading a result
// waits. Copies to and from pinned host memory use two more streams.
#include "kernels/cuda/kernels/check.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/plugin/attention_cudnn.h"
#include "kernels/cuda/plugin/attention_engines.h"
#include "kernels/cuda/plugin/backend.h"
#include "kernels/cuda/plugin/gemm.h"
#include "kernels/cuda/plugin/nccl.h"
#include "kernels/cuda/plugin/ranges.h"
#include "kernels/cuda/workspace.h"
#include "kernels/device/tensor.h"

_Static_assert(CUDA_SCRATCH_BYTES <= CUDA_WORKSPACE_BYTES, "the kernels' scratch is part of the workspace");

// Free memory that the arena leaves: kernels of the device and its libraries are loaded on first use.
#define LOADED_LATER_BYTES ((size_t)512 << 20)
// Further memory with several ranks: NCCL creates communicators on first use. A group's takes some 150 MiB and a
// message's 50; a rank has at most two and four (an estimate).
#define COMMUNICATORS_BYTES ((size_t)512 << 20)
static bool of_ranks; // set before the process's first device

// ---- queues

// Waits for exchanges with other ranks, without hanging if they fail.
static void wait_for_ranks(struct device *device)
{
    if (backend(device)->nccl)
        nccl_wait(backend(device)->nccl, device);
}

void cuda_wait(struct device *device, cudaEvent_t event)
{
    wait_for_ranks(device);
    CUDA_CHECK(cudaEventSynchronize(event));
}

struct CUstream_st *cuda_stream(const struct device *device)
{
    return backend(device)->streams[QUEUE_COMPUTE];
}

static void synchronize(struct device *device)
{
    struct backend *b = backend(device);
    wait_for_ranks(device);
    CUDA_CHECK(cudaStreamSynchronize(b->streams[QUEUE_COMPUTE]));
    if (b->copied) {
        CUDA_CHECK(cudaStreamSynchronize(b->streams[QUEUE_OUT]));
        CUDA_CHECK(cudaStreamSynchronize(b->streams[QUEUE_IN]));
        b->copied = false;
    }
}

// The host tensor is pinned; otherwise the copy would be synchronous.
static void transfer(struct device *device, enum queue queue, struct tensor dst, struct tensor src)
{
    struct backend *b = backend(device);
    enum cudaMemcpyKind kind = queue == QUEUE_OUT ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    CUDA_CHECK(cudaMemcpyAsync(dst.data, src.data, tensor_bytes(src), kind, b->streams[queue]));
    b->copied = true;
}

static cudaEvent_t *event_of(struct backend *b, struct event event)
{
    return &b->events[event.queue][event.serial % QUEUE_EVENTS];
}

static void record(struct device *device, struct event event)
{
    struct backend *b = backend(device);
    cudaEvent_t *made = event_of(b, event);
    if (!*made)
        CUDA_CHECK(cudaEventCreateWithFlags(made, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(*made, b->streams[event.queue]));
    b->copied |= event.queue != QUEUE_COMPUTE;
}

static void wait(struct device *device, enum queue queue, struct event event)
{
    struct backend *b = backend(device);
    CUDA_CHECK(cudaStreamWaitEvent(b->streams[queue], *event_of(b, event), 0));
    b->copied |= queue != QUEUE_COMPUTE;
}

size_t cuda_shared_bytes(const struct device *device)
{
    return backend(device)->shared_bytes;
}

// ---- memory

static struct backend *backend_of(const struct arena *arena)
{
    return arena->device->backend;
}

// Returns the pool's unused memory to the driver, after all earlier work.
static void give_back(struct device *device)
{
    (void)cudaGetLastError(); // handled
    wait_for_ranks(device);
    CUDA_CHECK(cudaStreamSynchronize(cuda_stream(device)));
    CUDA_CHECK(cudaMemPoolTrimTo(backend(device)->pool, 0));
}

// The pool keeps released memory, so that after the first step no allocation reaches the driver. If it is too
// fragmented for a large allocation, everything unused is returned first. Drivers report a size beyond the card as
// out of memory, invalid or not supported. An error of earlier work, which an allocation may report too, remains
// and aborts in the wait.
static void *allocate(struct arena *arena, size_t bytes, struct status *status)
{
    (void)status;
    void *pointer = NULL;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (cudaMallocFromPoolAsync(&pointer, bytes, backend_of(arena)->pool, cuda_stream(arena->device)) ==
            cudaSuccess)
            return pointer;
        give_back(arena->device);
    }
    return NULL;
}

bool cuda_make_room(struct device *device, int attempt)
{
    give_back(device);
    return attempt == 0 || status_set(&device->status, STATUS_OOM,
                                      "the device has no memory left for an operation's launch: %zu MiB are live",
                                      device->arena.live_bytes >> 20);
}

// Stream-ordered: the next owner of this memory uses it after all earlier work.
static void release(struct arena *arena, void *pointer, size_t bytes)
{
    if (ARENA_FILLS_FREED)
        CUDA_CHECK(cudaMemsetAsync(pointer, ARENA_FREED, bytes, cuda_stream(arena->device)));
    CUDA_CHECK(cudaFreeAsync(pointer, cuda_stream(arena->device)));
}

static void *pin(struct backend *b, size_t bytes, struct status *status)
{
    void *pointer = NULL;
    cudaError_t error = cudaHostAlloc(&pointer, bytes, cudaHostAllocDefault);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); // handled
        status_set(status, STATUS_OOM,
                   "the driver refused %zu bytes of pinned host memory: %s (error %d); it has given this process "
                   "%zu, and limits.host_memory must not be above what it gives",
                   bytes, cudaGetErrorString(error), (int)error, b->pinned_bytes);
        return NULL;
    }
    b->pinned_bytes += bytes;
    return pointer;
}

static void unpin(struct arena *arena, void *pointer, size_t bytes)
{
    CUDA_CHECK(cudaFreeHost(pointer));
    backend_of(arena)->pinned_bytes -= bytes;
}

// A card copies pinned host memory directly, concurrently with kernels. Pinning is slow and steps allocate the same
// buffers repeatedly, so released blocks are kept. They return to the driver before it may refuse a request, when
// no copy uses them.
static void *host_allocate(struct arena *arena, size_t bytes, struct status *status)
{
    struct backend *b = backend_of(arena);
    struct status refused = {0};
    void *pointer = arena_take_kept(arena, bytes);
    if (!pointer && !(pointer = pin(b, bytes, &refused))) {
        synchronize(arena->device);
        arena_free_kept(arena, unpin);
        pointer = pin(b, bytes, status);
    }
    return pointer;
}

static void upload(struct device *device, struct tensor t, const void *src)
{
    CUDA_CHECK(cudaMemcpyAsync(t.data, src, tensor_bytes(t), cudaMemcpyHostToDevice, cuda_stream(device)));
    wait_for_ranks(device);
    CUDA_CHECK(cudaStreamSynchronize(cuda_stream(device))); // the caller may reuse src
}

static void download(struct device *device, void *dst, struct tensor t)
{
    CUDA_CHECK(cudaMemcpyAsync(dst, t.data, tensor_bytes(t), cudaMemcpyDeviceToHost, cuda_stream(device)));
    wait_for_ranks(device);
    CUDA_CHECK(cudaStreamSynchronize(cuda_stream(device)));
}

void cuda_zero(struct device *device, struct tensor t)
{
    CUDA_CHECK(cudaMemsetAsync(t.data, 0, tensor_bytes(t), cuda_stream(device)));
}

// ---- the card's time and memory

static void mark(struct device *device, size_t mark)
{
    cudaEvent_t *event = &backend(device)->marks[mark];
    if (!*event)
        CUDA_CHECK(cudaEventCreate(event));
    CUDA_CHECK(cudaEventRecord(*event, cuda_stream(device)));
}

static double marks_ms(struct device *device, size_t from, size_t to)
{
    const struct backend *b = backend(device);
    float ms;
    cuda_wait(device, b->marks[to]);
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

static size_t total_bytes(struct device *device)
{
    (void)device;
    size_t free_bytes, total_bytes;
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    return total_bytes;
}

static size_t reserved_bytes(struct device *device)
{
    uint64_t bytes = 0;
    CUDA_CHECK(cudaMemPoolGetAttribute(backend(device)->pool, cudaMemPoolAttrReservedMemHigh, &bytes));
    return bytes;
}

// ---- opening

static void close(struct device *device)
{
    struct backend *b = backend(device);
    synchronize(device); // the libraries' plans are in use until then
    ranges_close(b->ranges, device);
    gemm_close(b->gemm);
    arena_free_kept(&device->host, unpin);
    if (b->pool)
        CUDA_CHECK(cudaMemPoolDestroy(b->pool));
    for (size_t i = 0; i < DEVICE_MARKS; i++)
        if (b->marks[i])
            CUDA_CHECK(cudaEventDestroy(b->marks[i]));
    for (int i = 0; i < QUEUE_COUNT; i++) {
        for (int j = 0; j < QUEUE_EVENTS; j++)
            if (b->events[i][j])
                CUDA_CHECK(cudaEventDestroy(b->events[i][j]));
        CUDA_CHECK(cudaStreamDestroy(b->streams[i]));
    }
    free(b);
    device->backend = NULL;
}

// The card's index among those that CUDA_VISIBLE_DEVICES leaves.
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
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(card, number);
    if (error == cudaSuccess)
        error = cudaDeviceGetPCIBusId(device->bus_id, sizeof device->bus_id, number);
    if (error == cudaSuccess)
        error = cudaFree(NULL); // creates the context
    if (error != cudaSuccess) {
        return status_set(status, STATUS_UNSUPPORTED, "device cuda cannot use its GPU: %s (error %d)",
                          cudaGetErrorString(error), (int)error);
    }
    struct cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, cuda_probe());
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); // handled
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
        "%.120s, %s, %d multiprocessors, compute capability %d.%d, driver for CUDA %d.%d, runtime %d.%d, cuBLASLt "
        "%zu, cuDNN %zu%s%s%s",
        card->name, device->bus_id, card->multiProcessorCount, card->major, card->minor, driver / 1000,
        driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, gemm_library_version(),
        attention_cudnn_library_version(),
        cuda_masks_by_own_kernels(device) ? ", masked attention by own kernels (LONGBP_MASKED_ATTENTION=own)" : "",
        device->ops->dtype == DTYPE_BF16 && !cuda_delta_takes_tensor_cores(device)
            ? ", the delta rule by scalar units (LONGBP_DELTA=simt)"
            : "",
        device->ops->dtype == DTYPE_BF16 && !cuda_grouped_takes_tensor_cores(device)
            ? ", experts' products by scalar units (LONGBP_GROUPED=simt)"
            : "");
    return true;
}

static bool open(struct device *device, struct status *status)
{
    struct cudaDeviceProp card = {0};
    if (!find_card(device, &card, status))
        return false;
    struct backend *b = calloc(1, sizeof *b);
    CHECK(b);
    device->backend = b;
    device->multiprocessors = (size_t)card.multiProcessorCount;
    device->compute_capability = 10 * (size_t)card.major + (size_t)card.minor;
    b->shared_bytes = card.sharedMemPerBlockOptin;
    for (int i = 0; i < QUEUE_COUNT; i++)
        CUDA_CHECK(cudaStreamCreateWithFlags(&b->streams[i], cudaStreamNonBlocking));
    struct cudaMemPoolProps pool = {.allocType = cudaMemAllocationTypePinned,
                                    .location = {.type = cudaMemLocationTypeDevice, .id = (int)device->card}};
    uint64_t keep = UINT64_MAX;
    int pools = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, (int)device->card));
    if (!pools) {
        status_set(status, STATUS_UNSUPPORTED, "device cuda needs a driver with memory pools; %s has none",
                   card.name);
        close(device);
        return false;
    }
    CUDA_CHECK(cudaMemPoolCreate(&b->pool, &pool));
    CUDA_CHECK(cudaMemPoolSetAttribute(b->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    b->gemm = gemm_open(cuda_stream(device), card.name, status);
    if (b->gemm && device->ops->dtype == DTYPE_BF16) {
        b->engines = attention_engines_of_card(device->card, status);
        device->no_deterministic_attention = b->engines && !attention_cudnn_is_deterministic(b->engines);
        size_t said = strlen(device->description);
        snprintf(device->description + said, sizeof device->description - said, "%s",
                 device->no_deterministic_attention ? " (no deterministic backward of attention)" : "");
    }
    if (!b->gemm || (device->ops->dtype == DTYPE_BF16 && !b->engines)) {
        close(device);
        return false;
    }
    b->ranges = ranges_open(device);
    size_t free_bytes, total_bytes, later_bytes = LOADED_LATER_BYTES + (of_ranks ? COMMUNICATORS_BYTES : 0);
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (device->arena.limit_bytes == 0) {
        arena_limit(&device->arena, free_bytes > later_bytes ? free_bytes - later_bytes : 1,
                    "what the card has free");
    }
    return true;
}

// Must precede the process's first CUDA call. Loading a kernel on first use may wait for all work on the card, and
// streams that share a hardware queue may wait for each other: either deadlocks if work on the card waits for a
// rank that waits for this one.
static bool join(struct world *world, struct status *status)
{
    CHECK(setenv("CUDA_MODULE_LOADING", "EAGER", 0) == 0 && setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0);
    of_ranks = nccl_join(world, status);
    return of_ranks;
}

#define OPERATION(name) .name = cuda_##name,
#define TABLE(element)                                                                                             \
    {                                                                                                              \
        .name = "cuda", .dtype = element, .source = {.allocate = allocate, .release = release},                    \
        .host_source = {.allocate = host_allocate, .release = arena_keep}, .rules = &cuda_rules, .open = open,     \
        .close = close, .mark = mark, .marks_ms = marks_ms, .used_bytes = used_bytes, .total_bytes = total_bytes,  \
        .reserved_bytes = reserved_bytes, .upload = upload, .download = download, .synchronize = synchronize,      \
        .transfer = transfer, .record = record, .wait = wait, DEVICE_OPERATIONS(OPERATION)                         \
    }

static const struct device_ops *ops(enum dtype dtype)
{
    static const struct device_ops bf16 = TABLE(DTYPE_BF16), f32 = TABLE(DTYPE_F32), f64 = TABLE(DTYPE_F64);
    return dtype == DTYPE_BF16 ? &bf16 : dtype == DTYPE_F32 ? &f32 : dtype == DTYPE_F64 ? &f64 : NULL;
}

__attribute__((visibility("default"))) const struct cuda_plugin longbp_cuda = {
    .sources = CUDA_PLUGIN_SOURCES,
    .ops = ops,
    .join = join,
};
