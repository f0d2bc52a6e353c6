#include "kernels/cpu/cpu.h"
#include <malloc.h>
#include <string.h>
#include <sys/sysinfo.h>

void cpu_start(void)
{
    // A step allocates and releases the same buffers again and again; without this each one would be mapped, zeroed
    // by the kernel and unmapped anew, inside the timed region.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

size_t cpu_available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    size_t kib = 0;
    if (file) {
        char line[256];
        while (fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %zu kB", &kib) != 1) {
        }
        fclose(file);
    }
    struct sysinfo info;
    if (!kib && sysinfo(&info) == 0) {
        return info.freeram * info.mem_unit;
    }
    return kib * 1024;
}

void *cpu_allocate(const struct arena *arena, size_t bytes)
{
    (void)arena;
    return aligned_alloc(ARENA_ALIGNMENT, bytes);
}

void cpu_release(const struct arena *arena, void *pointer)
{
    (void)arena;
    free(pointer);
}

size_t cpu_block_rows(const struct device *device, size_t cols)
{
    (void)device, (void)cols;
    return 1024;
}

void cpu_upload(struct device *device, struct tensor t, const void *src)
{
    (void)device;
    memcpy(t.data, src, tensor_bytes(t));
}

void cpu_download(struct device *device, void *dst, struct tensor t)
{
    (void)device;
    memcpy(dst, t.data, tensor_bytes(t));
}

#define DRAWN 1024 // numbers at a time, on the stack

void cpu_random_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                       enum dtype rounding)
{
    (void)device;
    CHECK(t.dtype == DTYPE_F64 || t.dtype == DTYPE_F32 || t.dtype == DTYPE_BF16);
    size_t count = tensor_count(t);
#pragma omp parallel for schedule(static)
    for (size_t first = 0; first < count; first += DRAWN) {
        double values[DRAWN];
        size_t some = count - first < DRAWN ? count - first : DRAWN;
        random_normals(&random, first, some, mean, deviation, values);
        for (size_t i = 0; i < some; i++) {
            double value = dtype_round(values[i], rounding);
            if (t.dtype == DTYPE_F64) {
                ((double *)t.data)[first + i] = value;
            } else if (t.dtype == DTYPE_F32) {
                ((float *)t.data)[first + i] = (float)value;
            } else {
                ((uint16_t *)t.data)[first + i] = dtype_bf16((float)value);
            }
        }
    }
}

// Large fills and copies are split among threads, in pieces of this many bytes.
#define PIECE ((size_t)1 << 18)

void cpu_zero(struct device *device, struct tensor t)
{
    (void)device;
    size_t size = tensor_bytes(t);
#pragma omp parallel for schedule(static) if (size > 2 * PIECE)
    for (size_t first = 0; first < size; first += PIECE) {
        memset((char *)t.data + first, 0, size - first < PIECE ? size - first : PIECE);
    }
}

void cpu_copy(struct device *device, struct tensor dst, struct tensor src)
{
    (void)device;
    CHECK(dst.dtype == src.dtype);
    size_t size = tensor_bytes(dst);
#pragma omp parallel for schedule(static) if (size > 2 * PIECE)
    for (size_t first = 0; first < size; first += PIECE) {
        memcpy((char *)dst.data + first, (const char *)src.data + first,
               size - first < PIECE ? size - first : PIECE);
    }
}

const struct device_ops *cpu_ops(enum dtype dtype)
{
    static const struct device_ops *const ops[DTYPE_COUNT] = {
        [DTYPE_F64] = &cpu_ops_f64, [DTYPE_F32] = &cpu_ops_f32, [DTYPE_BF16] = &cpu_ops_bf16};
    return ops[dtype];
}
