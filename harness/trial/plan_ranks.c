#include "harness/plan/rank_traces.h"
#include "harness/trial/run_steps.h"
#include <math.h>

// Takes samples of the comm's rank and records its figures.
static const struct setup *trace_rank(void *tracer, struct comm comm, struct trace *traces)
{
    struct run *run = tracer;
    comm.trace = traces ? &run->trace : NULL;
    run->traces = traces;
    run->rank = comm.rank;
    setup_close(&run->setup);
    run->estimate_ms = run->estimate_squares = 0;
    if (!run_open_part(run, &comm) || !run_take_samples(run))
        return NULL;
    run->draws_planned = run->samples;
    run->ranks[comm.rank] = run->figures;
    return &run->setup;
}

// Averages a step's time over the samples, and the share in which each rank waits.
static bool estimate(struct run *run, const struct rank_traces *traced)
{
    size_t samples = run->samples;
    double *busy_s = calloc(traced->count + 1, sizeof *busy_s), *all_s = calloc(traced->count + 1, sizeof *all_s);
    double sum_s = 0, seconds;
    for (size_t sample = 0; sample < samples && rank_traces_time(traced, sample, &seconds, busy_s, &run->status);
         sample++) {
        sum_s += seconds;
        for (size_t rank = 0; rank < traced->count; rank++)
            all_s[rank] += busy_s[rank];
    }
    run->estimate_ms = 1e3 * sum_s / (double)samples;
    for (size_t rank = 0; rank < traced->count; rank++)
        run->ranks[rank].idle_share = 1 - all_s[rank] / sum_s;
    free(all_s);
    free(busy_s);
    return run_fine(run);
}

bool plan_ranks(struct run *run)
{
    const struct trial *trial = run->trial;
    struct rank_traces traced = {.trial = trial,
                                 .interconnect = trial->profile ? trial_interconnect(trial) : NULL,
                                 .samples = run_samples_max(trial),
                                 .trace = trace_rank,
                                 .tracer = run};
    bool done = rank_traces_open(&traced);
    run->traces = NULL;
    for (size_t rank = 0; done && rank < traced.count; rank++)
        run->ranks[rank] = run->ranks[traced.source[rank]];
    run->estimate_ms = NAN;
    done = done && (!traced.interconnect || estimate(run, &traced));
    if (done)
        run->figures = rank_figures_merge(run->ranks, traced.count);
    rank_traces_close(&traced);
    return done;
}
