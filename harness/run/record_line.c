// Record line: the fields of record_fields.h, built in that order; jansson keeps the order of insertion.
#include "harness/run/record_line.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

// A time line is recorded with at most this many events: of each run of neighbours the one with the most live
// bytes, so that thinning never lowers a peak.
#define TIMELINE_EVENTS_MAX 4096

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
static json_t *bytes(size_t value)
{
    return json_integer((json_int_t)value);
}

// A count kept in a double: written as an integer while that is exact.
static json_t *whole(double value)
{
    return fabs(value) < 9007199254740992.0 && value == floor(value) ? json_integer((json_int_t)value)
                                                                     : number(value);
}

static void set(json_t *object, const char *key, json_t *value)
{
    CHECK(value && json_object_set_new(object, key, value) == 0);
}

static json_t *categories(const size_t by_category[CATEGORY_COUNT])
{
    json_t *object = json_object();
    for (int i = 0; i < CATEGORY_COUNT; i++)
        set(object, category_name((enum category)i), bytes(by_category[i]));
    return object;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t count)
{
    double *sorted = malloc(count * sizeof *sorted);
    CHECK(sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    double result = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return result;
}

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

static void set_step(json_t *object, const struct record *record)
{
    const struct step_report *step = record->step;
    set(object, "loss", step && !record->trial->planned ? number(step->loss) : json_null());
    if (!step || !step->columns.count)
        return;
    json_t *columns = json_array();
    for (size_t i = 0; i < step->columns.count; i++)
        json_array_append_new(columns, json_integer(step->columns.items[i]));
    set(object, "columns", columns);
}

static void set_sample_columns(json_t *object, const struct record *record)
{
    json_t *counts = json_array();
    for (size_t i = 0; i < record->sample_count; i++)
        json_array_append_new(counts, json_integer((json_int_t)record->sample_columns[i]));
    set(object, "sample_columns", counts);
}

// The middle of the samples of one and the same step, and the mean of those of different draws.
static double middle(const struct record *record, const double *values)
{
    return record->sample_columns ? mean(values, record->sample_count) : median(values, record->sample_count);
}

static void set_times(json_t *object, const struct record *record)
{
    bool timed = record->samples_ms && record->sample_count, drawn = record->sample_columns && timed;
    json_t *samples = json_array();
    for (size_t i = 0; timed && i < record->sample_count; i++)
        json_array_append_new(samples, number(record->samples_ms[i]));
    set(object, "samples_ms", samples);
    if (record->sample_columns)
        set_sample_columns(object, record);
    set(object, "median_ms", timed ? number(median(record->samples_ms, record->sample_count)) : json_null());
    set(object, "mean_ms", drawn ? number(mean(record->samples_ms, record->sample_count)) : json_null());
    set(object, "mean_error_ms",
        drawn ? number(mean_error(record->samples_ms, record->sample_count)) : json_null());
    set(object, "asked_ms", timed && record->asked_ms ? number(middle(record, record->asked_ms)) : json_null());
    // NaN where there is no such rate. Of draws the first is the one that is counted.
    double seconds = timed ? 1e-3 * middle(record, record->samples_ms) : NAN;
    double counted_seconds = drawn ? 1e-3 * record->samples_ms[0] : seconds;
    double gemm = record->gemm_flops_per_s > 0 ? record->gemm_flops_per_s : NAN;
    double model = record->trial->method->exact ? record->model_flops / seconds : NAN;
    set(object, "flops_per_s", number(record->counters.flops / counted_seconds));
    set(object, "model_flops_per_s", number(model));
    set(object, "gemm_flops_per_s", number(gemm));
    set(object, "model_flops_share", number(model / gemm));
    const struct profile *profile = record->trial->profile;
    bool estimated = profile && record->counters.launches > 0;
    set(object, "estimate_ms", estimated ? number(record->estimate_ms) : json_null());
    set(object, "profile", profile ? record_text(profile->name) : json_null());
}

static void set_sensors(json_t *object, const struct record *record)
{
    const struct watch_report *watched = record->sample_count ? record->watched : NULL;
    json_t *clock = json_null();
    if (watched && isfinite(watched->sm_clock_median_mhz)) {
        clock = json_object();
        set(clock, "min", number(watched->sm_clock_min_mhz));
        set(clock, "median", number(watched->sm_clock_median_mhz));
        set(clock, "max", number(watched->sm_clock_max_mhz));
    }
    set(object, "energy_j", watched ? number(watched->energy_j / (double)record->sample_count) : json_null());
    set(object, "sm_clock_mhz", clock);
}

static void set_memory(json_t *object, const struct record *record)
{
    bool known = record->peak_bytes > 0;
    const struct trial *trial = record->trial;
    double bound = (double)record->resident_bytes +
                   record->floor_bytes_per_token * (double)trial->context * (double)trial->batch;
    bool bounded = record->resident_bytes > 0;
    set(object, "peak_bytes", known ? bytes(record->peak_bytes) : json_null());
    set(object, "peak_by_category", known ? categories(record->peak_by_category) : json_null());
    set(object, "resident_bytes", bounded ? bytes(record->resident_bytes) : json_null());
    set(object, "device_used_bytes", record->device_used_bytes ? bytes(record->device_used_bytes) : json_null());
    set(object, "device_reserved_bytes",
        record->device_reserved_bytes ? bytes(record->device_reserved_bytes) : json_null());
    set(object, "floor_bytes_per_token", bounded ? number(record->floor_bytes_per_token) : json_null());
    set(object, "lower_bound_bytes", bounded ? whole(ceil(bound)) : json_null());
    set(object, "peak_over_bound",
        bounded && record->status == RECORD_OK ? number((double)record->peak_bytes / bound) : json_null());
}

static void set_counts(json_t *object, const struct record *record)
{
    bool known = record->counters.launches > 0;
    set(object, "flops", known ? whole(record->counters.flops) : json_null());
    set(object, "model_flops", record->model_flops > 0 ? whole(record->model_flops) : json_null());
    set(object, "bytes_moved", known ? whole(record->counters.bytes_moved) : json_null());
    bool glued = record->counters.glue_bytes > 0;
    set(object, "attention_glue_bytes", glued ? whole(record->counters.glue_bytes) : json_null());
    set(object, "launches", known ? json_integer((json_int_t)record->counters.launches) : json_null());
}

static json_t *hash_json(uint64_t hash)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    return json_string(digits);
}

static json_t *gradient_json(const struct record *record)
{
    const struct gradient_report *report = record->gradient;
    if (!report)
        return json_null();
    const struct gradient_error *overall = &report->overall;
    json_t *object = json_object(), *tensors = json_object();
    set(object, "relative_l2", number(overall->relative_l2));
    set(object, "max_abs", number(overall->max_abs));
    set(object, "cosine", number(overall->cosine));
    set(object, "decimals", number(overall->decimals));
    set(object, "mean_abs", number(overall->mean_abs));
    set(object, "mean_relative", number(overall->mean_relative));
    set(object, "noise_floor", number(record->noise_floor));
    set(object, "sums_relative_l2", number(record->sums_relative_l2));
    set(object, "worst_tensor", report->count ? record_text(report->tensors[report->worst].name) : json_null());
    set(object, "worst_relative_l2",
        report->count ? number(report->tensors[report->worst].error.relative_l2) : json_null());
    set(object, "hash", hash_json(report->hash));
    for (size_t i = 0; i < report->count; i++) {
        json_t *tensor = json_object();
        set(tensor, "relative_l2", number(report->tensors[i].error.relative_l2));
        set(tensor, "max_abs", number(report->tensors[i].error.max_abs));
        set(tensor, "hash", hash_json(report->tensors[i].hash));
        set(tensors, report->tensors[i].name, tensor);
    }
    set(object, "tensors", tensors);
    return object;
}

static json_t *bias_json(const struct bias *bias)
{
    if (!bias)
        return json_null();
    json_t *object = json_object();
    set(object, "relative_l2", number(bias->relative_l2));
    set(object, "rms_error", number(bias->rms_error));
    set(object, "subsets", bytes(bias->subsets));
    return object;
}

static size_t event_total(const struct arena_event *event)
{
    size_t total = 0;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        total += event->live_bytes[i];
    return total;
}

static json_t *timeline_json(const struct arena *arena)
{
    if (!arena)
        return json_null();
    json_t *object = json_object(), *order = json_array(), *events = json_array();
    for (int i = 0; i < CATEGORY_COUNT; i++)
        json_array_append_new(order, json_string(category_name((enum category)i)));
    size_t stride = (arena->timeline_count + TIMELINE_EVENTS_MAX - 1) / TIMELINE_EVENTS_MAX;
    for (size_t start = 0; start < arena->timeline_count; start += stride) {
        const struct arena_event *highest = &arena->timeline[start];
        for (size_t i = start; i < start + stride && i < arena->timeline_count; i++)
            if (event_total(&arena->timeline[i]) > event_total(highest))
                highest = &arena->timeline[i];
        json_t *event = json_array();
        json_array_append_new(event, number(highest->ms));
        json_array_append_new(event, whole(highest->flops));
        for (int i = 0; i < CATEGORY_COUNT; i++)
            json_array_append_new(event, bytes(highest->live_bytes[i]));
        json_array_append_new(events, event);
    }
    set(object, "category_order", order);
    set(object, "events", events);
    return object;
}

static json_t *roofline_json(const struct record *record)
{
    const struct roofline *roofline = &record->roofline;
    const struct profile *profile = record->trial->profile;
    if (!(roofline->bytes_per_s > 0))
        return json_null();
    json_t *object = json_object();
    set(object, "source", record_text(profile ? profile->name : "measured"));
    set(object, "flops_per_s", number(roofline->flops_per_s));
    set(object, "bytes_per_s", number(roofline->bytes_per_s));
    set(object, "launch_s", number(roofline->launch_s));
    return object;
}

static json_t *breakdown_row_json(const struct breakdown_row *row, bool timed, bool estimated)
{
    json_t *object = json_object(), *shape = row->m ? json_array() : json_null();
    const size_t sizes[] = {row->m, row->n, row->k};
    for (size_t i = 0; row->m && i < 3; i++)
        json_array_append_new(shape, bytes(sizes[i]));
    set(object, "category", json_string(work_name(row->work)));
    set(object, "operation", json_string(row->operation));
    set(object, "shape", shape);
    set(object, "launches", json_integer((json_int_t)row->launches));
    set(object, "flops", whole(row->flops));
    set(object, "bytes_moved", whole(row->bytes_moved));
    set(object, "ms", timed ? number(row->ms) : json_null());
    set(object, "estimate_ms", estimated ? number(1e3 * row->estimate_s) : json_null());
    return object;
}

static json_t *breakdown_json(const struct record *record)
{
    const struct breakdown *breakdown = record->breakdown;
    if (!breakdown)
        return json_null();
    bool timed = !record->trial->planned;
    json_t *object = json_object(), *rows = json_array();
    set(object, "step_ms", timed ? number(record->breakdown_ms) : json_null());
    set(object, "roofline", roofline_json(record));
    for (size_t i = 0; i < breakdown->row_count; i++)
        json_array_append_new(rows,
                              breakdown_row_json(&breakdown->rows[i], timed, record->roofline.bytes_per_s > 0));
    set(object, "rows", rows);
    return object;
}

static json_t *clock_json(double mhz)
{
    return mhz > 0 ? number(mhz) : json_null();
}

static json_t *provenance_json(const struct provenance *provenance)
{
    json_t *object = json_object();
    set(object, "revision", record_text(provenance->revision));
    set(object, "dirty", provenance->dirty < 0 ? json_null() : json_boolean(provenance->dirty));
    set(object, "compiler", record_text(provenance->compiler));
    set(object, "flags", record_text(provenance->flags));
    set(object, "blas", record_text(provenance->blas));
    set(object, "cpu", record_text(provenance->cpu));
    set(object, "card", provenance->card[0] ? record_text(provenance->card) : json_null());
    set(object, "host_memory_bytes", bytes(provenance->host_memory_bytes));
    set(object, "threads", json_integer(provenance->threads));
    set(object, "kernel", record_text(provenance->kernel));
    set(object, "clock_mhz_before", clock_json(provenance->clock_mhz_before));
    set(object, "clock_mhz_after", clock_json(provenance->clock_mhz_after));
    set(object, "time", record_text(provenance->time));
    set(object, "version", record_text(provenance->version));
    return object;
}

char *record_line(const struct record *record)
{
    json_t *object = json_object(), *trial = json_loads(record->trial->canonical, 0, NULL);
    CHECK(object && trial);
    set(object, "schema", json_integer(RECORD_SCHEMA));
    set(object, "id", record_text(record->trial->id));
    set(object, "experiment", record_text(""));
    set(object, "status", record_text(record_status_name(record->status)));
    set(object, "reason", record_text(record->reason));
    set(object, "trial", trial);
    set_step(object, record);
    set_times(object, record);
    set_sensors(object, record);
    set_memory(object, record);
    set_counts(object, record);
    set(object, "gradient", gradient_json(record));
    set(object, "bias", bias_json(record->bias));
    set(object, "timeline", timeline_json(record->timeline));
    set(object, "categories", breakdown_json(record));
    set(object, "provenance", provenance_json(&record->provenance));
    set(object, "wall_s", number(record->wall_s));
    set(object, "command", record_text(""));
    char *line = json_dumps(object, JSON_COMPACT);
    CHECK(line);
    json_decref(object);
    return line;
}
