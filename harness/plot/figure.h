// Figure: a kind of picture: the records it needs and the table it is drawn from, by plots/NAME.gp. To add one: a
// function here, its entry in the array, and its script.
#pragma once
#include "harness/plot/figure_table.h"
#include "harness/record/published.h"
#include "harness/record/record.h"
#include <stdbool.h>
#include <stddef.h>

struct picture_form;
struct results;

struct figure {
    const char *name;          // name of the script, and suffix of picture names
    const char *panels;        // names of several panels, "time,memory"; NULL: one
    const char *needs;         // the required records, for the message if there are none
    bool one_context;          // a picture shows one context
    bool own_axes;             // has no curves, or the published axes: cannot be set
    bool row_panels;           // panels are named in rows and depend on the records
    bool searched;             // uses the records of searches (struct record_search), otherwise all others
    bool every_commit;         // uses all records of a trial, otherwise the last
    bool times;                // shows times: of one machine, unless every_commit, and with marks of disturbance
    bool estimates;            // shows estimated times of plans
    bool peaks;                // shows peaks of steps, for draws the first one's
    const char *part;          // the part of `measure` that it shows besides times and bytes; NULL: none
    const char *const *within; // trial keys, besides the method, that vary within a picture; ending in NULL
    const char *along;         // the column of a horizontal axis with possibly thousands of points; NULL: none
    bool logarithmic;          // that axis is always logarithmic
    // Fills in the table. Returns false if the records lack what the figure needs; the table is then discarded.
    // Missing values are NaN; bytes, ms and ratios are plain numbers.
    bool (*tabulate)(const struct record *const *records, size_t count, struct figure_table *table);
    // Tells whether a suitable record has no point in the table, among others of its picture, and what is missing;
    // NULL: all have one.
    bool (*is_pointless)(const struct record *record, const struct record *const *records, size_t count);
    const char *point_needs;
    // Draws its pictures itself, instead of a table's, and counts them in *drawn; NULL: by its table. Returns false
    // and a status if drawing failed.
    bool (*draw)(const struct picture_form *form, const struct results *results, const struct published *published,
                 size_t *drawn, struct status *status);
    // The same beside published points of the quantity for the experiment, if any; NULL: never.
    enum published_quantity quantity;
    bool (*tabulate_beside)(const struct record *const *records, size_t count, const struct published_file *file,
                            struct figure_table *table);
};

extern const struct figure figure_optimizers, figure_accumulators, figure_categories, figure_pair_sums,
    figure_prediction, figure_published_memory, figure_published_time, figure_interconnect, figure_lost_updates,
    figure_prompt, figure_training, figure_learning, figure_metrics, figure_rates, figure_history, figure_work,
    figure_timeline, figure_estimates, figure_pareto_front, figure_frontier, figure_max_context, figure_routing;

// All figures, ending in NULL.
extern const struct figure *const figures[];
