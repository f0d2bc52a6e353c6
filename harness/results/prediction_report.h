// Prediction report: how well the times of steps were said before, by a profile that has measured rates.
#pragma once
#include "harness/results/results.h"
#include "harness/results/text_table.h"
#include <stdio.h>

// Trials that are predicted, and how far off: |predicted / measured - 1|.
struct prediction_errors {
    size_t count, in_range; // measured between the low and the high estimate
    double median, worst;
    const struct record *worst_record;
    // Pairs of trials that differ in method or options alone, and by more than a tenth in measured time; and those
    // of which the slower one was predicted to be the faster.
    size_t pairs, reversed;
};
struct prediction_errors prediction_errors_of(const struct record *const *records, size_t count);
// Whether a record counts: it was timed, and is predicted.
bool prediction_counts(const struct record *record);

// Writes, of every trial that counts, what was predicted and measured, if points, and the errors; whether there are
// any.
bool prediction_report_write(const struct results *results, bool points, enum table_format format, FILE *stream);
