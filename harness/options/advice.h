// Advice: the fastest candidate that fits, for a requested trial and methods, in words.
#pragma once
#include "harness/options/choice_words.h"
#include "harness/options/plan_flags.h"
#include "harness/plan/planner.h"

struct advice {
    struct method_trials asked;
    json_t *first; // canonical JSON of the first requested trial
    struct space space;
    struct planner planner;
    struct planned_limits limits;
    struct estimate_range range;
    struct candidate fastest; // if nothing fits (its step's `fits` is false), the nearest candidate
};

// Decodes the requested trials. Returns false and a status if they are not possible. Release with advice_close,
// also after a failure.
bool advice_open(struct advice *advice, const struct plan_flags *flags, struct status *status);
// Finds the fastest within device_bytes of device memory and the trials' limits of host memory. Returns false and a
// status if something cannot be planned.
bool advice_find(struct advice *advice, size_t device_bytes, struct status *status);
void advice_close(struct advice *advice);
// A candidate as a choice, with its options. Release with advice_choice_end.
struct choice advice_choice(const struct advice *advice, const struct candidate *candidate);
void advice_choice_end(struct choice *choice);
struct advice_words {
    char text[1024];
};
// "seco chunk=4096 offload=weights"
struct advice_words advice_describe(const struct advice *advice, const struct candidate *candidate);
// Tells whether the estimates distinguish the times of two candidates.
bool advice_tells_apart(const struct advice *advice, const struct candidate *a, const struct candidate *b);
// Names the limit that a candidate exceeds: "the device's memory: seco chunk=4096, which would take 3.2 s, needs
// 1.00 GiB more".
struct advice_words advice_missing(const struct advice *advice, const struct candidate *candidate);
