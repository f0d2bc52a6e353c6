// Where a step's time goes: milliseconds by category, a row for each series; of plans estimates. Where columns are
// drawn the step is that of draw 0, and the label says of how many.
#include "harness/plot/figure.h"
#include "harness/results/series.h"
#include "harness/results/step_time.h"
#include "kernels/base/observer.h"
#include <math.h>
#include <string.h>

static const char *const nothing[] = {NULL};

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool is_estimate(const json_t *record)
{
    return !isfinite(number(json_object_get(record, "categories"), "step_ms"));
}

// False if the record does not say.
static bool times_of(const json_t *record, double ms[WORK_COUNT])
{
    const json_t *rows = json_object_get(json_object_get(record, "categories"), "rows");
    const char *key = is_estimate(record) ? "estimate_ms" : "ms";
    bool known = json_array_size(rows) > 0;
    memset(ms, 0, WORK_COUNT * sizeof *ms);
    for (size_t i = 0; known && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, "category"));
        size_t work = 0;
        while (work < WORK_COUNT && !(name && strcmp(name, work_name((enum work)work)) == 0)) {
            work++;
        }
        known = work < WORK_COUNT && isfinite(number(row, key));
        if (known) {
            ms[work] += number(row, key);
        }
    }
    return known;
}

static bool tabulate(const json_t *const *records, size_t count, FILE *table)
{
    const json_t **kept = calloc(count + 1, sizeof *kept);
    CHECK(kept);
    size_t kept_count = 0;
    double ms[WORK_COUNT];
    for (size_t i = 0; i < count; i++) {
        if (times_of(records[i], ms)) {
            kept[kept_count++] = records[i];
        }
    }
    fputs("series\tmethod\tlabel\trank\testimated", table);
    for (size_t work = 0; work < WORK_COUNT; work++) {
        fputc('\t', table);
        for (const char *c = work_name((enum work)work); *c; c++) {
            fputc(*c == ' ' ? '_' : *c, table);
        }
    }
    fputc('\n', table);
    struct series_table all;
    series_make(&all, kept, kept_count, nothing, true);
    for (size_t s = 0; s < all.count; s++) {
        const struct series *series = &all.series[s];
        const json_t *record = series->records[series->record_count - 1]; // the last one recorded
        times_of(record, ms);
        char draw[40] = "";
        if (step_time_is_drawn(record)) {
            size_t columns = json_array_size(json_object_get(record, "columns"));
            snprintf(draw, sizeof draw, ", a draw of %zu", columns);
        }
        fprintf(table, "%zu\t%s\t%s%s\t%zu\t%d", s + 1, series->method, series->label, draw, series->rank,
                is_estimate(record));
        for (size_t work = 0; work < WORK_COUNT; work++) {
            fprintf(table, "\t%.15g", ms[work]);
        }
        fputc('\n', table);
    }
    series_free(&all);
    free(kept);
    return kept_count > 0;
}

const struct figure figure_categories = {
    .name = "categories",
    .needs = "records that say where a step's time goes (\"categories\": true; a plan with a profile)",
    .one_context = true,
    .estimates = true,
    .within = nothing,
    .tabulate = tabulate,
};
