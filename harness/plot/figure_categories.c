// Time by category: milliseconds of a step by category, a row per series; estimates for plans. With drawn chunks
// the step is draw 0's, and the label has its number of chunks.
#include "harness/plot/figure.h"
#include "harness/record/step_time.h"
#include "harness/table/series.h"
#include "kernels/device/observer.h"
#include <math.h>
#include <string.h>

static const char *const nothing[] = {NULL};

static bool is_estimate(const struct record *record)
{
    return !isfinite(record->categories->step_ms);
}

// Returns false if the record lacks them.
static bool times_of(const struct record *record, double ms[WORK_COUNT])
{
    const struct record_row *rows = record->categories->rows.items;
    bool known = record->categories->rows.count > 0, estimate = is_estimate(record);
    memset(ms, 0, WORK_COUNT * sizeof *ms);
    for (size_t i = 0; known && i < record->categories->rows.count; i++) {
        const char *name = text_or(rows[i].category, "");
        double own = estimate ? rows[i].estimate_ms : rows[i].ms;
        size_t work = 0;
        while (work < WORK_COUNT && strcmp(name, work_name((enum work)work)) != 0)
            work++;
        known = work < WORK_COUNT && isfinite(own);
        if (known)
            ms[work] += own;
    }
    return known;
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    double ms[WORK_COUNT];
    for (size_t i = 0; i < count; i++)
        if (times_of(records[i], ms))
            kept[kept_count++] = records[i];
    figure_table_columns(table, "estimated");
    for (size_t work = 0; work < WORK_COUNT; work++) {
        char name[64];
        snprintf(name, sizeof name, "%s", work_name((enum work)work));
        for (char *c = name; *c; c++)
            *c = *c == ' ' ? '_' : *c;
        figure_table_columns(table, name);
    }
    struct series_table all;
    series_make(&all, kept, kept_count, nothing, true);
    for (size_t s = 0; s < all.count; s++) {
        const struct series *series = &all.series[s];
        const struct record *record = series->records[series->record_count - 1]; // the latest one
        times_of(record, ms);
        char draw[40] = "";
        if (step_time_is_drawn(record))
            snprintf(draw, sizeof draw, ", a draw of %zu", record->drawn_chunks.count);
        figure_table_row(table, s + 1, series->method, series->rank, "%s%s", series->label, draw);
        FIGURE_NUMBERS(table, is_estimate(record));
        figure_table_numbers(table, ms, WORK_COUNT);
    }
    series_free(&all);
    free(kept);
    return kept_count > 0;
}

const struct figure figure_categories = {
    .name = "categories",
    .part = "categories",
    .times = true,
    .own_axes = true,
    .needs = "records of a step's time by category (\"categories\": true; a plan with a profile)",
    .one_context = true,
    .estimates = true,
    .within = nothing,
    .tabulate = tabulate,
};
