#include "kernels/cuda/plugin/pinned.h"
#include "kernels/cuda/kernels/check.h"

struct block {
    void *pointer;
    size_t bytes;
};

struct pinned {
    struct block *kept;
    size_t count, capacity;
    size_t bytes; // allocated from the driver
};

struct pinned *pinned_open(void)
{
    struct pinned *pinned = calloc(1, sizeof *pinned);
    CHECK(pinned);
    return pinned;
}

void *pinned_allocate(struct pinned *pinned, size_t bytes, struct status *status)
{
    for (size_t i = pinned->count; i-- > 0;) {
        if (pinned->kept[i].bytes == bytes) {
            void *pointer = pinned->kept[i].pointer;
            pinned->kept[i] = pinned->kept[--pinned->count];
            return pointer;
        }
    }
    void *pointer = NULL;
    cudaError_t error = cudaHostAlloc(&pointer, bytes, cudaHostAllocDefault);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); // handled
        status_set(status, STATUS_OOM,
                   "the driver refused %zu bytes of pinned host memory: %s (error %d); it has given this process "
                   "%zu, and limits.host_memory must not be above what it gives",
                   bytes, cudaGetErrorString(error), (int)error, pinned->bytes);
        return NULL;
    }
    pinned->bytes += bytes;
    return pointer;
}

void pinned_release(struct pinned *pinned, void *pointer, size_t bytes)
{
    if (pinned->count == pinned->capacity) {
        pinned->capacity = pinned->capacity ? 2 * pinned->capacity : 64;
        pinned->kept = realloc(pinned->kept, pinned->capacity * sizeof *pinned->kept);
        CHECK(pinned->kept);
    }
    pinned->kept[pinned->count++] = (struct block){pointer, bytes};
}

void pinned_trim(struct pinned *pinned)
{
    while (pinned->count) {
        struct block block = pinned->kept[--pinned->count];
        CUDA_CHECK(cudaFreeHost(block.pointer));
        pinned->bytes -= block.bytes;
    }
}

void pinned_close(struct pinned *pinned)
{
    if (pinned) {
        pinned_trim(pinned);
        free(pinned->kept);
        free(pinned);
    }
}
