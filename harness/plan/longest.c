// Each family's lower bound gives an upper bound of its extent. Families are searched in order of that bound; a
// family is skipped if its bound, or its step at one more than the longest found so far, does not fit. A family is
// searched at the candidate that takes the least memory.
#include "harness/plan/longest.h"
#include "harness/step/ranks_possible.h"
#include <math.h>
#include <string.h>

// Behind a prompt the probe is as long as the longest window: tokens behind it cost the same, however many.
#define PROBE_MIN   4096
#define PROBE_MAX   (1 << 20)
#define CONTEXT_MAX ((double)INT32_MAX)
#define BATCH_MAX   ((double)(1 << 20))

struct search {
    struct longest *longest;
    enum extent extent;
    struct planned_limits limits;
    struct planned_memos memos;
    struct status *status;
};

// Rounds down to whole units, at least one.
static void set_extent(struct trial *trial, enum extent extent, size_t value)
{
    size_t unit = extent_unit(trial, extent), units = value / unit;
    *(extent == EXTENT_BATCH ? &trial->batch : &trial->context) = unit * (units ? units : 1);
}

// Tokens within the limit, by a line through the bound's bytes at its own tokens.
static double tokens_within(const struct planned_step *bound, size_t limit, double per_token)
{
    return ((double)limit - (double)bound->peak_bytes) / per_token + (double)bound->tokens;
}

static size_t probe_context(const struct trial *trial)
{
    size_t window = config_max_window(&trial->config);
    return trial->prompt + (window < PROBE_MIN ? PROBE_MIN : window < PROBE_MAX ? window : PROBE_MAX);
}

// The family's maximum extent by its lower bound and its host memory. The longer the context, the less the bound is
// per token: below the probe's at least what it is there, above it what a further token adds.
static bool bound_of(struct search *search, const struct family *family, double *max)
{
    struct planned_step bound;
    const struct trial *trial = family->trial;
    *max = 0;
    if (!planned_bound(&bound, trial, family->options, &search->memos, search->status))
        return false;
    // Shared prompts reduce the tokens of a step: proportionally to sequences, independently of the context. Ranks
    // that share tokens each have an equal part, apart from rounding.
    double per_token = bound.lower_bound_bytes_per_token, tokens = (double)bound.tokens,
           ranks = (double)trial->parallel.sequence, sequences = (double)trial_sequences(trial, 0).count,
           uneven = ranks > 1 ? PIECES * ranks * sequences : 0,
           spared =
               search->extent == EXTENT_BATCH ? 0 : (double)trial->context * sequences / ranks - tokens + uneven,
           unit = search->extent == EXTENT_BATCH ? tokens / sequences / (double)trial->parallel.data
                                                 : sequences / ranks,
           within = tokens_within(&bound, search->limits.device_bytes, per_token);
    if (bound.why.code == STATUS_BAD_INPUT || bound.host_resident_bytes > search->limits.host_bytes)
        return true;
    *max = search->extent == EXTENT_BATCH ? BATCH_MAX : CONTEXT_MAX;
    if (search->extent == EXTENT_CONTEXT)
        within = fmax(within, tokens_within(&bound, search->limits.device_bytes, bound.further_bytes_per_token));
    if (per_token > 0)
        *max = fmin(*max, (within + spared) / unit);
    double host_resident = (double)bound.host_resident_bytes,
           host_per_token = ((double)bound.host_peak_bytes - host_resident) / tokens;
    if (host_per_token > 0)
        *max = fmin(*max, (((double)search->limits.host_bytes - host_resident) / host_per_token + spared) / unit);
    *max = floor(fmax(*max, 0));
    return true;
}

static void longest_set(struct longest *longest, const struct trial *trial, void *options)
{
    if (longest->options)
        options_free(&longest->trial->method->options, longest->options);
    longest->trial = trial;
    longest->options = options;
}

static bool search_family(struct search *search, const struct family *family, double max)
{
    struct trial tried = *family->trial; // borrowed, except the options
    struct family at_max = *family;
    struct max_context *best = &search->longest->found, found;
    struct planned_step step;
    tried.memory_limit_bytes = search->limits.device_bytes;
    tried.host_memory_limit_bytes = search->limits.host_bytes ? search->limits.host_bytes : ARENA_LIMIT_NOTHING;
    set_extent(&tried, search->extent, (size_t)max);
    at_max.trial = &tried;
    size_t least;
    if (!family_least(&at_max, &search->memos, &least, search->status))
        return false;
    tried.options = family_options(&at_max, least);
    set_extent(&tried, search->extent, best->largest + extent_unit(&tried, search->extent));
    bool fine = planned_step(&step, &tried, tried.options, search->limits, &search->memos, search->status);
    bool longer = fine && step.fits;
    if (longer || (fine && !best->largest && !*best->reason)) // the first one explains why nothing fits
        fine = max_context_find(&found, &tried, search->extent, search->limits.device_bytes, (size_t)max / 4,
                                search->status);
    if (fine && longer && found.largest > best->largest) {
        longest_set(search->longest, family->trial, options_copy(&family->trial->method->options, tried.options));
        *best = found;
    } else if (fine && !best->largest && !*best->reason)
        memcpy(best->reason, found.reason, sizeof best->reason);
    options_free(&family->trial->method->options, tried.options);
    return fine;
}

static bool search_all(struct search *search, const struct space *space)
{
    double *max = calloc(space->count + 1, sizeof *max);
    bool fine = true;
    for (size_t f = 0; fine && f < space->count; f++)
        fine = bound_of(search, &space->families[f], &max[f]);
    for (size_t n = 0; fine && n < space->count; n++) {
        size_t next = 0;
        for (size_t f = 1; f < space->count; f++)
            next = max[f] > max[next] ? f : next;
        if (n == 0 || max[next] > (double)search->longest->found.largest) // the first one explains why nothing fits
            fine = search_family(search, &space->families[next], max[next]);
        max[next] = -1;
    }
    free(max);
    return fine;
}

bool longest_find(struct longest *longest, struct trial *trials, size_t count, const json_t *given,
                  enum extent extent, struct planned_limits limits, struct status *status)
{
    struct search search = {.longest = longest, .extent = extent, .limits = limits, .status = status};
    struct space space;
    *longest = (struct longest){0};
    if (count && !(extent == EXTENT_BATCH ? ranks_fit : ranks_possible)(&trials[0], status))
        return false;
    for (size_t i = 0; i < count; i++)
        set_extent(&trials[i], extent, extent == EXTENT_BATCH ? 1 : probe_context(&trials[i]));
    space_open(&space, trials, count, given);
    planned_memos_open(&search.memos);
    bool fine = search_all(&search, &space);
    planned_memos_close(&search.memos);
    space_close(&space);
    for (size_t i = 0; fine && longest->found.largest && i < count; i++)
        set_extent(&trials[i], extent, longest->found.largest);
    return fine;
}

bool longest_choose(struct longest *longest, struct trial *trials, size_t count, const json_t *given,
                    struct planned_limits limits, struct status *status)
{
    if (!longest->found.largest)
        return true;
    struct space space;
    struct planner planner;
    struct candidate fastest = {0};
    space_open(&space, trials, count, given);
    bool fine = planner_open(&planner, &space, limits, status) && planner_fastest(&planner, &fastest, status);
    if (fine && fastest.step.fits) {
        longest_set(longest, space.families[fastest.family].trial,
                    family_options(&space.families[fastest.family], fastest.index));
        longest->step = fastest.step;
    }
    planner_close(&planner);
    space_close(&space);
    return fine;
}

void longest_free(struct longest *longest)
{
    longest_set(longest, NULL, NULL);
    *longest = (struct longest){0};
}
