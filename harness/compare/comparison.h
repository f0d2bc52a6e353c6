// Comparison: compares two result files, trial by trial, for regressions.
//
// Trials with equal ids are the same. The records of a trial with the revision and machine of its last record are
// its rounds. Every round of NEW is compared with BASE's: its status, its quantities (quantity.h), its data and its
// model; times together by one rule (time_change.h). Each comparison gives a verdict (verdict.h), and the overall
// verdict is the worst of them. A plan and a measurement are compared by the quantities that plans have exactly.
#pragma once
#include "harness/compare/quantity.h"
#include "harness/compare/round_times.h"
#include "harness/compare/time_change.h"
#include "harness/record/result_file.h"
#include "harness/table/trial_names.h"

// Tells by hashes whether two records of one trial have equal gradients to the last bit.
//
// Keys of a record and its provenance on which bits depend besides the program's code; indices of bits in struct
// gradient_bits.
#define GRADIENT_BITS_CAUSES 9
extern const char *const gradient_bits_causes[GRADIENT_BITS_CAUSES];

struct gradient_bits {
    bool known;           // both records have hashes, from a device with the same bits in every run
    size_t tensors;       // of the base record
    size_t changed;       // 0: all bits are the same
    const char *first;    // name of the first changed tensor, in the model's order, borrowed; NULL: none
    unsigned long causes; // bit i: cause i differs
};

// The CPU always has the same bits in every run, other devices if the trial is `deterministic`.
struct gradient_bits gradient_bits_compare(const struct record *base, const struct record *new);

struct comparison_options {
    // With --by, neither bits nor inputs are judged, nor trials of one side.
    struct quantity_rules rules;
    bool deterministic; // ignores times
    double threshold;   // of the ratio of times
};

struct trial_comparison {
    const struct record *base, *new;     // the last records, borrowed; NULL: not in the file
    const struct record_list *rounds[2]; // of BASE and NEW; owned by the comparison
    enum verdict verdict;                // the worst of the following
    enum verdict status;                 // none: not judged
    const struct record *statuses[2]; // the worst round of each side, by which the status is judged; NULL as above
    enum verdict inputs;              // changed: other data or another model
    struct quantity_changes changes;
    struct gradient_bits bits; // reported, not judged
    struct round_times times;
    const struct time_trial *time; // owned by the comparison
    char context[24];
};

// Counts reported besides the verdicts. Those from COUNT_REASONS on are reasons for changed or undecided.
enum comparison_count {
    COUNT_LET_PASS,        // quantities that changed within --allow
    COUNT_NEWS,            // quantities that only NEW has
    COUNT_OLDER,           // records of an earlier revision or another machine than the trial's last
    COUNT_OTHER_CHUNKS,    // trials whose records have different draws
    COUNT_LEFT_OUT,        // timed records without a counterpart in the other file
    COUNT_PROCESSOR_TIMES, // trials compared by processor time
    COUNT_REASONS,
    COUNT_MISSING = COUNT_REASONS, // trials only in BASE
    COUNT_INPUTS,                  // trials with other data or another model
    COUNT_ANOTHER,                 // trials with values of something else
    COUNT_UNKNOWN,                 // trials with values that NEW lacks
    COUNT_ENDED,                   // trials that ended differently
    COMPARISON_COUNTS
};
// In this order. key: in JSON; one, several: the words after the number.
extern const struct comparison_count_words {
    const char *key, *one, *several;
} comparison_counts[COMPARISON_COUNTS];

struct comparison {
    struct comparison_options options;
    struct trial_comparison *trials; // [count], in BASE's order, then those only in NEW
    struct time_trial *times;        // [count]
    size_t count, both, base_only, new_only;
    size_t by_verdict[VERDICT_COUNT]; // trials
    size_t counts[COMPARISON_COUNTS];
    uint64_t left_rounds[2]; // of BASE and NEW: numbers of rounds left out, as in round_times.h
    const char *planned;     // "BASE" or "NEW" if that side was planned and the other measured, or NULL
    size_t bits_known,
        bits_changed; // trials whose gradients have hashes on both sides; among them, those with other bits
    unsigned long bits_causes; // of the changed ones
    struct time_change time;
    enum verdict verdict;
    char reason[480]; // for changed and undecided
    char note[160];   // further information; "": none
    struct record_lists lists[2];
    const struct record **named; // [count], the records that names are made from
    struct trial_names names;
};

// A trial in words: "seco, chunk 128, context 1024, f32 cpu".
struct trial_name comparison_name(const struct comparison *comparison, const struct trial_comparison *trial);
// Compares two sides, each with one trial per key. Release with comparison_free.
void comparison_make_sides(struct comparison *comparison, const struct keyed_records *base,
                           const struct keyed_records *new, const struct comparison_options *options);
// Returns false and a status if the last line is torn, because the missing part might be a regression.
bool comparison_is_whole(const struct result_file *file, struct status *status);
// Compares two files and borrows their records. Returns false and a status if a file is incomplete, or the files
// have different trials under one id. Release with comparison_free, also after a failure.
bool comparison_make(struct comparison *comparison, const struct result_file *base, const struct result_file *new,
                     const struct comparison_options *options, struct status *status);
void comparison_free(struct comparison *comparison);
