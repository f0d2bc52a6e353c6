// Prediction report: how well the times of steps were said before, by a profile that has measured rates.
#pragma once
#include "harness/record/results.h"
#include "harness/table/text_table.h"
#include <stdio.h>

// Whether trials that differ in their times were predicted to, the right way round.
struct predicted_time {
    double measured_ms, estimate_ms;
};

// Pairs of them whose measured times differ by this factor or more; and those of which the slower one was not
// predicted to be the slower.
struct predicted_order {
    size_t pairs, reversed;
};
// All times finite and > 0, apart > 1. Sorts the times by what was measured.
struct predicted_order predicted_order_of(struct predicted_time *times, size_t count, double apart);

// Times as they were measured, or at the speed that the profile's rates are of, where records have slowdowns.
enum prediction_speed { PREDICTION_AS_MEASURED, PREDICTION_AT_PROFILE_SPEED };

// Trials that are predicted, and how far off: |predicted / measured - 1|.
struct prediction_errors {
    size_t count, in_range; // measured between the low and the high estimate
    double median, worst;
    const struct record *worst_record;
    struct predicted_order order; // of trials that differ in method or options alone, a tenth apart
};
struct prediction_errors prediction_errors_of(const struct record *const *records, size_t count,
                                              enum prediction_speed speed);
// The time that a prediction is held against; NaN: the record does not count, for it was not timed, or not
// predicted.
double prediction_measured_ms(const struct record *record, enum prediction_speed speed);

// Whether any record counts.
bool prediction_any(const struct results *results);
// Writes, of every trial that counts, what was predicted and measured, if points, and the errors; whether there are
// any.
bool prediction_report_write(const struct results *results, bool points, enum table_format format, FILE *stream);
