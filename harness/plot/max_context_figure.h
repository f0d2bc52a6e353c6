// Max-context figures: the longest context of each method, by card, from `longbp max-context --json`, and as lines
// over the number of cards that share a step, beside published longest contexts; the largest batch from `longbp
// max-batch --json`.
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
