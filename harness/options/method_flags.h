// Method flags: the trials of the methods that a command goes through: --methods, and the options given for them.
#pragma once
#include "harness/options/trial_flags.h"

struct method_trials {
    struct trial *trials;
    size_t count;
    // [{"method", "reason"}] of "all": those that have not the choice that an option was given, or that ranks
    // cannot share as they are to.
    json_t *left_out;
};

struct method_request {
    const char *names; // a list with commas, each of them once; "all": all that there are
    bool exact;        // only the exact ones
    // For a search, which tries values of its own: of methods with a gradient that ranks can share as is asked for
    // alone; beside each trial one for every other value that the table of trial keys says is tried
    // (trial_keys.h): of keys that change the gradient where `also` names them, with commas; NULL: of none.
    bool variants;
    const char *also;
    bool host; // there is memory on the host, without which nothing is tried there
};

// One trial for each method asked for, at the context that is given, else at one that its options go with; an
// option goes to every method that has it, but for those of "all" that have not the choice that was given and are
// left out. All are the exact ones, and those that draw chunks if an option of theirs was given, for nothing here
// can choose how many they draw. False and a status if a name, an option or a value is wrong. Release with
// method_trials_free, also after a failure.
bool method_trials_decode(struct method_trials *trials, const struct trial_flags *flags,
                          const struct method_request *request, struct status *status);
// A line for each method that was left out, its name in so many chunks.
void method_trials_print_left_out(const struct method_trials *trials, int columns);
void method_trials_free(struct method_trials *trials);
