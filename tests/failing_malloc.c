// Failing malloc: preloaded into longbp, it counts the allocations of all its processes, libraries' included, and
// lets one of them fail. $FAIL_COUNTS names a file of two counters, of commands and of a sweep's trials; $FAIL_IN
// is "command" or "trial", and $FAIL_AT which of its allocations fails, from 1 on.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static _Atomic(unsigned long) *counter; // of this process's kind; NULL: its allocations do not count
static unsigned long fail_at;           // 0: none
static int opened;

static size_t read_file(const char *path, char *text, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got;
    while (file >= 0 && used < room - 1 && (got = read(file, text + used, room - 1 - used)) > 0)
        used += (size_t)got;
    if (file >= 0)
        close(file);
    text[used] = 0;
    return used;
}

// The first allocation comes before anything in this process has been set up: system calls alone.
static void open_counter(void)
{
    static char environment[65536], words[4096];
    const char *counts = NULL, *in = "", *at = "0", *slash;
    size_t bytes = read_file("/proc/self/environ", environment, sizeof environment);
    for (char *entry = environment; entry < environment + bytes; entry += strlen(entry) + 1) {
        if (strncmp(entry, "FAIL_COUNTS=", 12) == 0)
            counts = entry + 12;
        else if (strncmp(entry, "FAIL_IN=", 8) == 0)
            in = entry + 8;
        else if (strncmp(entry, "FAIL_AT=", 8) == 0)
            at = entry + 8;
    }
    read_file("/proc/self/cmdline", words, sizeof words);
    slash = strrchr(words, '/');
    if (!counts || strcmp(slash ? slash + 1 : words, "longbp") != 0) // gnuplot, mpirun, a shell
        return;
    int is_trial = strcmp(words + strlen(words) + 1, "trial") == 0;
    int file = open(counts, O_RDWR | O_CLOEXEC);
    void *map = mmap(NULL, 2 * sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED)
        _exit(99);
    counter = (_Atomic(unsigned long) *)map + is_trial;
    if (strcmp(in, is_trial ? "trial" : "command") == 0)
        while (*at >= '0' && *at <= '9')
            fail_at = 10 * fail_at + (unsigned long)(*at++ - '0');
}

static int fails(void)
{
    if (!opened) {
        opened = 1;
        open_counter();
    }
    if (!counter || atomic_fetch_add(counter, 1) + 1 != fail_at)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *pointer, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(pointer, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **pointer, size_t alignment, size_t bytes)
{
    void *made = fails() ? NULL : __libc_memalign(alignment, bytes);
    if (made)
        *pointer = made;
    return made ? 0 : ENOMEM;
}
