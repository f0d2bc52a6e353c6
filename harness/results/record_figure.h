// Record figures: what a table says of a record beside its fields: the trial in words, what a step takes, and
// ratios over the first record of the same model, context, batch and kind of device, as the files have them, and of
// times over the first on the same machine.
#pragma once
#include "harness/results/record.h"

struct table_row {
    const struct record *record;
    const char *name;                         // of the trial among the table's (trial_names.h)
    const struct record *first, *first_timed; // what ratios are over: of bytes, and of times
};

struct record_figure {
    const char *name, *title; // title: of a table for people
    const char *unit;         // NULL: none
    const char *meaning;
    json_t *(*value)(const struct table_row *row); // a new reference; null: not known
};

// Ending in a NULL name.
extern const struct record_figure record_figures[];
// NULL: there is none of this name.
const struct record_figure *record_figure_find(const char *name);
