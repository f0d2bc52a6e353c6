// Time line: live memory during a step, one time line per series.
#include "harness/plot/figure.h"
#include "harness/spec/trial.h"
#include "harness/table/series.h"
#include "kernels/base/status.h"
#include <math.h>

static void row_start(struct figure_table *table, const struct series_table *all, const struct series *series)
{
    figure_table_row(table, (size_t)(series - all->series) + 1, series->method, series->rank, "%s", series->label);
}

static bool has_timeline(const struct record *record)
{
    return record->status == RECORD_OK && json_array_size(record->timeline->category_order) > 0 &&
           json_array_size(record->timeline->events) > 1;
}

// Number of steps that a picture can show.
#define TIMELINE_STEPS 400

static double event_value(const json_t *events, size_t event, size_t column)
{
    const json_t *value = json_array_get(json_array_get(events, event), column);
    return json_is_number(value) ? json_number_value(value) : 0;
}

// The event with the most live bytes from `start` on within one of TIMELINE_STEPS equal spans of the axis; *end:
// the first event after that span.
static size_t highest_of_step(const json_t *events, size_t categories, size_t axis, size_t start, size_t *end)
{
    size_t count = json_array_size(events), highest = start;
    double first = event_value(events, 0, axis), last = event_value(events, count - 1, axis);
    double step = (last - first) / TIMELINE_STEPS, max = -1;
    double limit = first + step * (floor((event_value(events, start, axis) - first) / step) + 1);
    *end = start;
    do {
        double total = 0;
        for (size_t c = 0; c < categories; c++)
            total += event_value(events, *end, 2 + c);
        if (total > max) {
            max = total;
            highest = *end;
        }
    } while (++*end < count && event_value(events, *end, axis) < limit);
    return highest;
}

// Converts a record's events to corners of steps: at each change a row with the live bytes before and one with
// those after. Thinning keeps every peak.
static void timeline_rows(struct figure_table *table, const struct series_table *all, const struct series *series,
                          const struct record *record, size_t categories)
{
    const json_t *events = record->timeline->events;
    // A plan has no clock; its axis is FLOPs.
    bool planned = trial_plans_on(record->trial.device);
    size_t count = json_array_size(events);
    double *values = calloc(2 + categories, sizeof *values);
    for (size_t start = 0, end; start < count; start = end) {
        size_t highest = highest_of_step(events, categories, planned ? 1 : 0, start, &end);
        // A step ends at its last event, whatever was higher just before.
        size_t shown[] = {highest, count - 1};
        for (size_t i = 0; i < (end == count && highest != count - 1 ? 2 : 1); i++) {
            values[0] = planned ? NAN : event_value(events, shown[i], 0);
            values[1] = event_value(events, shown[i], 1);
            if (start > 0 || i > 0) {
                row_start(table, all, series);
                figure_table_numbers(table, values, 2 + categories);
            }
            for (size_t c = 2; c < 2 + categories; c++)
                values[c] = event_value(events, shown[i], c);
            row_start(table, all, series);
            figure_table_numbers(table, values, 2 + categories);
        }
    }
    free(values);
}

static const char *const none[] = {NULL};

static bool tabulate_timeline(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct series_table all;
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++)
        if (has_timeline(records[i]))
            kept[kept_count++] = records[i];
    series_make(&all, kept, kept_count, none, true);
    free(kept);
    figure_table_columns(table, "ms\tflops");
    // This program's categories in order, which are the same in all records of a schema.
    const json_t *order = NULL;
    for (size_t s = 0; s < all.count; s++) {
        // One time line each: the latest one.
        const struct series *series = &all.series[s];
        const struct record *record = series->records[series->record_count - 1];
        if (!order) {
            order = record->timeline->category_order;
            for (size_t i = 0; i < json_array_size(order); i++) {
                const char *name = json_string_value(json_array_get(order, i));
                figure_table_columns(table, name ? name : "unnamed");
            }
        }
        timeline_rows(table, &all, series, record, json_array_size(order));
    }
    series_free(&all);
    return order != NULL;
}

const struct figure figure_timeline = {
    .name = "timeline",
    .part = "timeline",
    .times = true,
    .own_axes = true,
    .needs = "records with a time line (\"timeline\": true)",
    .one_context = true,
    .within = none,
    .tabulate = tabulate_timeline,
};
