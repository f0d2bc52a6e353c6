// Provenance: the build's own facts come from the Makefile's definitions, the machine's from /proc and uname.
#include "harness/machine/provenance.h"
#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifndef LONGBP_VERSION
#define LONGBP_VERSION "unknown"
#endif
#ifndef LONGBP_REVISION
#define LONGBP_REVISION "unknown"
#endif
#ifndef LONGBP_DIRTY
#define LONGBP_DIRTY -1
#endif
#ifndef LONGBP_FLAGS
#define LONGBP_FLAGS "unknown"
#endif
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

// Calls `found` with the value of every line of /proc/cpuinfo that starts with `key`.
static void cpuinfo_each(const char *key, void (*found)(const char *value, void *context), void *context)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[4096]; // enough for the longest line, the flags, which are not used
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        found(colon + 1 + strspn(colon + 1, " \t"), context);
    }
    fclose(file);
}

static void keep_first(const char *value, void *context)
{
    char *cpu = context;
    if (!*cpu)
        snprintf(cpu, sizeof((struct provenance *)0)->cpu, "%s", value);
}

static void keep_largest(const char *value, void *context)
{
    double *largest = context, mhz = strtod(value, NULL);
    if (mhz > *largest)
        *largest = mhz;
}

double provenance_clock_mhz(void)
{
    double mhz = 0;
    cpuinfo_each("cpu MHz", keep_largest, &mhz);
    return mhz;
}

const char *provenance_blas_core(void)
{
    return openblas_get_corename();
}

static double spin_count(void)
{
    const char *set = getenv("GOMP_SPINCOUNT");
    char *end;
    double count = set ? strtod(set, &end) : NAN;
    return set && end > set && !*end && count >= 0 && isfinite(count) ? count : NAN;
}

void provenance_take(struct provenance *provenance)
{
    *provenance = (struct provenance){
        .version = LONGBP_VERSION,
        .revision = LONGBP_REVISION,
        .compiler = COMPILER,
        .flags = LONGBP_FLAGS,
        .dirty = LONGBP_DIRTY,
        .host_memory_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE),
        .threads = omp_get_max_threads(),
        .spin_count = spin_count(),
        .clock_mhz_before = provenance_clock_mhz(),
    };
    snprintf(provenance->blas, sizeof provenance->blas, "%s, core %s", openblas_get_config(),
             provenance_blas_core());
    cpuinfo_each("model name", keep_first, provenance->cpu);
    struct utsname system;
    if (uname(&system) == 0) {
        if (!provenance->cpu[0])
            snprintf(provenance->cpu, sizeof provenance->cpu, "%s", system.machine);
        snprintf(provenance->kernel, sizeof provenance->kernel, "%s %s", system.sysname, system.release);
    }
    time_t now = time(NULL);
    struct tm utc;
    strftime(provenance->time, sizeof provenance->time, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}
