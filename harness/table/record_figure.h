// Record figures: a table's derived columns: the trial in words, step time, and ratios to a baseline with the same
// model, context, batch and kind of device, for times also the same machine.
#pragma once
#include "harness/record/record.h"
#include "harness/stats/sample.h"

struct table_row {
    const struct record *record;
    const char *name;                       // of the trial among the table's (trial_names.h)
    const struct record *base, *base_timed; // baselines of bytes and of times; NULL: none
};

// Ratio of the row's step time to its baseline's: of measured times, by rounds, with its interval (0 to infinity
// for one round); otherwise of estimates, without an interval. NaN: unknown.
struct shift table_row_time_ratio(const struct table_row *row);

struct record_figure {
    const char *name, *title; // title: for printed tables; for ratios the part before the baseline's name
    const char *unit;         // NULL: none
    const char *meaning;
    json_t *(*value)(const struct table_row *row); // a new reference; null: unknown
};

// Ending in a NULL name.
extern const struct record_figure record_figures[];
// NULL: unknown name.
const struct record_figure *record_figure_find(const char *name);
