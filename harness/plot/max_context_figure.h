// Max-context figure: the longest context of each method, card by card, as bars, from what `longbp max-context
// --json` printed; published longest contexts beside them.
#pragma once
#include "harness/results/published.h"

struct max_context_request {
    const char *const *paths; // one output each, in the picture's order (harness/results/longest_contexts.h)
    size_t path_count;
    const char *folder, *scripts, *formats; // as in picture.h
};
// Draws max-context.FORMAT. False and a status if a file is wrong or drawing failed.
bool max_context_plot(const struct max_context_request *request, const struct published *published,
                      struct status *status);
