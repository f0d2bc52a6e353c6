#include "harness/trial/record_line.h"
#include "harness/record/record_json.h"
#include "harness/spec/method_decode.h"
#include "harness/stats/sample.h"
#include <math.h>
#include <string.h>

// A time line is recorded with at most this many events: of each run of neighbours the one with the most live
// bytes, so that thinning never lowers a peak.
#define TIMELINE_EVENTS_MAX 4096

static double mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

// The standard error of the mean; not known (not finite) of one value.
static double mean_error(const double *values, size_t count)
{
    double centre = mean(values, count), squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - centre) * (values[i] - centre);
    return sqrt(squares / ((double)count - 1) / (double)count);
}

// NaN, and so null, of what is 0 when it was not reached.
static double reached(size_t value)
{
    return value ? (double)value : NAN;
}

// The middle of the samples of one and the same step, and the mean of those of different draws.
static double middle(const struct trial_result *result, const double *values)
{
    return result->sample_columns ? mean(values, result->sample_count)
                                  : sample_quantile(values, result->sample_count, 0.5);
}

static void fill_step(struct record *record, const struct trial_result *result)
{
    const struct step_report *step = result->step;
    if (!step)
        return;
    record->loss = result->trial->planned ? NAN : result->curve ? result->curve->loss[0] : step->sums.loss;
    record->columns = number_list_make(step->columns.count);
    for (size_t i = 0; i < step->columns.count; i++)
        record->columns.items[i] = (double)step->columns.items[i];
}

static void fill_samples(struct record *record, const struct trial_result *result, bool timed, bool drawn)
{
    if (timed)
        record->samples_ms = number_list_copy(result->samples_ms, result->sample_count);
    if (timed && result->cpu_ms && !result->ranks)
        record->cpu_ms = number_list_copy(result->cpu_ms, result->sample_count);
    if (result->sample_columns) {
        record->sample_columns = number_list_make(result->sample_count);
        for (size_t i = 0; i < result->sample_count; i++)
            record->sample_columns.items[i] = (double)result->sample_columns[i];
    }
    if (timed && result->slowdown)
        record->slowdown = number_list_copy(result->slowdown, result->sample_count);
    record->median_ms = timed ? sample_quantile(result->samples_ms, result->sample_count, 0.5) : NAN;
    record->mean_ms = drawn ? mean(result->samples_ms, result->sample_count) : NAN;
    record->mean_error_ms = drawn ? mean_error(result->samples_ms, result->sample_count) : NAN;
    record->asked_ms = timed && result->asked_ms ? middle(result, result->asked_ms) : NAN;
}

static void fill_times(struct record *record, const struct trial_result *result)
{
    bool timed = result->samples_ms && result->sample_count, drawn = result->sample_columns && timed;
    fill_samples(record, result, timed, drawn);
    // Of draws the first is the one that is counted.
    double seconds = timed ? 1e-3 * middle(result, result->samples_ms) : NAN;
    double counted_seconds = drawn ? 1e-3 * result->samples_ms[0] : seconds;
    record->flops_per_s = result->counters.flops / counted_seconds;
    record->model_flops_per_s = result->trial->method->exact ? result->model_flops / seconds : NAN;
    record->gemm_flops_per_s = result->gemm_flops_per_s > 0 ? result->gemm_flops_per_s : NAN;
    record->model_flops_share = record->model_flops_per_s / record->gemm_flops_per_s;
    const struct profile *profile = result->trial->profile;
    record->estimate_ms = profile && result->counters.launches > 0 ? result->estimate_ms : NAN;
    record->profile = profile ? profile->name : NULL;
    const struct rates *rates = profile ? &profile->rates[result->trial->dtype] : NULL;
    if (rates && isfinite(record->estimate_ms)) {
        record->estimate = profile_estimate_source(profile, result->trial->dtype);
        record->estimate_low_ms = record->estimate_ms * rates->low;
        record->estimate_high_ms = record->estimate_ms * rates->high;
    }
}

// A copy of a part that stands apart from the record.
static void *apart(const void *part, size_t bytes)
{
    void *copy = malloc(bytes);
    CHECK(copy);
    return memcpy(copy, part, bytes);
}

static void fill_sensors(struct record *record, const struct trial_result *result)
{
    const struct watch_report *watched = result->sample_count ? result->watched : NULL;
    if (!watched)
        return;
    record->energy_j = watched->energy_j / (double)result->sample_count;
    if (isfinite(watched->sm_clock_median_mhz))
        record->sm_clock_mhz =
            apart(&(struct record_sm_clock){true, watched->sm_clock_min_mhz, watched->sm_clock_median_mhz,
                                            watched->sm_clock_max_mhz},
                  sizeof *record->sm_clock_mhz);
}

static void fill_load(struct record *record, const struct trial_result *result)
{
    const struct machine_load *load = result->sample_count && !result->ranks ? result->load : NULL;
    if (load)
        record->load = (struct record_load){
            true, load->before, load->cores, load->other_cores, load->stolen_cores, load->waited_cores};
}

static const double *tally_of(const size_t bytes[CATEGORY_COUNT])
{
    double tally[CATEGORY_COUNT];
    for (int i = 0; i < CATEGORY_COUNT; i++)
        tally[i] = (double)bytes[i];
    return apart(tally, sizeof tally);
}

static void fill_memory(struct record *record, const struct trial_result *result)
{
    record->peak_bytes = reached(result->peak_bytes);
    if (result->peak_bytes)
        record->peak_by_category = tally_of(result->peak_by_category);
    record->host_peak_bytes = reached(result->host_peak_bytes);
    if (result->host_peak_bytes)
        record->host_peak_by_category = tally_of(result->host_peak_by_category);
    record->resident_bytes = reached(result->resident_bytes);
    record->unplanned_micro_batches = reached(result->unplanned_micro_batches);
    record->device_used_bytes = reached(result->device_used_bytes);
    record->device_reserved_bytes = reached(result->device_reserved_bytes);
    if (!result->resident_bytes)
        return;
    double bound = (double)result->resident_bytes + result->floor_bytes_per_token * result->tokens;
    record->floor_bytes_per_token = result->floor_bytes_per_token;
    record->lower_bound_bytes = ceil(bound);
    record->peak_over_bound = result->status == RECORD_OK ? (double)result->peak_bytes / bound : NAN;
}

static void fill_counts(struct record *record, const struct trial_result *result)
{
    const struct counters *counters = &result->counters;
    bool known = counters->launches > 0;
    record->flops = known ? counters->flops : NAN;
    record->model_flops = result->model_flops > 0 ? result->model_flops : NAN;
    record->bytes_moved = known ? counters->bytes_moved : NAN;
    record->attention_glue_bytes = counters->glue_bytes > 0 ? counters->glue_bytes : NAN;
    const double *link = counters->link_bytes;
    record->link_out_bytes = link[QUEUE_OUT] > 0 ? link[QUEUE_OUT] : NAN;
    record->link_in_bytes = link[QUEUE_IN] > 0 ? link[QUEUE_IN] : NAN;
    record->launches = reached(counters->launches);
    record->instructions = result->sample_count && result->instructions > 0 ? result->instructions : NAN;
}

static void *make_parts(struct record_parts *parts, size_t count, size_t part_bytes)
{
    *parts = (struct record_parts){count, calloc(count + 1, part_bytes), NULL};
    CHECK(parts->items);
    return parts->items;
}

static void fill_gradient(struct record_gradient *gradient, const struct trial_result *result)
{
    const struct gradient_report *report = result->gradient;
    if (!report)
        return;
    const struct gradient_error *overall = &report->overall;
    const struct rounding_verdict *verdict = &result->verdict;
    bool any = report->count > 0, judged = verdict->name;
    *gradient =
        (struct record_gradient){.given = true,
                                 .relative_l2 = overall->relative_l2,
                                 .max_abs = overall->max_abs,
                                 .cosine = overall->cosine,
                                 .decimals = overall->decimals,
                                 .mean_abs = overall->mean_abs,
                                 .mean_relative = overall->mean_relative,
                                 .noise_floor = result->noise_floor,
                                 .bound = judged ? verdict->bound : NAN,
                                 .bound_share = judged ? verdict->bound_share : NAN,
                                 .verdict = verdict->name,
                                 .sums_relative_l2 = result->sums_relative_l2,
                                 .worst_tensor = any ? report->tensors[report->worst].name : NULL,
                                 .worst_relative_l2 = any ? report->tensors[report->worst].error.relative_l2 : NAN};
    gradient->hash = report->hash;
    struct record_tensor *tensors = make_parts(&gradient->tensors, report->count, sizeof *tensors);
    const char **names = calloc(report->count + 1, sizeof *names);
    CHECK(names);
    gradient->tensors.names = names;
    for (size_t i = 0; i < report->count; i++) {
        const struct tensor_error *tensor = &report->tensors[i];
        names[i] = tensor->name;
        tensors[i] = (struct record_tensor){tensor->error.relative_l2, tensor->error.max_abs, tensor->hash};
    }
}

// Ranks beyond which those that came to the same are written once.
#define RANKS_EACH 64

static bool same_figures(const struct rank_figures *a, const struct rank_figures *b)
{
    const struct counters *of = &a->counters, *others = &b->counters;
    return a->peak_bytes == b->peak_bytes && of->sent_bytes == others->sent_bytes &&
           of->received_bytes == others->received_bytes && of->messages == others->messages &&
           (isnan(a->idle_share) || a->idle_share == b->idle_share);
}

static void fill_ranks(struct record *record, const struct trial_result *result)
{
    bool planned = result->trial->planned, each = result->rank_count <= RANKS_EACH;
    size_t n = 0;
    if (!result->ranks)
        return;
    struct record_ranks *ranks = malloc(sizeof *ranks);
    CHECK(ranks);
    record->ranks = ranks;
    *ranks = (struct record_ranks){.given = true,
                                   .count = (double)result->rank_count,
                                   .engine = planned ? NULL : result->engine,
                                   .oversubscribed = planned ? -1 : result->oversubscribed};
    struct number_list *lists[] = {&ranks->alike,          &ranks->peak_bytes, &ranks->sent_bytes,
                                   &ranks->received_bytes, &ranks->messages,   &ranks->idle_share};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        *lists[i] = number_list_make(result->rank_count);
        CHECK(lists[i]->items);
    }
    for (size_t r = 0; r < result->rank_count; r++) {
        const struct rank_figures *rank = &result->ranks[r];
        if (r > 0 && !each && same_figures(rank - 1, rank)) {
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
    ranks->idle_share.count = isnan(result->ranks->idle_share) ? 0 : n;
}

static void fill_bias(struct record_bias *bias, const struct trial_result *result)
{
    if (result->bias)
        *bias = (struct record_bias){.given = true,
                                     .relative_l2 = result->bias->relative_l2,
                                     .rms_error = result->bias->rms_error,
                                     .subsets = (double)result->bias->subsets};
}

static void fill_pair_sums(struct record *record, const struct trial_result *result)
{
    const struct pair_sums *sums = result->pair_sums;
    if (sums)
        record->pair_sums =
            apart(&(struct record_pair_sums){true, sums->difference, sums->f64_error, sums->f32_error,
                                             sums->bf16_error, sums->bf16_once_error},
                  sizeof *record->pair_sums);
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

static void fill_timeline(struct record *record, const struct trial_result *result)
{
    if (!result->timeline)
        return;
    json_t *order = json_array();
    for (int i = 0; i < CATEGORY_COUNT; i++)
        json_array_append_new(order, json_string(category_name((enum category)i)));
    record->timeline =
        apart(&(struct record_timeline){true, order, events_json(result->timeline)}, sizeof *record->timeline);
}

// How much longer the power limit makes a step, by its operations.
static double power_factor(const struct breakdown *breakdown, const struct rates *rates)
{
    double seconds = 0, flops = 0;
    for (size_t i = 0; i < breakdown->row_count; i++) {
        seconds += breakdown->rows[i].estimate_s;
        flops += breakdown->rows[i].flops;
    }
    return seconds > 0 ? rates_limited_s(rates, seconds, flops) / seconds : 1;
}

// factor: of the estimate; NaN: there is none.
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

static void fill_categories(struct record *record, const struct trial_result *result)
{
    const struct breakdown *breakdown = result->breakdown;
    const struct roofline *roofline = &result->roofline;
    const struct profile *profile = result->trial->profile;
    bool timed = !result->trial->planned, estimated = roofline->bytes_per_s > 0;
    if (!breakdown)
        return;
    struct record_categories categories = {.given = true, .step_ms = timed ? result->breakdown_ms : NAN};
    categories.roofline = (struct record_roofline){
        .given = estimated,
        .source = profile ? profile->name : "measured",
        .flops_per_s = roofline->flops_per_s,
        .bytes_per_s = roofline->bytes_per_s,
        .launch_s = roofline->launch_s,
        .link_bytes_per_s = roofline->link_bytes_per_s > 0 ? roofline->link_bytes_per_s : NAN};
    double factor = estimated ? power_factor(breakdown, roofline->rates) : NAN;
    struct record_row *rows = make_parts(&categories.rows, breakdown->row_count, sizeof *rows);
    for (size_t i = 0; i < breakdown->row_count; i++)
        fill_row(&rows[i], &breakdown->rows[i], timed, factor);
    record->categories = apart(&categories, sizeof categories);
}

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
                                     .clock_mhz_before = from->clock_mhz_before > 0 ? from->clock_mhz_before : NAN,
                                     .clock_mhz_after = from->clock_mhz_after > 0 ? from->clock_mhz_after : NAN,
                                     .time = from->time,
                                     .version = from->version};
}

static void fill(struct record *record, const struct trial_result *result)
{
    record_clear(record);
    record->schema = RECORD_SCHEMA;
    record->id = result->trial->id;
    record->experiment = record->command = "";
    record->status = result->status;
    record->reason = result->reason;
    record->trial.json = json_loads(result->trial->canonical, 0, NULL);
    record->chosen = trial_chosen(result->trial);
    record->wall_s = result->wall_s;
    record->data_hash = result->data_hash;
    record->model_hash = result->model_hash;
    fill_step(record, result);
    fill_times(record, result);
    fill_sensors(record, result);
    fill_load(record, result);
    fill_memory(record, result);
    fill_counts(record, result);
    fill_ranks(record, result);
    fill_gradient(&record->gradient, result);
    fill_bias(&record->bias, result);
    fill_pair_sums(record, result);
    if (result->curve)
        record->curve = curve_record(result->curve, result->trial);
    fill_timeline(record, result);
    fill_categories(record, result);
    fill_provenance(&record->provenance, &result->provenance);
}

char *record_line(const struct trial_result *result)
{
    struct record record;
    fill(&record, result);
    json_t *object = record_json(&record);
    char *line = json_dumps(object, JSON_COMPACT);
    CHECK(record.trial.json && line);
    json_decref(object);
    json_decref((json_t *)record.trial.json);
    json_decref((json_t *)record.chosen);
    json_decref((json_t *)record.timeline->category_order);
    json_decref((json_t *)record.timeline->events);
    record_free(&record);
    return line;
}
