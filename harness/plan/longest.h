// Longest: the longest context, or the largest batch, over the candidates of several methods, and the fastest
// candidate there.
#pragma once
#include "harness/plan/max_context.h"
#include "harness/plan/planner.h"

struct longest {
    struct max_context found; // of the candidate that holds it; largest 0: nothing fits
    const struct trial
        *trial;    // that candidate's, after longest_choose the fastest's: one of those given; NULL: none
    void *options; // of its method
    struct planned_step step; // the fastest's step; zeroed: none was chosen
};

// trials: one per method and setting (space.h); their extent is changed and set to the result. given: see
// space_open. Returns false and a status if something cannot be planned. Release with longest_free.
bool longest_find(struct longest *longest, struct trial *trials, size_t count, const json_t *given,
                  enum extent extent, struct planned_limits limits, struct status *status);
// Chooses the fastest candidate at the extent found, if any.
bool longest_choose(struct longest *longest, struct trial *trials, size_t count, const json_t *given,
                    struct planned_limits limits, struct status *status);
void longest_free(struct longest *longest);
