// Max-context figures: the longest context of each method, by card, from records of max-context, and as lines over
// the number of cards that share a step, beside published longest contexts; the largest batch from records of
// max-batch.
#pragma once
#include "harness/plot/picture.h"
#include "harness/record/published.h"
#include "harness/record/results.h"

// Draws max-context.FORMAT of contexts of one card, of several kinds of cards max-context-CARD.FORMAT for each,
// cards.FORMAT of those over several cards and max-batch.FORMAT of batches likewise, as far as there are any;
// *drawn counts them. False and a status if drawing failed.
bool max_context_plot(const struct picture_form *form, const struct results *results,
                      const struct published *published, size_t *drawn, struct status *status);
