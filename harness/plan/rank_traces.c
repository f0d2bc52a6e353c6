#include "harness/plan/rank_traces.h"
#include "harness/plan/rank_times.h"
#include <string.h>

// Traces kept per stage, the most recent ones.
#define TRACES_KNOWN 256
// Up to this many ranks with the same sequences are traced individually.
#define SHARES_TRACED 64

static struct ranks ranks_at(const struct rank_traces *traced, size_t rank)
{
    const struct trial *trial = traced->trial;
    struct comm comm = comm_planned(rank, traced->count);
    return ranks_of(&comm, trial_split(trial), &trial->config, trial->context);
}

// Tells whether two stages have equally many layers and the same kind of neighbours.
static bool stages_alike(const struct rank_traces *traced, size_t stage, size_t other)
{
    struct ranks a = ranks_at(traced, stage * traced->replicas), b = ranks_at(traced, other * traced->replicas);
    return a.end_layer - a.first_layer == b.end_layer - b.first_layer && ranks_lowest(&a) == ranks_lowest(&b) &&
           ranks_highest(&a) == ranks_highest(&b);
}

// Tells whether a share's place matters: states are folded, and latents projected, as far as its later piece,
// unless each rank has all tokens of some heads.
static bool places_matter(const struct trial *trial)
{
    bool matter = false;
    for (size_t l = 0; l < trial->config.layers; l++)
        matter |= !config_mixer(&trial->config, l)->carries_heads;
    return matter && trial->parallel.exchange != EXCHANGE_ALL_TO_ALL;
}

// Tells whether two shares of tokens cost the same, which holds if only the order of tokens masks them and all
// pieces have equal length: one piece of a share sees more as the other sees less. Except the first and the last
// share, whose pieces are adjacent.
static bool shares_alike(const struct trial *trial, size_t q, size_t other)
{
    size_t ranks = trial->parallel.sequence, last = ranks - 1;
    return q == other || (ranks > SHARES_TRACED && q > 0 && other > 0 && q < last && other < last &&
                          trial->context % (PIECES * ranks) == 0 && config_max_window(&trial->config) == 0 &&
                          !places_matter(trial));
}

// Tells whether replicas have the same index in their nodes; the first node's sums are not added to others.
static bool places_alike(const struct trial *trial, size_t replica, size_t other)
{
    size_t node = trial->parallel.node;
    return node <= 1 || (replica % node == other % node && (replica < node) == (other < node));
}

// Tells whether replicas have the same place among those that share the experts, and among those with the same
// ones: the first one's sums are not added to others.
static bool experts_alike(const struct trial *trial, size_t replica, size_t other)
{
    size_t experts = trial->parallel.experts;
    return experts <= 1 ||
           ((replica % experts == 0) == (other % experts == 0) && (replica < experts) == (other < experts));
}

// Tells whether replicas of the open stage cost the same. The first one's sums are not added to others.
static bool replicas_alike(const struct rank_traces *traced, size_t replica, size_t other)
{
    const struct trial *trial = traced->trial;
    struct split split = trial_split(trial);
    return replica > 0 && other > 0 && places_alike(trial, replica, other) &&
           experts_alike(trial, replica, other) &&
           shares_alike(trial, replica % split.sequence, other % split.sequence) &&
           setup_sequences_alike(trial, traced->open->device->ops->name) &&
           trial_sequences(trial, split_data(split, replica)).count ==
               trial_sequences(trial, split_data(split, other)).count &&
           buckets_alike(&traced->open->trainer.buckets, replica, other);
}

static bool trace(struct rank_traces *traced, size_t rank)
{
    if (traced->interconnect)
        CHECK(traced->traces[rank] = calloc(traced->samples, sizeof **traced->traces));
    traced->open = traced->trace(traced->tracer, comm_planned(rank, traced->count), traced->traces[rank]);
    traced->source[rank] = rank;
    return traced->open;
}

// Traces the ranks of a stage, from the last to the first. Most equal the previous one.
static bool trace_stage(struct rank_traces *traced, size_t stage)
{
    size_t first = stage * traced->replicas, known[TRACES_KNOWN], count = 0;
    for (size_t replica = traced->replicas; replica-- > 0;) {
        size_t i = 0;
        while (i < count && !replicas_alike(traced, replica, known[i]))
            i++;
        if (i < count) {
            traced->source[first + replica] = traced->source[first + known[i]];
        } else if (trace(traced, first + replica)) {
            count += count < TRACES_KNOWN;
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

bool rank_traces_open(struct rank_traces *traced)
{
    const struct trial *trial = traced->trial;
    traced->count = trial_ranks(trial);
    traced->replicas = trial->parallel.data * trial->parallel.sequence;
    traced->source = calloc(traced->count, sizeof *traced->source);
    traced->traces = calloc(traced->count, sizeof *traced->traces);
    for (size_t stage = traced->count / traced->replicas; stage-- > 0;) {
        size_t like = stage + 1, first = stage * traced->replicas;
        while (like < traced->count / traced->replicas && !stages_alike(traced, stage, like))
            like++;
        if (like == traced->count / traced->replicas) {
            if (!trace_stage(traced, stage))
                return false;
            continue;
        }
        for (size_t replica = 0; replica < traced->replicas; replica++)
            traced->source[first + replica] = traced->source[like * traced->replicas + replica];
    }
    return true;
}

// Lists for every stage the replicas traced in any stage, and those that share their sequences or experts. This
// includes all communication partners: pipeline ranks send to the same replica of other stages, and ranks that
// share sequences to each other; collectives are over all replicas, over these, or over those with the same
// experts.
static size_t list_timed(const struct rank_traces *traced, size_t sample, struct timed_rank **timed)
{
    const struct parallel *parallel = &traced->trial->parallel;
    size_t n = 0, together = parallel->sequence > 1 ? parallel->sequence : parallel->experts;
    bool *wanted = calloc(traced->replicas / together, sizeof *wanted);
    *timed = calloc(traced->count, sizeof **timed);
    for (size_t rank = 0; rank < traced->count; rank++)
        wanted[traced->source[rank] % traced->replicas / together] = true;
    for (size_t rank = 0; rank < traced->count; rank++)
        if (wanted[rank % traced->replicas / together])
            (*timed)[n++] = (struct timed_rank){.rank = rank,
                                                .source = traced->source[rank],
                                                .trace = &traced->traces[traced->source[rank]][sample]};
    free(wanted);
    return n;
}

bool rank_traces_time(const struct rank_traces *traced, size_t sample, double *seconds, double *busy_s,
                      struct status *status)
{
    struct timed_rank *timed;
    size_t count = list_timed(traced, sample, &timed);
    bool done = rank_times(timed, count, traced->interconnect, seconds, status);
    double *own_s = calloc(traced->count, sizeof *own_s);
    for (size_t i = 0; i < count; i++)
        own_s[timed[i].rank] = timed[i].busy_s;
    for (size_t rank = 0; rank < traced->count; rank++) {
        size_t stage = rank / traced->replicas, replica = traced->source[rank] % traced->replicas;
        busy_s[rank] = own_s[stage * traced->replicas + replica];
    }
    free(own_s);
    free(timed);
    return done;
}

void rank_traces_close(struct rank_traces *traced)
{
    for (size_t rank = 0; rank < traced->count; rank++) {
        for (size_t i = 0; traced->traces[rank] && i < traced->samples; i++)
            trace_free(&traced->traces[rank][i]);
        free(traced->traces[rank]);
    }
    free(traced->traces);
    free(traced->source);
    *traced = (struct rank_traces){0};
}
