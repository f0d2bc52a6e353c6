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

void *cpu_allocate(struct arena *arena, size_t bytes, struct status *status)
{
    (void)arena, (void)status;
    return aligned_alloc(ARENA_ALIGNMENT, bytes);
}

void cpu_release(struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena, (void)bytes;
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

const struct device_ops *cpu_ops(enum dtype dtype)
{
    static const struct device_ops *const ops[DTYPE_COUNT] = {
        [DTYPE_F64] = &cpu_ops_f64, [DTYPE_F32] = &cpu_ops_f32, [DTYPE_BF16] = &cpu_ops_bf16};
    return ops[dtype];
}
