// Longest: the longest context, or the largest batch, that any candidate of several methods can hold, and what is
// the fastest there.
#pragma once
#include "harness/plan/max_context.h"
#include "harness/plan/planner.h"

struct longest {
    struct max_context found;  // of the candidate that holds it; largest 0: nothing goes
    const struct trial *trial; // the choice at that extent: one of those given
    void *options;             // of its method; NULL: there is no choice
    struct planned_step step;  // and what it takes
};

// trials: one for each method and setting (space.h); their extent is moved about, and left at what was found.
// given: as space_open's. False and a status if something cannot be planned at all. Release with longest_free.
bool longest_find(struct longest *longest, struct trial *trials, size_t count, const json_t *given,
                  enum extent extent, struct planned_limits limits, struct status *status);
// The fastest candidate at the extent that was found, if any was.
bool longest_choose(struct longest *longest, struct trial *trials, size_t count, const json_t *given,
                    struct planned_limits limits, struct status *status);
void longest_free(struct longest *longest);
