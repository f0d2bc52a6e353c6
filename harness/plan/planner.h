// Planner: the fastest candidate of a space that fits, and the time that less memory costs. Bytes are exact,
// seconds are estimates; bounds (planned_step.h) and bisection leave most candidates unplanned.
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
    struct planned_step *bounds; // of the families, at their highest candidate
    bool measured;               // seconds use measured rates
    bool f32_apart;              // f32 work has its own rate
    struct planned_before
        *before;    // earlier results per candidate, in order, for repeated searches with other limits
    size_t *first;  // index of each family's first candidate
    size_t *lowest; // of each family: family_least's index; SIZE_MAX: not known yet
    struct planned_memos memos;
    size_t plans; // number of planned steps
};

// Finds a family's candidate that takes the least memory. That is the lowest, unless layers have states: then
// chunks below some length take more memory and no less time. The highest candidate, one chunk, has no state to
// keep and is not counted. Returns false and a status if a step cannot be planned.
bool family_least(const struct family *family, struct planned_memos *memos, size_t *index, struct status *status);

// Accuracy of a Pareto front: each candidate has a point that takes at most this much longer and this much more
// memory.
#define PARETO_TIME_MARGIN   0.01
#define PARETO_MEMORY_MARGIN 0.05

// Computes the bounds of all families. Returns false and a status if something cannot be planned. Release with
// planner_close.
bool planner_open(struct planner *planner, const struct space *space, struct planned_limits limits,
                  struct status *status);
void planner_close(struct planner *planner);
// The candidate with the least time within the limits, and among equals the least memory; if none fits (its step's
// `fits` is false), the one with the least bound in bytes, planned without limits.
bool planner_fastest(struct planner *planner, struct candidate *fastest, struct status *status);
// The fastest without a memory limit; without host memory nothing is offloaded.
bool planner_unlimited(struct planner *planner, struct candidate *fastest, struct status *status);
// The Pareto front of time and device memory within the limits, from the fastest (planner_fastest) to the least
// memory; to be freed. *count 0: none fits.
bool planner_pareto_front(struct planner *planner, const struct candidate *fastest, struct candidate **pareto_front,
                          size_t *count, struct status *status);
