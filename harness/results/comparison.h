// Comparison: two result files, trial by trial: did anything become worse?
//
// Trials are the same if their ids are. Where a file has several records of a trial, the last one counts; the
// samples of all that were taken by the same revision on the same machine, and ended ok, are pooled
// (time_samples.h). Of a method that draws its columns sample i walks the same columns in both files, and is held
// against that sample; what drew no column is left out.
#pragma once
#include "harness/results/gradient_bits.h"
#include "harness/results/quantity.h"
#include "harness/results/result_file.h"
#include "harness/results/time_change.h"

struct comparison_options {
    struct allowance allowances[QUANTITY_COUNT];
    bool deterministic; // leave the times out
    double threshold;   // of the ratio of times
};

struct trial_comparison {
    const struct record *base, *new; // the last records, borrowed; NULL: the file has none
    enum change change; // of everything: worse, lost (open), better, allowed or none, the first that holds
    char what[320]; // "seco, chunk 128, context 1024, f32 cpu": no more options and keys than tell it from others
    char context[24];
    enum change status; // worse: ok became something else; lost: ok, and now not there
    struct quantity_change changes[QUANTITY_CHANGES_MAX];
    size_t change_count;
    struct gradient_bits bits; // told, but neither better nor worse
    struct time_trial time;    // not measured unless both are ok
};

enum comparison_verdict {
    COMPARISON_SAME,
    COMPARISON_BETTER, // something is better, nothing is worse
    COMPARISON_REGRESSION,
    COMPARISON_CANNOT_TELL
};
// "same", "better", "regression", "cannot tell".
const char *comparison_verdict_name(enum comparison_verdict verdict);

struct comparison {
    struct comparison_options options;
    struct trial_comparison *trials; // [count], in the order of base, then those of new alone
    size_t count, both, base_only, new_only;
    size_t by_change[CHANGE_COUNT];  // trials
    size_t bits_known, bits_changed; // trials whose gradients have hashes in both; of them, those with other bits
    unsigned long bits_causes;       // of those that changed
    struct time_change time;
    enum comparison_verdict verdict;
    char reason[320]; // of cannot tell
    double *samples;  // what the trials' samples point to
};

// Compares two files; the records stay theirs. False and a status if one has a torn last line: what was cut off
// might be what became worse. Release with comparison_free, also after a failure.
bool comparison_make(struct comparison *comparison, const struct result_file *base, const struct result_file *new,
                     const struct comparison_options *options, struct status *status);
void comparison_free(struct comparison *comparison);
