// Work against context: planned FLOPs and estimated time of a step; a series per method with its options, and per
// way to share a step.
#include "harness/plot/figure.h"
#include "harness/record/step_time.h"
#include "harness/table/series.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>

static bool is_planned(const struct record *record)
{
    return record->status == RECORD_OK && isfinite(record->flops) && isfinite(step_time_estimate(record).ms) &&
           !isfinite(step_time_of(record).ms);
}

static int by_context(const void *a, const void *b)
{
    double x = (*(const struct record *const *)a)->trial.context,
           y = (*(const struct record *const *)b)->trial.context;
    return (x > y) - (x < y);
}

// Tells whether some series has two contexts.
static bool goes_along(const struct series_table *all)
{
    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 1; i < all->series[s].record_count; i++)
            if (all->series[s].records[i]->trial.context != all->series[s].records[0]->trial.context)
                return true;
    return false;
}

// If every chunk occurs at only one context, as a share of it does, it varies along a curve.
static bool chunks_vary(const struct series_table *all)
{
    bool several = false;
    for (size_t s = 0; s < all->count; s++) {
        const struct series *series = &all->series[s];
        bool chunked = isfinite(record_option_number(series->records[0], "chunk"));
        several |= chunked && series->rank > 0;
        for (size_t i = 1; chunked && i < series->record_count; i++)
            if (series->records[i]->trial.context != series->records[0]->trial.context)
                return false;
    }
    return several;
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const nothing[] = {NULL}, *const chunk[] = {"chunk", NULL};
    const struct record **planned = calloc(count + 1, sizeof *planned);
    size_t planned_count = 0;
    for (size_t i = 0; i < count; i++)
        if (is_planned(records[i]))
            planned[planned_count++] = records[i];
    struct series_table all;
    series_make(&all, planned, planned_count, nothing, true);
    if (chunks_vary(&all)) {
        series_free(&all);
        series_make(&all, planned, planned_count, chunk, true);
    }
    bool enough = goes_along(&all);
    figure_table_columns(table, "context\testimate_ms\tflops");
    for (size_t s = 0; s < all.count; s++) {
        struct series *series = &all.series[s];
        qsort(series->records, series->record_count, sizeof *series->records, by_context);
        for (size_t i = 0; i < series->record_count; i++) {
            const struct record *record = series->records[i];
            figure_table_row(table, s + 1, series->method, series->rank, "%s", series->label);
            FIGURE_NUMBERS(table, record->trial.context, step_time_estimate(record).ms, record->flops);
        }
    }
    series_free(&all);
    free(planned);
    return enough;
}

static const char *const along_context[] = {"context", NULL};

const struct figure figure_work = {
    .name = "work",
    .along = "context",
    .panels = "time,flops",
    .times = true,
    .needs = "plans with an estimate (a profile) at two contexts or more, for one method at least",
    .estimates = true,
    .within = along_context,
    .tabulate = tabulate,
};
