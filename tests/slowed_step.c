// A build in which steps of one method, $SLOWED (streambp), take a fifth longer, by the clock and of the
// processors, while the same work is counted: what `longbp compare` is to find (tools/pairs, `make pairs`).
#include "kernels/base/clock.h"
#include "methods/method.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOWED_BY 0.2

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Keeps every thread at work until each has taken its share of so many seconds of the processors.
static void keep_busy(double seconds)
{
#pragma omp parallel
    {
        double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds / omp_get_num_threads();
        while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end) {
        }
    }
}

extern __typeof__(method_step) __real_method_step, __wrap_method_step;
void __wrap_method_step(const struct method *method, struct model *model, const struct batch *batch,
                        const void *options, struct step_report *report)
{
    const char *slowed = getenv("SLOWED");
    double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    __real_method_step(method, model, batch, options, report);
    if (strcmp(method->name, slowed ? slowed : "streambp") != 0)
        return;
    double start = clock_s();
    keep_busy(SLOWED_BY * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before));
    report->ms += 1e3 * (clock_s() - start);
}
