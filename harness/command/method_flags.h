// Method flags: the trials of the methods that a command goes through: --methods, and the options given for them.
#pragma once
#include "harness/command/trial_flags.h"

struct method_trials {
    struct trial *trials;
    size_t count;
    json_t *left_out; // [{"method", "reason"}] of "all": those that have not the choice that an option was given
};

// One trial for each method of `names`, "all" or a list with commas, at the context that is given, else at one that
// its options go with; an option goes to every method that has it, but for those of "all" that have not the choice
// that was given and are left out. All are the exact ones, and those that draw
// columns if an option of theirs was given, for nothing here can choose how many they draw. exact: of these only
// the exact ones. variants: beside each, one for every other value that the table of trial keys says is tried
// (trial_keys.h). False and a status if a name, an option or a value is wrong. Release with method_trials_free,
// also after a failure.
bool method_trials_decode(struct method_trials *trials, const struct trial_flags *flags, const char *names,
                          bool exact, bool variants, struct status *status);
void method_trials_free(struct method_trials *trials);
