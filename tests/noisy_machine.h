// Noisy machine: samples of a sweep's times as a machine would give them on which trials and runs drift, simulated.
#pragma once
#include "harness/results/time_change.h"
#include "kernels/base/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TRIALS_MAX   64
#define SAMPLES_MAX  40
#define RUNS_MAX     8

struct machine {
    double noise;   // of a sample, standard deviation of the log
    double outlier; // the chance of a sample that takes 1.3 to 2 times as long
    double trial;   // drift of a trial's process
    double run;     // drift of a whole run
    double hit;     // the chance of a trial's process that a neighbour slows by 5 to 50 %
};

struct sweep {
    size_t methods, options, contexts, samples, runs;
};

enum slowed { NOTHING, ALL_CELLS, ONE_METHOD, ONE_CONTEXT, ONE_CELL };

// Everything the judge sees, with the memory it borrows.
struct attempt {
    size_t count;
    struct time_trial trials[TRIALS_MAX];
    double base[TRIALS_MAX][SAMPLES_MAX], new[TRIALS_MAX][SAMPLES_MAX];
};

static inline bool is_slowed(enum slowed slowed, const struct sweep *sweep, size_t context, size_t method,
                             size_t trial)
{
    return slowed == ALL_CELLS || (slowed == ONE_METHOD && method == 1) ||
           (slowed == ONE_CONTEXT && context + 1 == sweep->contexts) || (slowed == ONE_CELL && trial == 3);
}

struct stream {
    struct random random;
    uint64_t next;
};

static inline double uniform(struct stream *stream)
{
    return random_uniform(&stream->random, stream->next++);
}

static inline double normal(struct stream *stream)
{
    return random_normal(&stream->random, stream->next++);
}

// The samples of one side of a trial. The runs' drifts are given, for all trials share them.
static inline struct time_samples take_samples(struct stream *stream, const struct machine *machine,
                                               const struct sweep *sweep, double ms, const double *run_drift,
                                               double *samples)
{
    struct time_run runs[RUNS_MAX];
    for (size_t run = 0; run < sweep->runs; run++) {
        double drift = run_drift[run] + machine->trial * normal(stream);
        if (uniform(stream) < machine->hit)
            drift += log(1.05 + 0.45 * uniform(stream));
        runs[run] = (struct time_run){samples, sweep->samples};
        for (size_t i = 0; i < sweep->samples; i++) {
            double noise = machine->noise * normal(stream);
            if (uniform(stream) < machine->outlier)
                noise += log(1.3 + 0.7 * uniform(stream));
            *samples++ = ms * exp(drift + noise);
        }
    }
    return time_samples_pool(runs, sweep->samples ? sweep->runs : 0, false);
}

static inline void measure(struct attempt *attempt, struct stream *stream, const struct machine *machine,
                           const struct sweep *sweep, enum slowed slowed, double factor)
{
    static const char *const methods[] = {"full", "checkpoint", "streambp", "seco", "spaco", "other"};
    static const char *const contexts[] = {"512", "1024", "2048", "4096"};
    double base_drift[RUNS_MAX], new_drift[RUNS_MAX];
    for (size_t run = 0; run < sweep->runs; run++) {
        base_drift[run] = machine->run * normal(stream);
        new_drift[run] = machine->run * normal(stream);
    }
    attempt->count = 0;
    for (size_t context = 0; context < sweep->contexts; context++) {
        for (size_t method = 0; method < sweep->methods; method++) {
            for (size_t option = 0; option < sweep->options; option++) {
                size_t i = attempt->count++;
                double ms = 10 * exp(2 * uniform(stream));
                double slow = is_slowed(slowed, sweep, context, method, i) ? factor : 1;
                attempt->trials[i] = (struct time_trial){
                    .base = take_samples(stream, machine, sweep, ms, base_drift, attempt->base[i]),
                    .new = take_samples(stream, machine, sweep, ms * slow, new_drift, attempt->new[i]),
                    .groups = {methods[method], contexts[context], "f32"}};
            }
        }
    }
}

// The sweep of most tests.
static const struct sweep baseline = {.methods = 6, .options = 4, .contexts = 2, .samples = 5, .runs = 1};
