// Host: the CPU's second place. Its tensors are plain memory, or mappings of files without a name, which the kernel
// writes out when memory is short, up to the size of the folder's disk.
#define _GNU_SOURCE // mkostemp
#include "kernels/cpu/cpu.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Allocates the file's blocks, so that a full disk fails here, not at a write to the mapping.
static void *map(const char *folder, size_t bytes, struct status *status)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/longbp-XXXXXX", folder);
    int file, error;
    do
        file = mkostemp(path, O_CLOEXEC);
    while (file < 0 && errno == EINTR);
    if (file < 0 || unlink(path) != 0) {
        status_set(status, STATUS_BAD_INPUT, "host.folder: no file can be made in %s: %s", folder, strerror(errno));
        if (file >= 0)
            close(file);
        return NULL;
    }
    do
        error = posix_fallocate(file, 0, (off_t)bytes);
    while (error == EINTR);
    void *pointer =
        error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (pointer == MAP_FAILED) {
        status_set(
            status, STATUS_OOM,
            "host.folder: %s has no %zu bytes left: %s; name a folder with more room, or keep less on the host",
            folder, bytes, strerror(error ? error : errno));
    }
    close(file);
    return pointer == MAP_FAILED ? NULL : pointer;
}

static void unmap(struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena;
    CHECK(munmap(pointer, bytes) == 0);
}

void cpu_host_close(struct arena *arena)
{
    arena_free_kept(arena, unmap);
}

void *cpu_host_allocate(struct arena *arena, size_t bytes, struct status *status)
{
    const char *folder = arena->device->host_folder;
    if (!folder)
        return cpu_allocate(arena, bytes, status);
    void *pointer = arena_take_kept(arena, bytes);
    struct status full = {0};
    if (!pointer && arena->kept && !(pointer = map(folder, bytes, &full)))
        cpu_host_close(arena); // kept mappings may hold the missing memory
    return pointer ? pointer : map(folder, bytes, status);
}

void cpu_host_release(struct arena *arena, void *pointer, size_t bytes)
{
    (arena->device->host_folder ? arena_keep : cpu_release)(arena, pointer, bytes);
}
