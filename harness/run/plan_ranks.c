#include "harness/run/plan_ranks.h"
#include "harness/run/rank_times.h"
#include "harness/run/ranks.h"
#include "kernels/transformer/bucket.h"
#include <math.h>
#include <string.h>

// Of a stage, the last that were asked for.
#define WALKS_KNOWN 256
// Up to so many ranks of the same sequences each is walked for itself.
#define SHARES_WALKED 64

// What the ranks come to by which of them was walked.
struct plan {
    struct run *run;
    const struct links *links; // NULL: no estimate
    size_t count, replicas;
    size_t *walked;        // [count] the rank that was walked in place of each
    struct trace **traces; // [count] of those that were, of each sample; else NULL
};

static struct comm comm_of(const struct plan *plan, size_t rank)
{
    struct comm comm = comm_planned(rank, plan->count);
    comm.trace = plan->links ? &plan->run->trace : NULL;
    return comm;
}

static struct ranks ranks_at(const struct plan *plan, size_t rank)
{
    const struct trial *trial = plan->run->trial;
    struct comm comm = comm_of(plan, rank);
    return ranks_of(&comm, trial_split(trial), &trial->config, trial->context);
}

// As many layers, and the same neighbours.
static bool stages_alike(const struct plan *plan, size_t stage, size_t other)
{
    struct ranks a = ranks_at(plan, stage * plan->replicas), b = ranks_at(plan, other * plan->replicas);
    return a.end_layer - a.first_layer == b.end_layer - b.first_layer && ranks_lowest(&a) == ranks_lowest(&b) &&
           ranks_highest(&a) == ranks_highest(&b);
}

// The q-th shares of the tokens, which cost alike where nothing but the order of tokens masks them and all pieces
// are as long: what one of a share's two pieces sees less than another share's, the other sees more. But for the
// first share and for the last, whose pieces lie side by side.
static bool shares_alike(const struct trial *trial, size_t q, size_t other)
{
    size_t ranks = trial->parallel.sequence, last = ranks - 1;
    return q == other || (ranks > SHARES_WALKED && q > 0 && other > 0 && q < last && other < last &&
                          trial->context % (PIECES * ranks) == 0 && !trial->config.sliding_window);
}

// Of replicas of the stage that is open. The first adds what it has to nobody's.
static bool replicas_alike(const struct plan *plan, size_t replica, size_t other)
{
    const struct run *run = plan->run;
    struct split split = trial_split(run->trial);
    return replica > 0 && other > 0 && shares_alike(run->trial, replica % split.sequence, other % split.sequence) &&
           setup_sequences_alike(run->trial, run->setup.device->ops->name) &&
           trial_sequences(run->trial, split_data(split, replica)).count ==
               trial_sequences(run->trial, split_data(split, other)).count &&
           buckets_alike(&run->setup.model, replica, other);
}

static bool walk(struct plan *plan, size_t rank)
{
    struct run *run = plan->run;
    struct comm comm = comm_of(plan, rank);
    run->rank = rank;
    setup_close(&run->setup);
    run->result.estimate_ms = run->estimate_squares = 0;
    if (plan->links)
        CHECK(run->traces = plan->traces[rank] = calloc(run_samples_max(run->trial), sizeof *run->traces));
    if (!run_open_part(run, &comm) || !run_take_samples(run))
        return false;
    run->draws_planned = run->result.sample_count;
    run->ranks[rank] = rank_figures_of(&run->result, run->first.loss);
    plan->walked[rank] = rank;
    return true;
}

static void walked_as(struct plan *plan, size_t rank, size_t other)
{
    plan->walked[rank] = plan->walked[other];
    plan->run->ranks[rank] = plan->run->ranks[other];
}

// The ranks of a stage, from the last to the first. Most are as the one before them.
static bool walk_stage(struct plan *plan, size_t stage)
{
    size_t first = stage * plan->replicas, known[WALKS_KNOWN], count = 0;
    for (size_t replica = plan->replicas; replica-- > 0;) {
        size_t i = 0;
        while (i < count && !replicas_alike(plan, replica, known[i]))
            i++;
        if (i < count) {
            walked_as(plan, first + replica, first + known[i]);
        } else if (walk(plan, first + replica)) {
            count += count < WALKS_KNOWN;
            i = count - 1;
            known[i] = replica;
        } else {
            return false;
        }
        size_t found = known[i];
        memmove(known + 1, known, i * sizeof *known);
        known[0] = found;
    }
    return true;
}

static bool walk_all(struct plan *plan)
{
    for (size_t stage = plan->count / plan->replicas; stage-- > 0;) {
        size_t like = stage + 1, first = stage * plan->replicas;
        while (like < plan->count / plan->replicas && !stages_alike(plan, stage, like))
            like++;
        if (like == plan->count / plan->replicas) {
            if (!walk_stage(plan, stage))
                return false;
            continue;
        }
        for (size_t replica = 0; replica < plan->replicas; replica++)
            walked_as(plan, first + replica, like * plan->replicas + replica);
    }
    return true;
}

// Of every stage the replicas that were walked in any, and those that share their sequences. With them all that any
// of them sends messages to is there: ranks of a pipeline send them to the same replica of others, and those that
// share sequences to each other. Meetings are of all replicas, or of these.
static size_t list_timed(const struct plan *plan, struct timed_rank **timed)
{
    size_t n = 0, together = plan->run->trial->parallel.sequence;
    bool *wanted = calloc(plan->replicas / together, sizeof *wanted);
    *timed = calloc(plan->count, sizeof **timed);
    CHECK(wanted && *timed);
    for (size_t rank = 0; rank < plan->count; rank++)
        wanted[plan->walked[rank] % plan->replicas / together] = true;
    for (size_t rank = 0; rank < plan->count; rank++)
        if (wanted[rank % plan->replicas / together])
            (*timed)[n++] = (struct timed_rank){.rank = rank, .walked = plan->walked[rank]};
    free(wanted);
    return n;
}

// Every rank's share of the time in which it waits: that of the one that stands for it.
static void note_idle(struct plan *plan, const struct timed_rank *timed, size_t count, const double *busy_s,
                      double seconds)
{
    double *idle = calloc(plan->count, sizeof *idle);
    CHECK(idle);
    for (size_t i = 0; i < count; i++)
        idle[timed[i].rank] = 1 - busy_s[i] / seconds;
    for (size_t rank = 0; rank < plan->count; rank++) {
        size_t stage = rank / plan->replicas, replica = plan->walked[rank] % plan->replicas;
        plan->run->ranks[rank].idle_share = idle[stage * plan->replicas + replica];
    }
    free(idle);
}

// The mean of a step over the samples.
static bool estimate(struct plan *plan)
{
    struct run *run = plan->run;
    struct timed_rank *timed;
    size_t count = list_timed(plan, &timed), samples = run->result.sample_count;
    double *busy_s = calloc(count, sizeof *busy_s), sum_s = 0, seconds;
    CHECK(busy_s);
    for (size_t sample = 0; sample < samples && run_fine(run); sample++) {
        for (size_t i = 0; i < count; i++)
            timed[i].trace = &plan->traces[timed[i].walked][sample];
        if (!rank_times(timed, count, plan->links, &seconds, &run->status))
            break;
        sum_s += seconds;
        for (size_t i = 0; i < count; i++)
            busy_s[i] += timed[i].busy_s;
    }
    run->result.estimate_ms = 1e3 * sum_s / (double)samples;
    note_idle(plan, timed, count, busy_s, sum_s);
    free(busy_s);
    free(timed);
    return run_fine(run);
}

static void free_traces(struct plan *plan)
{
    for (size_t rank = 0; rank < plan->count; rank++) {
        for (size_t i = 0; plan->traces[rank] && i < run_samples_max(plan->run->trial); i++)
            trace_free(&plan->traces[rank][i]);
        free(plan->traces[rank]);
    }
    free(plan->traces);
}

bool plan_ranks(struct run *run)
{
    const struct trial *trial = run->trial;
    struct plan plan = {.run = run,
                        .links = trial->profile ? trial_links(trial) : NULL,
                        .count = trial_ranks(trial),
                        .replicas = trial->parallel.data * trial->parallel.sequence};
    plan.walked = calloc(plan.count, sizeof *plan.walked);
    plan.traces = calloc(plan.count, sizeof *plan.traces);
    CHECK(plan.walked && plan.traces);
    bool done = walk_all(&plan);
    run->traces = NULL;
    run->result.estimate_ms = NAN;
    done = done && (!plan.links || estimate(&plan));
    if (done)
        ranks_merge(&run->result, run->ranks, plan.count);
    free_traces(&plan);
    free(plan.walked);
    return done;
}
