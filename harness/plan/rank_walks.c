#include "harness/plan/rank_walks.h"
#include "harness/plan/rank_times.h"
#include <string.h>

// Of a stage, the last that were asked for.
#define WALKS_KNOWN 256
// Up to so many ranks of the same sequences each is walked for itself.
#define SHARES_WALKED 64

static struct ranks ranks_at(const struct rank_walks *walks, size_t rank)
{
    const struct trial *trial = walks->trial;
    struct comm comm = comm_planned(rank, walks->count);
    return ranks_of(&comm, trial_split(trial), &trial->config, trial->context);
}

// As many layers, and the same neighbours.
static bool stages_alike(const struct rank_walks *walks, size_t stage, size_t other)
{
    struct ranks a = ranks_at(walks, stage * walks->replicas), b = ranks_at(walks, other * walks->replicas);
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

// Have the same place in their nodes; the first node's sums are added to nobody's.
static bool places_alike(const struct trial *trial, size_t replica, size_t other)
{
    size_t node = trial->parallel.node;
    return node <= 1 || (replica % node == other % node && (replica < node) == (other < node));
}

// Of replicas of the stage that is open. The first adds what it has to nobody's.
static bool replicas_alike(const struct rank_walks *walks, size_t replica, size_t other)
{
    const struct trial *trial = walks->trial;
    struct split split = trial_split(trial);
    return replica > 0 && other > 0 && places_alike(trial, replica, other) &&
           shares_alike(trial, replica % split.sequence, other % split.sequence) &&
           setup_sequences_alike(trial, walks->open->device->ops->name) &&
           trial_sequences(trial, split_data(split, replica)).count ==
               trial_sequences(trial, split_data(split, other)).count &&
           buckets_alike(&walks->open->trainer.buckets, replica, other);
}

static bool walk(struct rank_walks *walks, size_t rank)
{
    if (walks->links)
        CHECK(walks->traces[rank] = calloc(walks->samples, sizeof **walks->traces));
    walks->open = walks->walk(walks->walker, comm_planned(rank, walks->count), walks->traces[rank]);
    walks->walked[rank] = rank;
    return walks->open;
}

// The ranks of a stage, from the last to the first. Most are as the one before them.
static bool walk_stage(struct rank_walks *walks, size_t stage)
{
    size_t first = stage * walks->replicas, known[WALKS_KNOWN], count = 0;
    for (size_t replica = walks->replicas; replica-- > 0;) {
        size_t i = 0;
        while (i < count && !replicas_alike(walks, replica, known[i]))
            i++;
        if (i < count) {
            walks->walked[first + replica] = walks->walked[first + known[i]];
        } else if (walk(walks, first + replica)) {
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

bool rank_walks_open(struct rank_walks *walks)
{
    const struct trial *trial = walks->trial;
    walks->count = trial_ranks(trial);
    walks->replicas = trial->parallel.data * trial->parallel.sequence;
    walks->walked = calloc(walks->count, sizeof *walks->walked);
    walks->traces = calloc(walks->count, sizeof *walks->traces);
    CHECK(walks->walked && walks->traces);
    for (size_t stage = walks->count / walks->replicas; stage-- > 0;) {
        size_t like = stage + 1, first = stage * walks->replicas;
        while (like < walks->count / walks->replicas && !stages_alike(walks, stage, like))
            like++;
        if (like == walks->count / walks->replicas) {
            if (!walk_stage(walks, stage))
                return false;
            continue;
        }
        for (size_t replica = 0; replica < walks->replicas; replica++)
            walks->walked[first + replica] = walks->walked[like * walks->replicas + replica];
    }
    return true;
}

// Of every stage the replicas that were walked in any, and those that share their sequences. With them all that any
// of them sends messages to is there: ranks of a pipeline send them to the same replica of others, and those that
// share sequences to each other. Meetings are of all replicas, or of these.
static size_t list_timed(const struct rank_walks *walks, size_t sample, struct timed_rank **timed)
{
    size_t n = 0, together = walks->trial->parallel.sequence;
    bool *wanted = calloc(walks->replicas / together, sizeof *wanted);
    *timed = calloc(walks->count, sizeof **timed);
    CHECK(wanted && *timed);
    for (size_t rank = 0; rank < walks->count; rank++)
        wanted[walks->walked[rank] % walks->replicas / together] = true;
    for (size_t rank = 0; rank < walks->count; rank++)
        if (wanted[rank % walks->replicas / together])
            (*timed)[n++] = (struct timed_rank){
                .rank = rank, .walked = walks->walked[rank], .trace = &walks->traces[walks->walked[rank]][sample]};
    free(wanted);
    return n;
}

bool rank_walks_time(const struct rank_walks *walks, size_t sample, double *seconds, double *busy_s,
                     struct status *status)
{
    struct timed_rank *timed;
    size_t count = list_timed(walks, sample, &timed);
    bool done = rank_times(timed, count, walks->links, seconds, status);
    double *own_s = calloc(walks->count, sizeof *own_s);
    CHECK(own_s);
    for (size_t i = 0; i < count; i++)
        own_s[timed[i].rank] = timed[i].busy_s;
    for (size_t rank = 0; rank < walks->count; rank++) {
        size_t stage = rank / walks->replicas, replica = walks->walked[rank] % walks->replicas;
        busy_s[rank] = own_s[stage * walks->replicas + replica];
    }
    free(own_s);
    free(timed);
    return done;
}

void rank_walks_close(struct rank_walks *walks)
{
    for (size_t rank = 0; rank < walks->count; rank++) {
        for (size_t i = 0; walks->traces[rank] && i < walks->samples; i++)
            trace_free(&walks->traces[rank][i]);
        free(walks->traces[rank]);
    }
    free(walks->traces);
    free(walks->walked);
    *walks = (struct rank_walks){0};
}
