// Planner: which of a space's candidates is the fastest that fits, and what less memory would cost in time. Bytes
// are exact, seconds are estimates; bounds (planned_step.h) and bisection of the candidates leave most unplanned.
#pragma once
#include "harness/plan/planned_step.h"
#include "harness/plan/space.h"

struct candidate {
    size_t family, index;
    struct planned_step step;
};

struct planner {
    const struct space *space;
    struct planned_limits limits;
    struct planned_step *bounds;   // of the families, at their highest candidate
    bool measured;                 // seconds are by measured rates
    bool f32_apart;                // what is computed in f32 has a rate of its own
    struct planned_before *before; // of the space's candidates, in order; a planner asks again with other limits
    size_t *first;                 // of each family among them
    struct planned_memos memos;
    size_t plans; // steps planned so far
};

// How near a Pareto front comes to every candidate: each has a point of the Pareto front that takes longer by no
// more than these in turn, and no more memory by this.
#define PARETO_TIME_MARGIN   0.01
#define PARETO_MEMORY_MARGIN 0.05

// The bounds of all families. False and a status if something cannot be planned at all. Release with planner_close.
bool planner_open(struct planner *planner, const struct space *space, struct planned_limits limits,
                  struct status *status);
void planner_close(struct planner *planner);
// The candidate of the least time among those within the limits, of the least memory among equals; its step's
// `fits` is false if none is, and then it is the one of the least bound in bytes, planned without limits.
bool planner_fastest(struct planner *planner, struct candidate *fastest, struct status *status);
// What would be the fastest if memory were no limit; nothing is kept on a host whose memory was not given.
bool planner_unlimited(struct planner *planner, struct candidate *fastest, struct status *status);
// Candidates within the limits of which no other has less time and less memory on the device, from the fastest, as
// planner_fastest found it, to the one of the least memory; to be freed. *count 0: none fits.
bool planner_pareto_front(struct planner *planner, const struct candidate *fastest, struct candidate **pareto_front,
                          size_t *count, struct status *status);
