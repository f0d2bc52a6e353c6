// Method flags: the trials of the methods in --methods, with the options given for them.
#pragma once
#include "harness/options/trial_flags.h"

struct method_trials {
    struct trial *trials;
    size_t count;
    // [{"method", "reason"}] for "all": methods without the given choice of an option, or that ranks cannot share
    // as requested.
    json_t *left_out;
};

struct method_request {
    const char *names; // a comma-separated list without repetitions; "all": every method
    bool exact;        // only the exact ones
    // For a search, which tries values of its own: only methods with a gradient that ranks can share as requested.
    // Adds a trial for every other tried value of the keys (trial_keys.h); keys that change the gradient only if
    // named in `also`, comma-separated; NULL: none.
    bool variants;
    const char *also;
    bool host; // host memory is available; otherwise nothing is offloaded
};

// One trial per requested method, at the given context or else one that fits its options. An option applies to
// every method that has it; "all" leaves out methods without the given choice. "all" means the exact methods, and
// those that draw chunks if an option of theirs was given, because the number of chunks cannot be chosen here.
// Returns false and a status if a name, an option or a value is wrong. Release with method_trials_free, also after
// a failure.
bool method_trials_decode(struct method_trials *trials, const struct trial_flags *flags,
                          const struct method_request *request, struct status *status);
// Prints a line per method that was left out, its name padded to `columns`.
void method_trials_print_left_out(const struct method_trials *trials, int columns, FILE *stream);
void method_trials_free(struct method_trials *trials);
