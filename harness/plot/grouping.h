// Grouping: divides the records of several result files into the pictures of a figure.
#pragma once
#include "harness/plot/figure.h"
#include "harness/record/results.h"

// The records of one picture: one experiment and setting, and one measurement per trial.
struct group {
    const char *experiment;
    json_t *setting;
    size_t kind;                // of its experiment and setting: equal for groups that differ in context
    double context;             // 0: several
    struct figure_table *table; // NULL: the records do not suffice
    const struct published_file *published; // for a figure with published points
    size_t count;
    const struct record **records;
    const char **origins; // [count], paths of the records' files
    size_t repeated;      // further records of these trials, measured differently
};

struct grouping {
    size_t count;
    struct group *groups;
};

// Adds published points of its experiment to each group, if the figure shows them. Release with grouping_free.
void grouping_make(struct grouping *grouping, const struct figure *figure, const struct results *results,
                   const struct published *published);
void grouping_free(struct grouping *grouping);
