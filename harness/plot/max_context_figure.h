// Max-context figure: the longest context of each method, card by card, as bars, from what `longbp max-context
// --json` printed; published longest contexts beside them.
#pragma once
#include "harness/results/published.h"
#include <jansson.h>
#include <stdio.h>

// A table being written; what the words below the picture need is collected on the way.
struct max_context_table {
    FILE *stream;
    size_t rows, groups;
    char sources[300];   // of the published values that were found
    char revisions[200]; // that planned
};
// Writes the rows of one output: a group. False and a status (bad input) if it is no such output.
bool max_context_table_add(struct max_context_table *table, const char *path, const json_t *output,
                           const struct published *published, struct status *status);

struct max_context_request {
    const char *const *paths; // one output each; a panel of the picture each, in this order
    size_t path_count;
    const char *folder, *scripts, *formats; // as in picture.h
};
// Draws max-context.FORMAT. False and a status if a file is wrong or drawing failed.
bool max_context_plot(const struct max_context_request *request, const struct published *published,
                      struct status *status);
