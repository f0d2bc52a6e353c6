// Trial names: records of several trials in words, no more than tell each from the others.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/trial_keys.h"
#include "harness/table/series.h"

struct trial_name {
    char text[320]; // "seco, chunk 128, context 1024, kv_gradient_dtype bf16"
};

struct trial_names {
    const struct record *const *records; // [count], borrowed
    size_t count, *series;               // [count]: which of the table's each is of
    struct series_table table;
    bool framed, machines;             // said: context, dtype and device; the machine
    json_t *differing[TRIAL_KEYS_MAX]; // what of the key names say; NULL: nothing
    bool exact[TRIAL_KEYS_MAX];        // its sizes are said to the byte, for some are not told apart otherwise
};

// What names of these records say, which stay where they are until trial_names_close: the method with the options
// that tell it from the others of its name, and the keys in which the trials differ, and the machine if they were
// measured on several. framed: context, dtype and device are said of each, even where they are the same in all.
void trial_names_open(struct trial_names *names, const struct record *const *records, size_t count, bool framed);
struct trial_name trial_names_at(const struct trial_names *names, size_t record);
void trial_names_close(struct trial_names *names);
