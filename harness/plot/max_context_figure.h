// Max-context figures: the longest context of each method, card by card, from what `longbp max-context --json`
// printed, and over several cards that share a step as a line over their number; published longest contexts beside
// them. The largest batch likewise, from what `longbp max-batch --json` printed.
#pragma once
#include "harness/plot/picture.h"
#include "harness/record/published.h"

struct max_context_request {
    const char *const *paths; // one output each, in the picture's order (harness/papers/longest_contexts.h)
    size_t path_count;
    const struct picture_form *form;
};
// Draws max-context.FORMAT of contexts of one card, of several kinds of cards max-context-CARD.FORMAT for each,
// cards.FORMAT of those over several cards and max-batch.FORMAT of batches likewise, as far as there are any. False
// and a status if a file is wrong or drawing failed.
bool max_context_plot(const struct max_context_request *request, const struct published *published,
                      struct status *status);
