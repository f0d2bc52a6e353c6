#include "harness/blas_core.h"
#include "harness/provenance.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void blas_core_choose(char **argv)
{
#ifdef __x86_64__
    const char *core = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
                           ? "SkylakeX"
                       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell"
                                                                                         : NULL;
    if (core && strcmp(provenance_blas_core(), "Prescott") == 0 && !getenv("OPENBLAS_CORETYPE") &&
        setenv("OPENBLAS_CORETYPE", core, 1) == 0)
        execv("/proc/self/exe", argv); // returns only if it could not: then the slow kernels must do
#else
    (void)argv;
#endif
}
