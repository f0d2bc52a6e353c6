#include "harness/machine/environment.h"
#include "harness/files/io.h"
#include "harness/files/unfinished.h"
#include "harness/machine/cores.h"
#include "harness/machine/exit_code.h"
#include "harness/machine/program_path.h"
#include "harness/machine/provenance.h"
#include "harness/machine/spin_count.h"
#include <ctype.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// Stack per thread. Steps have needed more than 256 KiB.
#define STACK_BYTES_MIN ((rlim_t)1 << 20)
#define STACK_BYTES_MAX 0x1p30
// The OpenMP library keeps data of each of its threads on the stack.
#define OMP_THREADS_MAX 4096

#define DESCRIPTORS_MIN 64

// Address space for OpenBLAS: a buffer per thread, and the rest.
#define BLAS_BUFFER_BYTES ((size_t)128 << 20)
#define BLAS_THREADS_MAX  64
#define OTHER_BYTES       ((size_t)16 << 20)

static bool left; // main

static void leave(int exit_code, void *unused)
{
    (void)unused;
    if (!left && exit_code == EXIT_FAILURE) {
        unfinished_remove();
        fflush(stdout);
        _exit(EXIT_BAD_INPUT);
    }
}

int environment_leave(int exit_code)
{
    left = true;
    return exit_code;
}

// Finds a variable by its name and "="; getenv does not work yet at this point. NULL: not set.
static const char *variable(char *const *variables, const char *start)
{
    size_t length = strlen(start);
    while (*variables && strncmp(*variables, start, length) != 0)
        variables++;
    return *variables ? *variables + length : NULL;
}

// The thread count that OpenBLAS computes: OMP_NUM_THREADS, limited to the machine's processors; without it, the
// usable processors.
static size_t blas_threads(char *const *variables)
{
    cpu_set_t set;
    const char *text = variable(variables, "OMP_NUM_THREADS=");
    size_t asked = text ? strtoul(text, NULL, 10) : 0, threads = BLAS_THREADS_MAX;
    if (asked)
        threads = (size_t)sysconf(_SC_NPROCESSORS_CONF);
    else if (sched_getaffinity(0, sizeof set, &set) == 0)
        threads = (size_t)CPU_COUNT(&set);
    threads = asked && asked < threads ? asked : threads;
    return threads < BLAS_THREADS_MAX ? threads : BLAS_THREADS_MAX;
}

// Checks the syntax of OMP_NUM_THREADS, one number per nested level; the OpenMP library would ignore anything else.
static bool is_thread_count(const char *text)
{
    bool counted;
    do {
        text += strspn(text, " ");
        size_t digits = strspn(text, "0123456789");
        counted = strspn(text, "0") < digits && digits < 10;
        text += digits;
        text += strspn(text, " ");
    } while (counted && *text == ',' && *text++);
    return counted && !*text;
}

// Runs before libraries are initialised, so it uses system calls alone.
static void begin(int argc, char **argv, char **variables)
{
    (void)argc, (void)argv;
    on_exit(leave, NULL);
    const char *asked = variable(variables, "OMP_NUM_THREADS=");
    if (asked && !is_thread_count(asked)) {
        dprintf(
            STDERR_FILENO,
            "longbp: OMP_NUM_THREADS=%.40s: a number of threads from 1 on was expected; set that, or unset it\n",
            asked);
        _exit(EXIT_BAD_INPUT);
    }
    size_t bytes = blas_threads(variables) * BLAS_BUFFER_BYTES + OTHER_BYTES;
    void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        dprintf(STDERR_FILENO,
                "longbp: out of address space: loading the BLAS takes %zu MiB, 128 for each thread; raise the "
                "limit (ulimit -v), or set OMP_NUM_THREADS to fewer\n",
                bytes >> 20);
        _exit(EXIT_BAD_INPUT);
    }
    munmap(room, bytes);
}

static void (*const first)(int, char **, char **) __attribute__((section(".preinit_array"), used)) = begin;

// OpenBLAS's name for the kernels of this CPU's widest vectors; NULL: its own choice is right.
static const char *missed_core(void)
{
#ifdef __x86_64__
    if (strcmp(provenance_blas_core(), "Prescott") == 0) {
        bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
        bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        return avx512 ? "SkylakeX" : avx2 ? "Haswell" : NULL;
    }
#endif
    return NULL;
}

void environment_open_streams(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        // open returns the lowest free number, which is this one.
        if (fcntl(descriptor, F_GETFD) < 0 && io_open("/dev/null", O_RDWR, 0) != descriptor)
            _exit(EXIT_BAD_INPUT);
    }
}

// The size that the variable gives each thread but the first, in KiB unless it has B, K, M or G; 0: no valid size.
static double thread_stack_bytes(const char *text)
{
    static const char units[] = "BKMG";
    char *end;
    double size = strtod(text, &end);
    while (*end == ' ')
        end++;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : &units[1];
    return unit && size > 0 && (!*end || !end[1]) ? size * (double)(1ull << 10 * (unit - units)) : 0;
}

static bool has_thread_stacks(void)
{
    static const char *const names[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        double bytes = text ? thread_stack_bytes(text) : 0;
        if (bytes == 0 || (bytes >= (double)STACK_BYTES_MIN && bytes <= STACK_BYTES_MAX))
            continue;
        fprintf(stderr,
                "longbp: %s=%.40s: steps need stacks of 1M to 1G for each thread; set that, or leave it out\n",
                names[i], text);
        return false;
    }
    return true;
}

// Without enough stack a step would crash without a message.
static bool has_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES_MIN)
        return true;
    fprintf(stderr,
            "longbp: the stack is limited to %llu KiB, and steps need %llu; raise the limit (ulimit -s 8192)\n",
            (unsigned long long)limit.rlim_cur >> 10, (unsigned long long)STACK_BYTES_MIN >> 10);
    return false;
}

// gnuplot and the launcher of ranks need descriptors too, and their own messages are unclear.
static bool has_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= DESCRIPTORS_MIN)
        return true;
    fprintf(stderr,
            "longbp: at most %llu files can be open, and %d may be needed; raise the limit (ulimit -n 1024)\n",
            (unsigned long long)limit.rlim_cur, DESCRIPTORS_MIN);
    return false;
}

// 0: the user has not set it.
static size_t threads_asked(void)
{
    const char *asked = getenv("OMP_NUM_THREADS");
    return asked ? strtoul(asked, NULL, 10) : 0;
}

static bool has_threads(void)
{
    if (threads_asked() <= OMP_THREADS_MAX)
        return true;
    fprintf(
        stderr,
        "longbp: OMP_NUM_THREADS=%.40s: at most %d threads are served, and this machine has %ld processors; set "
        "fewer, or leave it out\n",
        getenv("OMP_NUM_THREADS"), OMP_THREADS_MAX, sysconf(_SC_NPROCESSORS_ONLN));
    return false;
}

// Marks GOMP_SPINCOUNT as chosen here.
#define CHOSEN "LONGBP_SPINS"

size_t environment_threads(size_t processes)
{
    cpu_set_t set;
    size_t asked = threads_asked(), each = cores_usable() / processes;
    if (asked)
        return asked;
    if (processes == 1 && sched_getaffinity(0, sizeof set, &set) == 0) // the OpenMP library's own choice
        return (size_t)CPU_COUNT(&set);
    return each ? each : 1;
}

static bool set_spin_count(size_t processes)
{
    char count[24];
    snprintf(count, sizeof count, "%zu",
             spin_count_choose(processes, environment_threads(processes), cores_usable()));
    return setenv("GOMP_SPINCOUNT", count, 1) == 0 && setenv(CHOSEN, "by load", 1) == 0;
}

void environment_choose_spins(size_t processes)
{
    if (getenv(CHOSEN))
        set_spin_count(processes);
}

// Warns once: not again in a trial's process.
static void say_threads(char **argv)
{
    size_t asked = threads_asked(), usable = cores_usable();
    bool again = getenv(CHOSEN) || (argv[0] && argv[1] && strcmp(argv[1], "trial") == 0);
    if (asked > usable && !again)
        fprintf(stderr, "longbp: OMP_NUM_THREADS=%zu exceeds the %zu usable processors: threads will share them\n",
                asked, usable);
}

bool environment_settle(char **argv)
{
    const char *core = missed_core();
    bool changed = false;
    unsetenv("POSIXLY_CORRECT"); // options may follow arguments
    if (!has_descriptors() || !has_stack() || !has_thread_stacks() || !has_threads())
        return false;
    say_threads(argv);
    if (core && !getenv("OPENBLAS_CORETYPE"))
        changed |= setenv("OPENBLAS_CORETYPE", core, 1) == 0;
    if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT"))
        changed |= set_spin_count(1);
    if (changed) {
        execv(program_path(), argv);
        fprintf(stderr,
                "longbp: cannot be started anew with OPENBLAS_CORETYPE=%s and GOMP_SPINCOUNT=%s (is /proc "
                "mounted?): without them it may be several times slower\n",
                core ? core : "", getenv("GOMP_SPINCOUNT"));
    }
    return true;
}
