// Grouping: the records of several result files that belong into one picture each of a figure.
#pragma once
#include "harness/plot/figure.h"
#include "harness/record/results.h"

// Those of one picture: of one experiment and setting, and of a trial that was measured in several ways one.
struct group {
    const char *experiment;
    json_t *setting;
    size_t kind;                            // of its experiment and setting: those that differ in context have one
    double context;                         // 0: several
    struct figure_table *table;             // NULL: the records do not make one
    const struct published_file *published; // of a figure that is drawn beside it
    size_t count;
    const struct record **records;
    const char **origins; // [count], the paths that they are from
    size_t repeated;      // records besides, of trials that have another here, measured in another way
};

struct grouping {
    size_t count;
    struct group *groups;
};

// Where a figure shows what is published, each group has that of its experiment. Release with grouping_free.
void grouping_make(struct grouping *grouping, const struct figure *figure, const struct results *results,
                   const struct published *published);
void grouping_free(struct grouping *grouping);
