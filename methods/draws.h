// Draws: every set of chunks that SpaCO's sampler can draw, with its probability.
#pragma once
#include "methods/method.h"
#include "methods/spaco_options.h"

// method.h's each_draw. Returns false and a status (unsupported) if there are more than max sets, or if sampler
// fixed cannot reproduce an estimate.
bool draws_each(const void *spaco_options, size_t context, size_t max, draw_visit *visit, void *visitor,
                struct status *status);
