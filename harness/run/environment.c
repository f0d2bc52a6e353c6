#include "harness/run/environment.h"
#include "harness/run/exit_code.h"
#include "harness/run/provenance.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPIN_COUNT "5000"

// The name that OpenBLAS gives the kernels of this CPU's widest vectors; NULL: its own choice will do.
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
        // The lowest number that is free is this one.
        if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) != descriptor) {
            _exit(EXIT_BAD_INPUT);
        }
    }
}

void environment_settle(char **argv)
{
    const char *core = missed_core();
    bool changed = false;
    if (core && !getenv("OPENBLAS_CORETYPE")) {
        changed |= setenv("OPENBLAS_CORETYPE", core, 1) == 0;
    }
    if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT")) {
        changed |= setenv("GOMP_SPINCOUNT", SPIN_COUNT, 1) == 0;
    }
    if (changed) {
        execv("/proc/self/exe", argv);
    }
}
