// Figure: a question that a picture answers, the records it needs, and the table it is drawn from.
// plots/NAME.gp draws the table. To add one: a function here, its entry in the array, and its script.
#pragma once
#include "harness/plot/figure_table.h"
#include "harness/record/published.h"
#include "harness/record/record.h"
#include <stdbool.h>
#include <stddef.h>

struct figure {
    const char *name;   // of the script, and the end of the picture's name
    const char *panels; // "time,memory": what each of several is called; NULL: one
    const char *needs;  // the records it is drawn from, for the message when there are none
    bool one_context;   // a picture is of one context
    bool own_axes;      // has no curves, or axes as published: not to be set
    bool row_panels;    // its rows say their panels, which depend on what was recorded
    bool every_commit;  // of all records of a trial; else of the last
    bool times;         // shows them: of a machine each, unless of every_commit, and whether they were disturbed
    bool estimates;     // of plans it shows estimates of time
    bool peaks;         // shows those of steps, which of draws are the first one's
    const char *part;   // of what `measure` asks for it shows this besides times and bytes; NULL: nothing
    const char *const *within; // keys of a trial, besides the method, that vary within one picture; ending in NULL
    const char *along; // the chunk of the horizontal axis along which it may have thousands of points; NULL: none
    bool logarithmic;  // that axis is, however far it reaches
    // Fills in the table. False if the records do not hold what the figure needs: then what was filled in is of no
    // use. A value that is not there is NaN; bytes, ms and ratios are plain numbers.
    bool (*tabulate)(const struct record *const *records, size_t count, struct figure_table *table);
    // Whether a record that is otherwise as the figure needs them has no point in the table, among others of its
    // picture, and what it would need to have one; NULL: each has.
    bool (*is_pointless)(const struct record *record, const struct record *const *records, size_t count);
    const char *point_needs;
    // The same beside what is published of the quantity for the experiment, where something is; NULL: none is
    // shown.
    enum published_quantity quantity;
    bool (*tabulate_beside)(const struct record *const *records, size_t count, const struct published_file *file,
                            struct figure_table *table);
};

extern const struct figure figure_optimizers, figure_accumulators, figure_categories, figure_pair_sums,
    figure_prediction, figure_published_memory, figure_published_time, figure_interconnect, figure_lost_updates,
    figure_prompt, figure_training, figure_metrics, figure_rates, figure_history, figure_work, figure_timeline;

// All figures, ending in NULL.
extern const struct figure *const figures[];
