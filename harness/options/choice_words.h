// Choice words: the choice of a search over methods and settings in words and as flags.
#pragma once
#include "harness/plan/planned_step.h"
#include <jansson.h>

// A trial's method and the options chosen for it.
struct choice {
    const struct trial *trial;
    const void *options;
    const struct planned_step *step;
};

// Tells whether the choice draws chunks at random; its planned step is then the largest draw's.
bool choice_draws(const struct choice *choice);
// "seco chunk=4096 offload=weights": main options and those that differ from defaults, and tried keys that
// differ from `first`, the canonical JSON of the request.
void choice_describe(const struct choice *choice, const json_t *first, char *text, size_t bytes);
// ", interconnect infiniband", on which estimates of several ranks depend; a note that communication takes no time
// if it is unknown; or "".
struct interconnect_words {
    char text[256];
};
struct interconnect_words choice_interconnect(const struct trial *trial);
// Appends " --method seco --chunk 4096 --offload weights" to a command line (shell.h) of grad; for a training
// command also an offloaded optimizer.
void choice_append_flags(const struct choice *choice, bool trains, char **command);
// Sets the keys with tried values (trial_keys.h) in a trial's JSON.
void choice_set_keys(const struct choice *choice, json_t *trial);
