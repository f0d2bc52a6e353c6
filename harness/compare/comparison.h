// Comparison: two result files, trial by trial: did anything become worse?
//
// Trials are the same if their ids are. The records of a trial are rounds: all that the revision and the machine of
// its last one measured. Every round of NEW is held against BASE's: its status, its quantities (quantity.h), its
// data and its model; times together by one rule (time_change.h). Everything ends as a verdict (verdict.h), and the
// verdict of the comparison is the worst of them. A plan is held against what was measured by what a plan has
// exactly.
#pragma once
#include "harness/compare/quantity.h"
#include "harness/compare/round_times.h"
#include "harness/compare/time_change.h"
#include "harness/record/result_file.h"
#include "harness/table/trial_names.h"

// Whether two records of one trial have the same gradients to the last bit, by their hashes.
//
// Bits depend on these besides the program's own code, in bits of struct gradient_bits: keys of a record and of its
// provenance.
#define GRADIENT_BITS_CAUSES 9
extern const char *const gradient_bits_causes[GRADIENT_BITS_CAUSES];

struct gradient_bits {
    bool known;           // both records have hashes, and of a device whose bits are the same in every run
    size_t tensors;       // of the base record
    size_t changed;       // of them; 0: all bits are the same
    const char *first;    // name of the first that changed, in the model's order, borrowed; NULL: none
    unsigned long causes; // bit i: cause i is not the same in both
};

// The CPU's bits are the same in every run, and another device's where the trial asks for it (`deterministic`).
struct gradient_bits gradient_bits_compare(const struct record *base, const struct record *new);

struct comparison_options {
    // Under --by neither bits nor inputs are judged, nor a trial that one side alone has.
    struct quantity_rules rules;
    bool deterministic; // leave the times out
    double threshold;   // of the ratio of times
};

struct trial_comparison {
    const struct record *base, *new;     // the last records, borrowed; NULL: the file has none
    const struct record_list *rounds[2]; // of BASE and NEW; the comparison's
    enum verdict verdict;                // the worst of what follows
    enum verdict status;                 // none: nothing is asked of it
    const struct record *statuses[2];    // what the status is judged by: the worst round of either; NULL as above
    enum verdict inputs;                 // changed: other data or another model
    struct quantity_changes changes;
    struct gradient_bits bits; // told, and not judged
    struct round_times times;
    const struct time_trial *time; // the comparison's
    char context[24];
};

// Counts that a comparison reports besides its verdicts. Those from COUNT_REASONS on are reasons why it is changed
// or undecided.
enum comparison_count {
    COUNT_LET_PASS,        // quantities that changed within what --allow says
    COUNT_NEWS,            // quantities that NEW alone knows
    COUNT_OLDER,           // records of an earlier revision or of another machine than a trial's last
    COUNT_OTHER_CHUNKS,    // trials whose two records are of other draws
    COUNT_LEFT_OUT,        // timed records that no round of the other file is held against
    COUNT_PROCESSOR_TIMES, // trials whose times are of the processors
    COUNT_REASONS,
    COUNT_MISSING = COUNT_REASONS, // trials that BASE alone has
    COUNT_INPUTS,                  // trials of other data or another model
    COUNT_ANOTHER,                 // trials with figures of something else
    COUNT_UNKNOWN,                 // trials with figures that NEW does not know
    COUNT_ENDED,                   // trials that ended in another way
    COMPARISON_COUNTS
};
// In that order. key: in JSON; one, several: what stands behind the number.
extern const struct comparison_count_words {
    const char *key, *one, *several;
} comparison_counts[COMPARISON_COUNTS];

struct comparison {
    struct comparison_options options;
    struct trial_comparison *trials; // [count], in the order of base, then those of new alone
    struct time_trial *times;        // [count]
    size_t count, both, base_only, new_only;
    size_t by_verdict[VERDICT_COUNT]; // trials
    size_t counts[COMPARISON_COUNTS];
    uint64_t left_rounds[2];         // of BASE and NEW: the numbers of what is left out, as in round_times.h
    const char *planned;             // "BASE" or "NEW" where that side was planned and the other measured, or NULL
    size_t bits_known, bits_changed; // trials whose gradients have hashes in both; of them, those with other bits
    unsigned long bits_causes;       // of those that changed
    struct time_change time;
    enum verdict verdict;
    char reason[480]; // of changed and undecided
    char note[160];   // what besides is to be known of it; "": nothing
    struct record_lists lists[2];
    const struct record **named; // [count], what names are made of
    struct trial_names names;
};

// A trial in words: "seco, chunk 128, context 1024, f32 cpu".
struct trial_name comparison_name(const struct comparison *comparison, const struct trial_comparison *trial);
// Compares two sides, whose records of one key are of one trial. Release with comparison_free.
void comparison_make_sides(struct comparison *comparison, const struct keyed_records *base,
                           const struct keyed_records *new, const struct comparison_options *options);
// False and a status if the last line is torn: what was cut off might be what became worse.
bool comparison_is_whole(const struct result_file *file, struct status *status);
// Compares two files; the records stay theirs. False and a status if one is not whole, or has another trial under
// an id than the other. Release with comparison_free, also after a failure.
bool comparison_make(struct comparison *comparison, const struct result_file *base, const struct result_file *new,
                     const struct comparison_options *options, struct status *status);
void comparison_free(struct comparison *comparison);
