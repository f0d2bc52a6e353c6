#include "harness/trial/trial_record.h"
#include "harness/record/record_json.h"
#include "harness/record/rounds.h"
#include "harness/spec/framework_decode.h"
#include "harness/spec/method_decode.h"
#include "harness/stats/sample.h"
#include <math.h>
#include <string.h>

// Maximum events of a recorded time line: each range of neighbours keeps the event with the most live bytes, so
// that thinning never lowers a peak.
#define TIMELINE_EVENTS_MAX 4096

// Copies a part that is stored outside the record.
static void *apart(const void *part, size_t bytes)
{
    void *copy = malloc(bytes);
    return memcpy(copy, part, bytes);
}

void trial_record_open(struct record *record, const struct trial *trial)
{
    record_clear(record);
    record->schema = RECORD_SCHEMA;
    record->id = trial->id;
    record->experiment = text_or(trial->experiment, "");
    record->command = text_or(trial->command, "");
    record->round = trial->round ? (double)trial->round : NAN;
    record->status = RECORD_OK;
    record->reason = "";
    record->trial.json = json_loads(trial->canonical, 0, NULL);
    if (trial->search) {
        json_incref((json_t *)trial->search->asked);
        record->search = apart(trial->search, sizeof *trial->search);
    }
    if (trial->framework)
        record->framework = apart(&(struct record_framework){.given = true,
                                                             .name = FRAMEWORK_NAME,
                                                             .version = framework_version_name(trial->framework),
                                                             .torch = FRAMEWORK_TORCH,
                                                             .checked = FRAMEWORK_CHECKED,
                                                             .unchecked = framework_trial_unchecked(trial),
                                                             .reserved_low_bytes = NAN,
                                                             .reserved_high_bytes = NAN},
                                  sizeof *record->framework);
    record->shares = trial->shares ? json_loads(trial->shares, 0, NULL) : NULL;
    record->profile = trial->profile ? trial->profile->name : NULL;
    CHECK(record->trial.json);
}

// --- memory and work

// NaN (null) for a 0 that was not reached.
static double reached(double value)
{
    return value > 0 ? value : NAN;
}

static const double *tally_of(const size_t bytes[CATEGORY_COUNT])
{
    double tally[CATEGORY_COUNT];
    for (int i = 0; i < CATEGORY_COUNT; i++)
        tally[i] = (double)bytes[i];
    return apart(tally, sizeof tally);
}

void trial_record_framework(struct record *record, const struct framework_run *run)
{
    struct record_framework *framework = (struct record_framework *)record->framework;
    framework->peak_moment = run->tape.peak_moment;
    framework->peak_operation = run->tape.peak_operation;
    if (!run->tape.peak_bytes)
        return;
    struct framework_reserved reserved = framework_run_reserved(run);
    framework->reserved_low_bytes = (double)reserved.low_bytes;
    framework->reserved_high_bytes = (double)reserved.high_bytes;
}

void trial_record_figures(struct record *record, const struct rank_figures *figures)
{
    const struct counters *counters = &figures->counters;
    record->peak_bytes = reached((double)figures->peak_bytes);
    if (figures->peak_bytes)
        record->peak_by_category = tally_of(figures->peak_by_category);
    record->host_peak_bytes = reached((double)figures->host_peak_bytes);
    if (figures->host_peak_bytes)
        record->host_peak_by_category = tally_of(figures->host_peak_by_category);
    record->resident_bytes = reached((double)figures->resident_bytes);
    if (figures->resident_bytes) {
        double bound = (double)figures->resident_bytes + figures->lower_bound_bytes_per_token * figures->tokens;
        record->lower_bound_bytes_per_token = figures->lower_bound_bytes_per_token;
        record->lower_bound_bytes = ceil(bound);
        record->peak_over_bound = record->status == RECORD_OK ? (double)figures->peak_bytes / bound : NAN;
    }
    record->launches = reached((double)counters->launches);
    record->flops = counters->launches || counters->flops > 0 ? counters->flops : NAN;
    record->bytes_moved = counters->launches ? counters->bytes_moved : NAN;
    record->attention_glue_bytes = reached(counters->glue_bytes);
    record->link_out_bytes = reached(counters->link_bytes[QUEUE_OUT]);
    record->link_in_bytes = reached(counters->link_bytes[QUEUE_IN]);
}

// Above this many ranks, equal ranks are written once.
#define RANKS_EACH 64

static bool same_figures(const struct rank_figures *a, const struct rank_figures *b)
{
    const struct counters *of = &a->counters, *others = &b->counters;
    return a->peak_bytes == b->peak_bytes && of->sent_bytes == others->sent_bytes &&
           of->received_bytes == others->received_bytes && of->messages == others->messages &&
           (isnan(a->idle_share) || a->idle_share == b->idle_share);
}

struct record_ranks *trial_record_ranks(struct record *record, const struct rank_figures *figures, size_t count)
{
    struct record_ranks *ranks = calloc(1, sizeof *ranks);
    bool each = count <= RANKS_EACH;
    size_t n = 0;
    *ranks = (struct record_ranks){.given = true, .count = (double)count, .oversubscribed = -1};
    struct number_list *lists[] = {&ranks->alike,          &ranks->peak_bytes, &ranks->sent_bytes,
                                   &ranks->received_bytes, &ranks->messages,   &ranks->idle_share};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        *lists[i] = number_list_make(count);
    for (const struct rank_figures *rank = figures; rank < figures + count; rank++) {
        if (rank > figures && !each && same_figures(rank - 1, rank)) {
            ranks->alike.items[n - 1]++;
            continue;
        }
        ranks->alike.items[n] = 1;
        ranks->peak_bytes.items[n] = (double)rank->peak_bytes;
        ranks->sent_bytes.items[n] = rank->counters.sent_bytes;
        ranks->received_bytes.items[n] = rank->counters.received_bytes;
        ranks->messages.items[n] = (double)rank->counters.messages;
        ranks->idle_share.items[n++] = rank->idle_share;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        lists[i]->count = n;
    ranks->alike.count = each ? 0 : n;
    ranks->idle_share.count = isnan(figures->idle_share) ? 0 : n;
    record->ranks = ranks;
    return ranks;
}

// --- times

// The median of samples of one step; the mean of samples of different draws.
static double middle(const struct number_list *values, bool drawn)
{
    double sum = 0;
    for (size_t i = 0; i < values->count; i++)
        sum += values->items[i];
    return !values->count ? NAN
           : drawn        ? sum / (double)values->count
                          : sample_quantile(values->items, values->count, 0.5);
}

// By the profile's roofline; NaN: no profile, or no layer has experts.
static double break_even_chunk(const struct trial *trial)
{
    const struct routing *routing = &trial->config.experts.routing;
    struct roofline roofline;
    struct status why = {0};
    bool mixture = false;
    for (size_t layer = 0; layer < trial->config.layers; layer++)
        mixture |= config_kind(&trial->config, layer)->mlp == MLP_EXPERTS;
    if (!mixture || !trial->profile || !profile_roofline(trial->profile, trial->dtype, &roofline, &why))
        return NAN;
    return (double)routing->experts / (double)routing->chosen * roofline.flops_per_s / roofline.bytes_per_s *
           dtype_bytes(trial->dtype) / 2;
}

void trial_record_times(struct record *record, const struct trial *trial, const struct counters *counters,
                        const struct number_list *host_launch_ms)
{
    const struct number_list *samples = &record->samples_ms;
    bool drawn = record->sample_chunks.count && samples->count;
    record_set_times(record);
    record->host_launch_ms = middle(host_launch_ms, drawn);
    double seconds = 1e-3 * (drawn ? record->mean_ms : record->median_ms);
    // FLOPs are the first draw's.
    double counted_seconds = drawn ? 1e-3 * samples->items[0] : seconds;
    record->flops_per_s = counters->flops / counted_seconds;
    record->model_flops_per_s = trial->method->exact ? record->model_flops / seconds : NAN;
    record->model_flops_share = record->model_flops_per_s / record->gemm_flops_per_s;
    record->break_even_chunk = break_even_chunk(trial);
    const struct rates *rates = trial->profile ? &trial->profile->rates[trial->dtype] : NULL;
    if (!rates || !counters->launches) {
        record->estimate_ms = NAN;
        return;
    }
    if (!isfinite(record->estimate_ms))
        return;
    record->estimate = profile_estimate_source(trial->profile, trial->dtype);
    record->estimate_low_ms = record->estimate_ms * rates->low;
    record->estimate_high_ms = record->estimate_ms * rates->high;
}

void trial_record_sensors(struct record *record, const struct watch_report *watched, size_t samples)
{
    struct record_sm_clock *clock = calloc(1, sizeof *clock);
    *clock = (struct record_sm_clock){isfinite(watched->sm_clock_median_mhz), watched->sm_clock_min_mhz,
                                      watched->sm_clock_median_mhz, watched->sm_clock_max_mhz};
    record->sm_clock_mhz = clock;
    record->energy_j = watched->energy_j / (double)samples;
}

// --- gradient, time line, kinds of operations

static void *make_parts(struct record_parts *parts, size_t count, size_t part_bytes)
{
    *parts = (struct record_parts){count, calloc(count + 1, part_bytes), NULL};
    return parts->items;
}

void trial_record_gradient(struct record *record, const struct gradient_report *report)
{
    struct record_gradient *gradient = &record->gradient;
    const struct gradient_error *overall = &report->overall;
    gradient->given = true;
    gradient->relative_l2 = overall->relative_l2;
    gradient->max_abs = overall->max_abs;
    gradient->cosine = overall->cosine;
    gradient->decimals = overall->decimals;
    gradient->mean_abs = overall->mean_abs;
    gradient->mean_relative = overall->mean_relative;
    gradient->hash = report->hash;
    if (report->count) {
        gradient->worst_tensor = report->tensors[report->worst].name;
        gradient->worst_relative_l2 = report->tensors[report->worst].error.relative_l2;
    }
    struct record_tensor *tensors = make_parts(&gradient->tensors, report->count, sizeof *tensors);
    const char **names = calloc(report->count + 1, sizeof *names);
    gradient->tensors.names = names;
    for (size_t i = 0; i < report->count; i++) {
        const struct tensor_error *tensor = &report->tensors[i];
        names[i] = tensor->name;
        tensors[i] = (struct record_tensor){tensor->error.relative_l2, tensor->error.max_abs, tensor->hash};
    }
}

static size_t event_total(const struct arena_event *event)
{
    size_t total = 0;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        total += event->live_bytes[i];
    return total;
}

static json_t *event_json(const struct arena_event *event)
{
    json_t *json = json_array();
    json_array_append_new(json, record_number_json(FIELD_SIZE, event->ms));
    json_array_append_new(json, record_number_json(FIELD_WHOLE, event->flops));
    for (int i = 0; i < CATEGORY_COUNT; i++)
        json_array_append_new(json, json_integer((json_int_t)event->live_bytes[i]));
    return json;
}

static json_t *events_json(const struct arena *arena)
{
    json_t *events = json_array();
    size_t stride = (arena->timeline_count + TIMELINE_EVENTS_MAX - 1) / TIMELINE_EVENTS_MAX;
    for (size_t start = 0; start < arena->timeline_count; start += stride) {
        const struct arena_event *highest = &arena->timeline[start];
        for (size_t i = start; i < start + stride && i < arena->timeline_count; i++)
            if (event_total(&arena->timeline[i]) > event_total(highest))
                highest = &arena->timeline[i];
        json_array_append_new(events, event_json(highest));
    }
    return events;
}

void trial_record_timeline(struct record *record, const struct arena *arena)
{
    json_t *order = json_array();
    for (int i = 0; i < CATEGORY_COUNT; i++)
        json_array_append_new(order, json_string(category_name((enum category)i)));
    record->timeline = apart(&(struct record_timeline){true, order, events_json(arena)}, sizeof *record->timeline);
}

// The factor by which the power limit lengthens a step, from its operations.
static double power_factor(const struct breakdown *breakdown, const struct rates *rates)
{
    double seconds = 0, flops = 0;
    for (size_t i = 0; i < breakdown->row_count; i++) {
        seconds += breakdown->rows[i].estimate_s;
        flops += breakdown->rows[i].flops;
    }
    return seconds > 0 ? rates_limited_s(rates, seconds, flops) / seconds : 1;
}

// factor: of the estimate; NaN: none.
static void fill_row(struct record_row *to, const struct breakdown_row *row, bool timed, double factor)
{
    const double shape[] = {(double)row->m, (double)row->n, (double)row->k};
    *to = (struct record_row){.category = work_name(row->work),
                              .operation = row->operation,
                              .launches = (double)row->launches,
                              .flops = row->flops,
                              .bytes_moved = row->bytes_moved,
                              .ms = timed ? row->ms : NAN,
                              .estimate_ms = 1e3 * factor * row->estimate_s};
    if (row->m)
        to->shape = number_list_copy(shape, 3);
}

void trial_record_categories(struct record *record, const struct trial *trial, const struct breakdown *breakdown,
                             double ms, const struct roofline *roofline)
{
    bool timed = !trial->planned, estimated = roofline->bytes_per_s > 0;
    struct record_categories categories = {.given = true, .step_ms = timed ? ms : NAN};
    categories.roofline = (struct record_roofline){.given = estimated,
                                                   .source = trial->profile ? trial->profile->name : "measured",
                                                   .flops_per_s = roofline->flops_per_s,
                                                   .bytes_per_s = roofline->bytes_per_s,
                                                   .launch_s = roofline->launch_s,
                                                   .link_bytes_per_s = reached(roofline->link_bytes_per_s)};
    double factor = estimated ? power_factor(breakdown, roofline->rates) : NAN;
    struct record_row *rows = make_parts(&categories.rows, breakdown->row_count, sizeof *rows);
    for (size_t i = 0; i < breakdown->row_count; i++)
        fill_row(&rows[i], &breakdown->rows[i], timed, factor);
    record->categories = apart(&categories, sizeof categories);
}

// --- the line

static void fill_provenance(struct record_provenance *to, const struct provenance *from)
{
    *to = (struct record_provenance){.given = true,
                                     .revision = from->revision,
                                     .dirty = from->dirty,
                                     .compiler = from->compiler,
                                     .flags = from->flags,
                                     .blas = from->blas,
                                     .cpu = from->cpu,
                                     .card = from->card[0] ? from->card : NULL,
                                     .host_memory_bytes = (double)from->host_memory_bytes,
                                     .threads = from->threads,
                                     .spin_count = from->spin_count,
                                     .kernel = from->kernel,
                                     .clock_mhz_before = reached(from->clock_mhz_before),
                                     .clock_mhz_after = reached(from->clock_mhz_after),
                                     .time = from->time,
                                     .version = from->version};
}

char *trial_record_line(struct record *record, const struct provenance *provenance)
{
    fill_provenance(&record->provenance, provenance);
    json_t *object = record_json(record);
    char *line = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    json_decref((json_t *)record->trial.json);
    json_decref((json_t *)record->chosen);
    json_decref((json_t *)record->shares);
    json_decref((json_t *)record->timeline->category_order);
    json_decref((json_t *)record->timeline->events);
    json_decref((json_t *)record->framework->unchecked);
    record_free(record);
    return line;
}
