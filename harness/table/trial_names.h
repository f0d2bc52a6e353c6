// Trial names: short names that distinguish the records of several trials.
#pragma once
#include "harness/record/record.h"
#include "harness/spec/trial_keys.h"
#include "harness/table/series.h"

struct trial_name {
    char text[320]; // "seco, chunk 128, context 1024, kv_gradient_dtype bf16"
};

struct trial_names {
    const struct record *const *records; // [count], borrowed
    size_t count, *series;               // [count]: each record's series in the table
    struct series_table table;
    bool framed, machines;             // include context, dtype and device; the machine
    json_t *differing[TRIAL_KEYS_MAX]; // parts of keys in names; NULL: none
    bool exact[TRIAL_KEYS_MAX];        // sizes in bytes, because rounding would hide differences
};

// Prepares names of these records, which must stay until trial_names_close: the method with its distinguishing
// options, keys in which trials differ, and the machine if there are several. framed: always includes context,
// dtype and device.
void trial_names_open(struct trial_names *names, const struct record *const *records, size_t count, bool framed);
struct trial_name trial_names_at(const struct trial_names *names, size_t record);
void trial_names_close(struct trial_names *names);
