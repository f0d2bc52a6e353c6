// Record figures: what a table says of a record beside its fields: the trial in words, what a step takes, and
// ratios over a baseline of the same model, context, batch and kind of device, of times also of the same machine.
#pragma once
#include "harness/record/record.h"
#include "harness/stats/sample.h"

struct table_row {
    const struct record *record;
    const char *name;                       // of the trial among the table's (trial_names.h)
    const struct record *base, *base_timed; // what ratios are over: of bytes, and of times; NULL: there is none
};

// How long the row's step takes over its baseline's: measured over measured, as the ratio of rounds with its
// interval, 0 and infinity where there is one round; else estimated over estimated, an interval of no width. NaN:
// not known.
struct shift table_row_time_ratio(const struct table_row *row);

struct record_figure {
    const char *name, *title; // title: of a table for people; of a ratio what stands before the baseline's name
    const char *unit;         // NULL: none
    const char *meaning;
    json_t *(*value)(const struct table_row *row); // a new reference; null: not known
};

// Ending in a NULL name.
extern const struct record_figure record_figures[];
// NULL: there is none of this name.
const struct record_figure *record_figure_find(const char *name);
