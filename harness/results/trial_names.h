// Trial names: records of several trials in words, no more than tell each from the others.
#pragma once
#include "harness/results/record.h"

struct trial_name {
    char text[320]; // "seco, chunk 128, context 1024, kv_gradient_dtype bf16"
};

// Names of `count` records: the method with the options that tell it from the others of its name, and the keys in
// which the trials differ. framed: context, dtype and device are said of each, even where they are the same in all.
void trial_names_make(struct trial_name *names, const struct record *const *records, size_t count, bool framed);
