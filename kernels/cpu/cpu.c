#include "kernels/cpu/cpu.h"
#include <malloc.h>
#include <omp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

void cpu_start(void)
{
    // Steps allocate and release the same buffers repeatedly. Without this the kernel would map, zero and unmap
    // each one inside the timed region.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

// Per thread the BLAS takes a buffer of 128 MiB, for which it retries for ever if there is no room, and the C
// library a stack and a heap.
#define THREAD_BYTES ((size_t)(128 + 8 + 64) << 20)

// Bytes for tensors under a limit on the process's address space.
static size_t address_space_left(void)
{
    struct rlimit limit;
    size_t pages = 0;
    FILE *file = NULL;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        !(file = fopen("/proc/self/statm", "r")))
        return SIZE_MAX;
    bool read = fscanf(file, "%zu", &pages) == 1;
    fclose(file);
    size_t taken = pages * (size_t)sysconf(_SC_PAGESIZE) + (size_t)omp_get_max_threads() * THREAD_BYTES;
    return !read ? SIZE_MAX : limit.rlim_cur > taken ? limit.rlim_cur - taken : ARENA_LIMIT_NOTHING;
}

static size_t memory_left(void)
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
    if (!kib && sysinfo(&info) == 0)
        return info.freeram * info.mem_unit;
    return kib * 1024;
}

size_t cpu_available_bytes(const char **what)
{
    size_t memory = memory_left(), addresses = address_space_left();
    *what = memory < addresses ? "free memory of the machine"
                               : "ulimit -v, less the needs of the BLAS and the C library";
    return memory < addresses ? memory : addresses;
}

void *cpu_allocate(struct arena *arena, size_t bytes, struct status *status)
{
    (void)arena, (void)status;
    return aligned_alloc(ARENA_ALIGNMENT, bytes);
}

void cpu_release(struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena, (void)bytes;
    if (ARENA_FILLS_FREED) {
        memset(pointer, ARENA_FREED, bytes);
        __asm__ volatile("" : : "r"(pointer) : "memory"); // compilers drop stores before free
    }
    free(pointer);
}

size_t cpu_block_rows(const struct device *device, size_t cols)
{
    (void)device, (void)cols;
    return 1024;
}

const struct device_ops *cpu_ops(enum dtype dtype)
{
    static const struct device_ops *const ops[DTYPE_COUNT] = {
        [DTYPE_F64] = &cpu_ops_f64, [DTYPE_F32] = &cpu_ops_f32, [DTYPE_BF16] = &cpu_ops_bf16};
    return ops[dtype];
}
