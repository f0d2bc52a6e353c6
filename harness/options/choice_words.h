// Choice words: what a search over methods and settings chose, as JSON, in words and as flags.
#pragma once
#include "harness/plan/planned_step.h"
#include <jansson.h>

// A trial's method with these options in place of its own.
struct choice {
    const struct trial *trial;
    const void *options;
    const struct planned_step *step;
};

// Whether it leaves chunks to chance: its step is then the largest draw's.
bool choice_draws(const struct choice *choice);
// {"method", "label", "draw" (largest or null), "estimate_ms", "estimate_low_ms", "estimate_high_ms", "estimate"
// (its source), "peak_bytes", "host_peak_bytes", "flops", ...} and the keys of the trial of which values are tried
// (trial_keys.h). first: as choice_describe's. A new reference.
json_t *choice_json(const struct choice *choice, const json_t *first);
// "seco chunk=4096 place.weights=host": what tells most or differs from its default, and the keys that are tried
// whose values differ from those of `first`, the canonical JSON of what was asked for.
void choice_describe(const struct choice *choice, const json_t *first, char *text, size_t bytes);
// ", interconnect infiniband", over which estimates of several ranks go; or that what these send each other takes
// no time, for it is not known; else "".
struct interconnect_words {
    char text[256];
};
struct interconnect_words choice_interconnect(const struct trial *trial);
// Appends " --method seco --chunk 4096 --place-weights host" to a shell's command line (shell.h) of grad; of a
// command that trains with the optimizer's place, too.
void choice_append_flags(const struct choice *choice, bool trains, char **command);
// Sets the keys of which values are tried (trial_keys.h) in a trial's JSON.
void choice_set_keys(const struct choice *choice, json_t *trial);
