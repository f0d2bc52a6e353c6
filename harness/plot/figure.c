#include "harness/plot/figure.h"
#include "harness/record/recorded_key.h"
#include "harness/record/step_time.h"
#include "harness/spec/trial.h"
#include "harness/table/series.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include "methods/method.h"
#include <math.h>
#include <string.h>

static const char *const nothing[] = {NULL};

static double context_of(const struct record *record)
{
    return record->trial.context;
}

// A chunk of 0, or above the context, is the whole context; NaN: no chunks.
static double chunk_of(const struct record *record)
{
    double chunk = record_option_number(record, "chunk"), context = context_of(record);
    return chunk == 0 || chunk > context ? context : chunk;
}

static bool is_ok(const struct record *record)
{
    return record->status == RECORD_OK;
}

static bool is_oom(const struct record *record)
{
    return record->status == RECORD_OOM;
}

// NaN: no such option.
static double budget_of(const struct record *record)
{
    const struct method *method = method_find(record_method(record));
    const struct option *option = method ? option_draws(&method->options) : NULL;
    return option ? record_option_number(record, option->name) : NAN;
}

static void row_start(struct figure_table *table, const struct series_table *all, const struct series *series)
{
    figure_table_row(table, (size_t)(series - all->series) + 1, series->method, series->rank, "%s", series->label);
}

// Insertion sort of a series by one key; stable.
static void sort_series(struct series *series, double (*key)(const struct record *record))
{
    for (size_t i = 1; i < series->record_count; i++) {
        const struct record *record = series->records[i];
        size_t at = i;
        for (; at > 0 && key(series->records[at - 1]) > key(record); at--)
            series->records[at] = series->records[at - 1];
        series->records[at] = record;
    }
}

static bool any(const struct record *record)
{
    (void)record;
    return true;
}

// Number of distinct key values among the counted records of the series.
static size_t distinct(const struct series *series, double (*key)(const struct record *),
                       bool (*counts)(const struct record *))
{
    size_t found = 0;
    for (size_t i = 0; i < series->record_count; i++) {
        bool fresh = counts(series->records[i]) && isfinite(key(series->records[i]));
        for (size_t j = 0; fresh && j < i; j++)
            fresh = !counts(series->records[j]) || key(series->records[j]) != key(series->records[i]);
        found += fresh;
    }
    return found;
}

// Series of the wanted records, each with some. Release with series_free.
static void wanted_series(struct series_table *all, const struct record *const *records, size_t count,
                          bool (*wanted)(const struct record *), const char *const *omit, bool prefixed)
{
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++)
        if (wanted(records[i]))
            kept[kept_count++] = records[i];
    series_make(all, kept, kept_count, omit, prefixed);
    free(kept);
}

// Draw 0, whose peak is recorded, may have no chunk and then says nothing about a step.
static bool is_empty_draw(const struct record *record, const struct record *const *records, size_t count)
{
    (void)records, (void)count;
    const struct number_list *drawn = &record->sample_chunks;
    return is_ok(record) && step_time_is_drawn(record) && drawn->count && drawn->items[0] == 0 &&
           !record->drawn_chunks.count;
}

static bool has_memory(const struct record *record)
{
    return is_oom(record) || (is_ok(record) && isfinite(record->peak_bytes) && !is_empty_draw(record, NULL, 0));
}
static bool has_time(const struct record *record)
{
    return is_ok(record) && isfinite(step_time_of(record).ms);
}

static const char *const along_context[] = {"context", NULL};

// Tables against context: one row per record; some curve must have two contexts.
static bool against_context(const struct record *const *records, size_t count, struct figure_table *table,
                            const char *columns, bool (*wanted)(const struct record *),
                            void (*row)(struct figure_table *, const struct record *))
{
    struct series_table all;
    wanted_series(&all, records, count, wanted, nothing, true);
    figure_table_columns(table, columns);
    bool enough = false;
    for (size_t s = 0; s < all.count; s++) {
        struct series *series = &all.series[s];
        sort_series(series, context_of);
        enough |= distinct(series, context_of, any) >= 2 && distinct(series, context_of, is_ok) >= 1;
        for (size_t i = 0; i < series->record_count; i++) {
            row_start(table, &all, series);
            row(table, series->records[i]);
        }
    }
    series_free(&all);
    return enough;
}

// A trial that ran out of memory has no peak: its memory at that point is below its need.
static void memory_row(struct figure_table *table, const struct record *record)
{
    bool oom = is_oom(record);
    FIGURE_NUMBERS(table, context_of(record), oom ? NAN : record->peak_bytes, oom ? NAN : record->lower_bound_bytes,
                   record->trial.limits->memory, oom, oom ? NAN : record->host_peak_bytes);
}

#define PEAK_NEEDED "a peak, of a first draw with chunks in it (sampler_seed)"

static bool tabulate_memory(const struct record *const *records, size_t count, struct figure_table *table)
{
    return against_context(records, count, table,
                           "context\tpeak_bytes\tlower_bound_bytes\tlimit_bytes\toom\thost_peak_bytes", has_memory,
                           memory_row);
}

static const struct figure memory = {
    .name = "memory",
    .along = "context",
    .panels = "memory,host",
    .needs = "peak_bytes at two contexts or more, for one method at least",
    .peaks = true,
    .within = along_context,
    .tabulate = tabulate_memory,
    .is_pointless = is_empty_draw,
    .point_needs = PEAK_NEEDED,
};

static void time_row(struct figure_table *table, const struct record *record)
{
    struct step_time time = step_time_of(record);
    FIGURE_NUMBERS(table, context_of(record), time.ms, time.low, time.high, time.drawn_chunks);
}

static bool tabulate_time(const struct record *const *records, size_t count, struct figure_table *table)
{
    return against_context(records, count, table, "context\tstep_ms\tlow_ms\thigh_ms\tdrawn", has_time, time_row);
}

static const struct figure step_time = {
    .name = "time",
    .along = "context",
    .logarithmic = true,
    .panels = "time,per-token",
    .times = true,
    .needs = "times at two contexts or more, for one method at least",
    .within = along_context,
    .tabulate = tabulate_time,
};

// Plans have an estimate alone.
static struct step_time measured_or_estimated(const struct record *record)
{
    return trial_plans_on(record->trial.device) ? step_time_estimate(record) : step_time_of(record);
}

static bool has_time_or_memory(const struct record *record)
{
    return (is_ok(record) && isfinite(measured_or_estimated(record).ms)) || has_memory(record);
}

static bool tabulate_chunk(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const omit[] = {"chunk", NULL};
    struct series_table all;
    wanted_series(&all, records, count, has_time_or_memory, omit, true);
    figure_table_columns(table,
                         "chunk\tstep_ms\tlow_ms\thigh_ms\tdrawn\tpeak_bytes\tlimit_bytes\toom\thost_peak_bytes\t"
                         "break_even_chunk");
    bool enough = false;
    for (size_t s = 0; s < all.count; s++) {
        struct series *series = &all.series[s];
        sort_series(series, chunk_of);
        enough |= distinct(series, chunk_of, any) >= 3 && distinct(series, chunk_of, is_ok) >= 2;
        for (size_t i = 0; i < series->record_count; i++) {
            const struct record *record = series->records[i];
            bool oom = is_oom(record), none = !has_memory(record) || oom;
            struct step_time time = measured_or_estimated(record);
            row_start(table, &all, series);
            FIGURE_NUMBERS(table, chunk_of(record), time.ms, time.low, time.high, time.drawn_chunks,
                           none ? NAN : record->peak_bytes, record->trial.limits->memory, oom,
                           none ? NAN : record->host_peak_bytes, record->break_even_chunk);
        }
    }
    series_free(&all);
    return enough;
}

static const struct figure chunk = {
    .name = "chunk",
    .along = "chunk",
    .logarithmic = true,
    .panels = "time,memory,host",
    .times = true,
    .estimates = true,
    .needs = "three chunk sizes or more at one context, two of them ok, for one method at least",
    .one_context = true,
    .peaks = true,
    .within = nothing,
    .tabulate = tabulate_chunk,
    .is_pointless = is_empty_draw,
    .point_needs = PEAK_NEEDED,
};

// The exact method's record with the same chunk, to which an estimate's time is compared. NULL: none, or the time
// is of a single draw.
static const struct record *whole_schedule(const struct record *const *records, size_t count,
                                           const struct record *record)
{
    const struct method *method = method_find(record_method(record));
    if (!method || !method->estimates || !isfinite(record->mean_error_ms))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(record_method(records[i]), method->estimates) == 0 && has_time(records[i]) &&
            chunk_of(records[i]) == chunk_of(record))
            return records[i];
    return NULL;
}

// The ratio of mean times: for several rounds with its interval of 95 %, for one with two standard errors of the
// mean over draws.
static struct shift time_over_whole(const struct record *record, const struct record *whole)
{
    if (!whole)
        return (struct shift){NAN, NAN, NAN};
    if (record->rounds.count && whole->rounds.count)
        return step_time_ratio(record, whole);
    struct step_time time = step_time_of(record);
    double over = step_time_mean(whole);
    return (struct shift){time.ms / over, time.low / over, time.high / over};
}

static bool has_budget(const struct record *record)
{
    return is_ok(record) && isfinite(budget_of(record)) && !record->curve->given; // another figure shows it
}

static bool has_no_share(const struct record *record, const struct record *const *records, size_t count)
{
    return has_budget(record) && !isfinite(record->bias.relative_l2) && !isfinite(record->bias.rms_error) &&
           !isfinite(time_over_whole(record, whole_schedule(records, count, record)).estimate);
}

static bool tabulate_sparsity(const struct record *const *records, size_t count, struct figure_table *table)
{
    const char *omit[NAMES_MAX] = {NULL};
    for (size_t i = 0, found = 0; methods_option(i); i++)
        if (methods_option(i)->draws)
            omit[found++] = methods_option(i)->name;
    struct series_table all;
    const struct record **shown = calloc(count + 1, sizeof *shown);
    size_t shown_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!has_no_share(records[i], records, count))
            shown[shown_count++] = records[i];
    wanted_series(&all, shown, shown_count, has_budget, omit, false);
    free(shown);
    figure_table_columns(table, "budget\tchunks\tdrawn\ttime_ratio\ttime_ratio_low\ttime_ratio_high\trounds\tbias\t"
                                "rms_error");
    bool enough = false;
    for (size_t s = 0; s < all.count; s++) {
        struct series *series = &all.series[s];
        sort_series(series, budget_of);
        enough |= distinct(series, budget_of, any) >= 2;
        for (size_t i = 0; i < series->record_count; i++) {
            const struct record *record = series->records[i];
            struct step_time time = step_time_of(record);
            struct shift ratio = time_over_whole(record, whole_schedule(records, count, record));
            row_start(table, &all, series);
            FIGURE_NUMBERS(table, budget_of(record), ceil(context_of(record) / chunk_of(record)), time.drawn_chunks,
                           ratio.estimate, ratio.low, ratio.high, record->rounds.count, record->bias.relative_l2,
                           record->bias.rms_error);
        }
    }
    series_free(&all);
    return enough;
}

static const struct figure sparsity = {
    .name = "sparsity",
    .panels = "time,bias,rms",
    .part = "bias",
    .times = true,
    .needs = "two budgets or more of a sampling method at one context, and a seco record with the same chunk (time "
             "panel, with a new draw in each sample) or \"bias\": true (error panels)",
    .one_context = true,
    .within = nothing,
    .tabulate = tabulate_sparsity,
    .is_pointless = has_no_share,
    .point_needs = "samples with a new draw each and seco with the same chunk, or \"bias\": true",
};

// For exact methods: the error of a sampled estimate is not rounding, and belongs to the sparsity figure.
static bool has_gradient(const struct record *record)
{
    const struct method *method = method_find(record_method(record));
    return (!method || method->exact) && is_ok(record) && isfinite(record->gradient.relative_l2);
}

static const char *sums_dtype(const struct record *record, bool kv)
{
    return text_or(kv ? record->trial.kv_gradient_dtype : record->trial.gradient_dtype, "");
}

// The dtype, and the accumulators' if they vary for that dtype: "bf16, kv gradients bf16".
static void dtype_label(const struct record *record, const struct record *const *records, size_t count, char *text,
                        size_t bytes)
{
    *text = 0;
    text_append(text, bytes, "%s", record->trial.dtype);
    for (int kv = 1; kv >= 0; kv--) {
        const char *own = sums_dtype(record, kv);
        bool alone = true;
        for (size_t i = 0; i < count; i++)
            alone &= strcmp(records[i]->trial.dtype, record->trial.dtype) != 0 ||
                     strcmp(sums_dtype(records[i], kv), own) == 0;
        if (!alone && *own)
            text_append(text, bytes, ", %s gradients %s", kv ? "kv" : "weight", own);
    }
}

static bool tabulate_gradient_error(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct series_table all;
    wanted_series(&all, records, count, has_gradient, nothing, true);
    figure_table_columns(table, "dtype\trelative_l2\tnoise_floor\tworst_relative_l2\tmax_abs\tcosine");
    size_t rows = 0;
    for (size_t s = 0; s < all.count; s++) {
        for (size_t i = 0; i < all.series[s].record_count; i++) {
            const struct record *record = all.series[s].records[i];
            const struct record_gradient *gradient = &record->gradient;
            char dtype[120];
            dtype_label(record, records, count, dtype, sizeof dtype);
            row_start(table, &all, &all.series[s]);
            figure_table_word(table, dtype);
            FIGURE_NUMBERS(table, gradient->relative_l2, gradient->noise_floor, gradient->worst_relative_l2,
                           gradient->max_abs, gradient->cosine);
            rows++;
        }
    }
    series_free(&all);
    return rows >= 2;
}

static const char *const along_dtype[] = {"dtype", "kv_gradient_dtype", "gradient_dtype", NULL};

static const struct figure gradient_error = {
    .name = "gradient-error",
    .part = "gradient",
    .own_axes = true,
    .needs = "two records or more of exact methods with a gradient check (\"gradient\": \"full-f64\") at one "
             "context",
    .one_context = true,
    .within = along_dtype,
    .tabulate = tabulate_gradient_error,
};

static const char *const along_counts[] = {"router_aux_counts", NULL};

static bool has_router_loss(const struct record *record)
{
    return is_ok(record) && isfinite(record->gradient.relative_l2) && isfinite(record->aux_loss);
}

static bool counts_cells(const struct record *record)
{
    json_t *counts = recorded_key_value(trial_key_named("router_aux_counts"), record);
    bool cells =
        counts && strcmp(text_or(json_string_value(counts), ""), router_counts_names[ROUTER_COUNTS_CELL]) == 0;
    json_decref(counts);
    return cells;
}

// Rows of each series: first those with counts of the step, then those of cells.
static bool tabulate_router_losses(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const omit[] = {"chunk", NULL};
    struct series_table all;
    wanted_series(&all, records, count, has_router_loss, omit, true);
    figure_table_columns(table, "chunk\trelative_l2\tworst_relative_l2\tcell_relative_l2\tcell_worst_relative_l2");
    bool enough = false;
    for (size_t s = 0; s < all.count; s++) {
        struct series *series = &all.series[s];
        sort_series(series, chunk_of);
        enough |= distinct(series, chunk_of, any) >= 2;
        for (size_t i = 0; i < 2 * series->record_count; i++) {
            const struct record *record = series->records[i % series->record_count];
            const struct record_gradient *gradient = &record->gradient;
            bool cells = i >= series->record_count;
            if (counts_cells(record) != cells)
                continue;
            row_start(table, &all, series);
            FIGURE_NUMBERS(table, chunk_of(record), cells ? NAN : gradient->relative_l2,
                           cells ? NAN : gradient->worst_relative_l2, cells ? gradient->relative_l2 : NAN,
                           cells ? gradient->worst_relative_l2 : NAN);
        }
    }
    series_free(&all);
    return enough;
}

static const struct figure router_losses = {
    .name = "router-losses",
    .along = "chunk",
    .logarithmic = true,
    .panels = "all,worst",
    .part = "gradient",
    .needs = "two chunk sizes or more of a method at one context, with \"router_aux_loss\" and a gradient check",
    .one_context = true,
    .within = along_counts,
    .tabulate = tabulate_router_losses,
};

const struct figure *const figures[] = {&memory,
                                        &step_time,
                                        &chunk,
                                        &sparsity,
                                        &figure_estimates,
                                        &gradient_error,
                                        &router_losses,
                                        &figure_routing,
                                        &figure_accumulators,
                                        &figure_prompt,
                                        &figure_interconnect,
                                        &figure_work,
                                        &figure_pair_sums,
                                        &figure_lost_updates,
                                        &figure_timeline,
                                        &figure_categories,
                                        &figure_prediction,
                                        &figure_published_memory,
                                        &figure_published_time,
                                        &figure_training,
                                        &figure_learning,
                                        &figure_metrics,
                                        &figure_rates,
                                        &figure_optimizers,
                                        &figure_history,
                                        &figure_max_context,
                                        &figure_pareto_front,
                                        &figure_frontier,
                                        NULL};
