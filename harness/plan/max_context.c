// Max context: doubling finds a context that is too long. Between it and the longest that fits, the peak is nearly
// linear in the context, so a guess from two peaks is usually right, and bisection does the rest.
#include "harness/plan/max_context.h"
#include "harness/plan/rank_traces.h"
#include "harness/spec/method_decode.h"
#include "harness/step/largest_block.h"
#include "harness/step/ranks_possible.h"
#include "harness/step/setup.h"
#include "harness/text/text.h"
#include <string.h>

#define CONTEXT_MAX ((size_t)INT32_MAX) // token positions are i32 on devices
#define BATCH_MAX   ((size_t)1 << 20)   // as in a trial

// FORBIDDEN: the method's options, or the prompt, do not allow the context.
enum outcome { FITS, TOO_LONG, FORBIDDEN };

// A context that is not possible, in units of the granularity, and why.
struct barrier {
    size_t units;
    bool memory;
    char reason[512];
};

struct search {
    const struct trial *trial;
    struct trial *tried; // at the context being tried
    struct setup_options options;
    struct step_report report;
    struct max_context *result;
    enum extent extent;
    size_t fits, fitted_before; // in units: the two longest that fit, and their peaks
    double fits_bytes, before_bytes;
    struct barrier barrier, last; // the shortest known above those that fit; that of the latest attempt
    struct status status;
};

// Tokens per chunk; 1: no chunks.
static size_t chunk_of(const struct trial *trial)
{
    return options_count(&trial->method->options, trial->options, "chunk", 1);
}

bool max_context_resident(const struct trial *trial, size_t by_category[CATEGORY_COUNT], struct status *status)
{
    struct status why = {0};
    size_t count = ranks_fit(trial, &why) ? trial_ranks(trial) : 1, max = 0;
    bool ok = true;
    for (size_t rank = 0; ok && rank < count; rank++) {
        if (split_data(trial_split(trial), rank) > 0 && !trial->parallel.zero) // same as the first one
            continue;
        struct setup setup;
        struct setup_options options = setup_options_of(trial);
        struct comm comm = comm_planned(rank, count);
        options.memory_limit_bytes = 0;
        options.host_memory_limit_bytes = SIZE_MAX;
        options.ranks = count > 1 ? &comm : NULL;
        ok = setup_open(&setup, trial, &options, status);
        if (ok && setup.device->arena.live_bytes > max) {
            max = setup.device->arena.live_bytes;
            memcpy(by_category, setup.device->arena.live_by_category, sizeof setup.device->arena.live_by_category);
        }
        setup_close(&setup);
    }
    by_category[CATEGORY_DATA] = 0; // the batch, which grows with the context
    return ok;
}

// Records a rank's step; its bytes if no earlier rank took more.
static void note_peak(struct max_context *found, const struct trial *tried, const struct setup *setup)
{
    const struct arena *arena = &setup->device->arena;
    found->forward_flops = setup->forward_flops;
    size_t host_bytes = setup->device->host.peak_bytes;
    found->host_peak_bytes = host_bytes > found->host_peak_bytes ? host_bytes : found->host_peak_bytes;
    if (arena->peak_bytes <= found->peak_bytes)
        return;
    found->peak_bytes = arena->peak_bytes;
    memcpy(found->peak_by_category, arena->peak_by_category, sizeof found->peak_by_category);
    if (tried->method->lower_bound_bytes_per_token && !tried->framework)
        found->lower_bound_bytes_per_token =
            tried->method->lower_bound_bytes_per_token(&setup->model, tried->options, setup->batch.context);
}

static void note_fit(struct search *search, size_t units, const struct max_context *found)
{
    struct max_context *result = search->result;
    search->fitted_before = search->fits;
    search->before_bytes = search->fits_bytes;
    search->fits = units;
    search->fits_bytes = (double)found->peak_bytes;
    result->largest = units * result->granularity;
    result->peak_bytes = found->peak_bytes;
    result->host_peak_bytes = found->host_peak_bytes;
    memcpy(result->peak_by_category, found->peak_by_category, sizeof result->peak_by_category);
    result->lower_bound_bytes_per_token = found->lower_bound_bytes_per_token;
    result->flops = found->flops;
    result->forward_flops = found->forward_flops;
}

static void note_failure(struct search *search, size_t units, bool memory, const char *reason)
{
    search->last = (struct barrier){.units = units, .memory = memory};
    snprintf(search->last.reason, sizeof search->last.reason, "%.500s", reason);
}

// State while ranks' steps run one after another.
struct tracing {
    struct search *search;
    struct max_context *found;
    struct status *status;
    struct setup setup; // of the latest
    double *flops;      // [ranks]
};

static const struct setup *trace_rank(void *tracer, struct comm comm, struct trace *traces)
{
    (void)traces;
    struct tracing *tracing = tracer;
    struct search *search = tracing->search;
    struct trial *tried = search->tried;
    struct setup *setup = &tracing->setup;
    struct setup_options options = search->options;
    options.ranks = comm.size > 1 ? &comm : NULL;
    setup_close(setup);
    if (setup_open(setup, tried, &options, tracing->status)) {
        setup_remember(setup);
        largest_block_activate(setup, tried);
        struct training_step step = setup_update(setup, tried, 1);
        training_step_take(&step, &search->report);
        *tracing->status = setup->device->status;
    } else if (tracing->status->code != STATUS_OOM) {
        search->status = *tracing->status; // at any context
    }
    if (tracing->status->code != STATUS_OK)
        return NULL;
    note_peak(tracing->found, tried, setup);
    tracing->flops[comm.rank] = setup->device->counters.flops;
    return setup;
}

static void plan_ranks(struct search *search, struct max_context *found, struct status *status)
{
    const struct trial *tried = search->tried;
    size_t count = trial_ranks(tried);
    struct tracing tracing = {search, found, status, .flops = calloc(count, sizeof *tracing.flops)};
    struct rank_traces traced = {.trial = tried, .samples = 1, .trace = trace_rank, .tracer = &tracing};
    CHECK(tracing.flops);
    if (rank_traces_open(&traced))
        for (size_t rank = 0; rank < count; rank++)
            found->flops += split_data(trial_split(tried), rank) == 0 ? tracing.flops[traced.source[rank]] : 0;
    rank_traces_close(&traced);
    setup_close(&tracing.setup);
    free(tracing.flops);
}

// Selects draw `index` of the candidates for the maximum memory. Returns false if there is none.
static bool take_draw(struct search *search, size_t index)
{
    struct trial *tried = search->tried;
    const struct method *method = tried->method;
    options_free(&method->options, tried->options);
    tried->options = options_copy(&method->options, search->trial->options);
    return method->largest_draw
               ? method->largest_draw(tried->options, &tried->config, trial_row_tokens(tried), index)
               : index == 0;
}

static void plan_draws(struct search *search, struct max_context *found, struct status *status)
{
    for (size_t i = 0; status->code == STATUS_OK && take_draw(search, i); i++) {
        struct max_context own = {.host_peak_bytes = found->host_peak_bytes};
        plan_ranks(search, &own, status);
        if (own.peak_bytes > found->peak_bytes)
            *found = own;
        found->host_peak_bytes = own.host_peak_bytes;
    }
}

// Plans one step of every distinct rank, with the optimizer's update, which may bring offloaded data to the device.
static enum outcome attempt(struct search *search, size_t units)
{
    struct trial *tried = search->tried;
    struct max_context found = {0};
    struct status status = {0};
    *(search->extent == EXTENT_BATCH ? &tried->batch : &tried->context) = units * search->result->granularity;
    options_free(&tried->method->options, tried->options);
    tried->options = options_copy(&tried->method->options, search->trial->options);
    if (tried->prompt && tried->prompt >= tried->context) {
        char reason[120];
        snprintf(reason, sizeof reason, "a prompt of %zu tokens leaves none of %zu to predict", tried->prompt,
                 tried->context);
        note_failure(search, units, false, reason);
        return FORBIDDEN;
    }
    if (tried->method->check &&
        !tried->method->check(tried->options, &tried->config, trial_row_tokens(tried), &status)) {
        note_failure(search, units, false, status.message);
        return FORBIDDEN;
    }
    search->result->plans++;
    plan_draws(search, &found, &status);
    if (status.code == STATUS_OK)
        note_fit(search, units, &found);
    else // of memory, or of the device's sizes
        note_failure(search, units, status.code == STATUS_OOM, status.message);
    return status.code == STATUS_OK ? FITS : TOO_LONG;
}

static size_t units_max(const struct search *search)
{
    return (search->extent == EXTENT_BATCH ? BATCH_MAX : CONTEXT_MAX) / search->result->granularity;
}

// Doubles from `units` until it fails. Forbidden values before anything fits are skipped: a budget needs enough
// chunks.
static void double_up(struct search *search, size_t units)
{
    size_t max = units_max(search);
    enum outcome outcome = FITS;
    while (search->status.code == STATUS_OK && (outcome == FITS || (outcome == FORBIDDEN && !search->fits))) {
        if (units > max) {
            const char *reason = outcome == FORBIDDEN               ? search->last.reason
                                 : search->extent == EXTENT_CONTEXT ? "token positions are 32-bit numbers"
                                                                    : "a batch has at most 2^20 sequences";
            search->barrier = (struct barrier){.units = max + 1};
            memcpy(search->barrier.reason, reason, strlen(reason) + 1);
            return;
        }
        outcome = attempt(search, units);
        units *= 2;
    }
    search->barrier = search->last;
}

// Extrapolates to the limit from the last two peaks.
static size_t guess(const struct search *search, size_t limit_bytes)
{
    double growth =
        (search->fits_bytes - search->before_bytes) / ((double)search->fits - (double)search->fitted_before);
    double units = search->fitted_before && growth > 0
                       ? (double)search->fits + ((double)limit_bytes - search->fits_bytes) / growth
                       : 0;
    return units > (double)search->fits && units < (double)search->barrier.units ? (size_t)units : 0;
}

// Narrows until the fitting and failing values are adjacent.
static void close_in(struct search *search, size_t limit_bytes)
{
    size_t low = search->fits; // smaller values are irrelevant: they fit, or are forbidden
    size_t guessed = guess(search, limit_bytes), beside = 0;
    while (search->barrier.units - low > 1 && search->status.code == STATUS_OK) {
        size_t units = guessed                                          ? guessed
                       : beside > low && beside < search->barrier.units ? beside
                                                                        : low + (search->barrier.units - low) / 2;
        enum outcome outcome = attempt(search, units);
        // A good guess is adjacent to the limit.
        beside = !guessed ? 0 : outcome == FITS ? units + 1 : units - 1;
        guessed = 0;
        // Forbidden before anything fits: too short.
        if (outcome == FITS || (outcome == FORBIDDEN && !search->fits))
            low = units;
        else
            search->barrier = search->last;
    }
}

// A shorter last chunk can reduce memory at a longer context, so one more chunk is tried.
static bool goes_on(struct search *search)
{
    const struct trial *trial = search->trial;
    size_t chunk = chunk_of(trial);
    size_t further = search->fits + (chunk + search->result->granularity - 1) / search->result->granularity;
    return search->fits && further > search->barrier.units && search->extent == EXTENT_CONTEXT &&
           further <= units_max(search) && attempt(search, further) == FITS;
}

size_t extent_unit(const struct trial *trial, enum extent extent)
{
    return extent == EXTENT_BATCH ? trial_together(trial) * trial->parallel.data : 1;
}

bool max_context_find(struct max_context *result, const struct trial *trial, enum extent extent, size_t limit_bytes,
                      size_t from, struct status *status)
{
    bool whole_chunks = trial->method->largest_draw && extent == EXTENT_CONTEXT;
    *result = (struct max_context){.granularity = whole_chunks ? chunk_of(trial) : extent_unit(trial, extent)};
    struct status why = {0};
    if (!(extent == EXTENT_BATCH ? ranks_fit : ranks_possible)(trial,
                                                               &why)) { // a result of this method; others go on
        snprintf(result->reason, sizeof result->reason, "%.500s", why.message);
        return true;
    }
    struct search *search = calloc(1, sizeof *search);
    struct trial *tried = malloc(sizeof *tried);
    *tried = *trial; // borrowed, except the options
    tried->options = options_copy(&trial->method->options, trial->options);
    *search = (struct search){
        .trial = trial, .tried = tried, .options = setup_options_of(trial), .result = result, .extent = extent};
    search->options.memory_limit_bytes = limit_bytes;
    double_up(search, from > result->granularity ? from / result->granularity : 1);
    close_in(search, limit_bytes);
    while (search->status.code == STATUS_OK && goes_on(search)) {
        double_up(search, 2 * search->fits);
        close_in(search, limit_bytes);
    }
    status_take(status, &search->status);
    result->memory_bound = search->barrier.memory;
    snprintf(result->reason, sizeof result->reason, "%.420s", search->barrier.reason);
    if (whole_chunks && !result->largest && result->granularity > 1)
        text_append(result->reason, sizeof result->reason, "; contexts of less than a chunk of %zu were not tried",
                    result->granularity);
    step_report_free(&search->report);
    options_free(&tried->method->options, tried->options);
    free(tried);
    free(search);
    return status->code == STATUS_OK;
}
