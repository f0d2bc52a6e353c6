#include "kernels/cuda/plugin/pinned.h"
#include "kernels/cuda/plugin/check.h"

struct block {
    void *pointer;
    size_t bytes;
};

struct pinned {
    struct block *kept;
    size_t count, capacity;
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
        (void)cudaGetLastError(); // it is dealt with
        status_set(status, STATUS_OOM,
                   "the driver refused %zu bytes of pinned host memory: %s (error %d); limits.host_memory is above "
                   "what it gives to this process",
                   bytes, cudaGetErrorString(error), (int)error);
        return NULL;
    }
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
        CUDA_CHECK(cudaFreeHost(pinned->kept[--pinned->count].pointer));
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
