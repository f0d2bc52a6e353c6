// Comparison: two result files, trial by trial: did anything become worse?
//
// Trials are the same if their ids are. Where a file has several records of a trial, the last one counts; the
// samples of all that were taken by the same revision on the same machine, and ended ok, are pooled
// (time_samples.h), but for those whose threads waited in another way than most in both files did
// (record_waits_alike). Of a method that draws its columns sample i walks the same columns in both files, and is
// held against that sample; what drew no column is left out.
//
// What was planned is held against what was measured by what a plan has exactly (quantity.h); no times are
// compared.
#pragma once
#include "harness/results/gradient_bits.h"
#include "harness/results/quantity.h"
#include "harness/results/result_file.h"
#include "harness/results/time_change.h"
#include "harness/results/trial_names.h"

struct comparison_options {
    // Of settings other bits are not told either, and a trial that one side alone has is not missed.
    struct quantity_rules rules;
    bool deterministic; // leave the times out
    double threshold;   // of the ratio of times
};

struct trial_comparison {
    const struct record *base, *new; // the last records, borrowed; NULL: the file has none
    enum change change; // of everything: worse, lost (open), better, allowed, other or none, the first that holds
    char context[24];
    // worse: ok became something else, or NEW alone has it, as crash, failed or timeout; lost: ok, and now not
    // there. Of a plan and what was measured: worse if ok or oom was measured, and not planned; other if it is ok
    // on one side and oom on the other, and one has a limit that the other has not
    enum change status;
    size_t change_count;
    struct quantity_change *changes; // [change_count]
    struct gradient_bits bits;       // told, but neither better nor worse
    struct time_trial time;          // not measured unless both are ok
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
    size_t processor_times;          // trials whose times are of the processors
    size_t other_waits;              // records whose times are left out, for their threads waited in another way
    size_t other_columns;            // trials whose two records are of other draws
    const char *planned;             // "BASE" or "NEW" where that side was planned and the other measured, or NULL
    size_t let_pass;                 // figures that grew within what --allow says
    size_t bits_known, bits_changed; // trials whose gradients have hashes in both; of them, those with other bits
    unsigned long bits_causes;       // of those that changed
    struct time_change time;
    enum comparison_verdict verdict;
    char reason[320];            // of cannot tell
    char note[160];              // what besides is to be known of it; "": nothing
    double *samples;             // what the trials' samples point to
    const struct record **named; // [count], what names are made of
    struct trial_names names;
};

// The records of one side, borrowed, and what pairs each with those of the other side: records of the same key are
// of one trial.
struct comparison_side {
    size_t count;
    const struct record **records; // [count]
    const char **keys;             // [count]
};
void comparison_side_add(struct comparison_side *side, const struct record *record, const char *key);
void comparison_side_free(struct comparison_side *side);
// A trial in words: "seco, chunk 128, context 1024, f32 cpu".
struct trial_name comparison_name(const struct comparison *comparison, const struct trial_comparison *trial);
// Compares two sides. Release with comparison_free.
void comparison_make_sides(struct comparison *comparison, const struct comparison_side *base,
                           const struct comparison_side *new, const struct comparison_options *options);
// False and a status if the last line is torn: what was cut off might be what became worse.
bool comparison_is_whole(const struct result_file *file, struct status *status);
// Compares two files; the records stay theirs. False and a status if one is not whole. Release with
// comparison_free, also after a failure.
bool comparison_make(struct comparison *comparison, const struct result_file *base, const struct result_file *new,
                     const struct comparison_options *options, struct status *status);
void comparison_free(struct comparison *comparison);
