// Prediction report: the accuracy of step times estimated from a profile's measured rates.
#pragma once
#include "harness/record/results.h"
#include "harness/table/text_table.h"
#include <stdio.h>

// The measured and predicted times of a trial.
struct predicted_time {
    double measured_ms, estimate_ms;
};

// Pairs of trials whose measured times differ by at least this factor; among them, those predicted in the wrong
// order.
struct predicted_order {
    size_t pairs, reversed;
};
// All times are finite and > 0, apart > 1. Sorts the times by measured time.
struct predicted_order predicted_order_of(struct predicted_time *times, size_t count, double apart);

// Times as measured, or at the speed of the profile's rates if records have slowdowns.
enum prediction_speed { PREDICTION_AS_MEASURED, PREDICTION_AT_PROFILE_SPEED };

// Predicted trials, and their errors: |predicted / measured - 1|.
struct prediction_errors {
    size_t count, in_range; // measured between the low and the high estimate
    double median, worst;
    const struct record *worst_record;
    struct predicted_order order; // of trials that differ only in method or options, by at least a tenth
};
struct prediction_errors prediction_errors_of(const struct record *const *records, size_t count,
                                              enum prediction_speed speed);
// The measured time that a prediction is compared with; NaN: the record was not timed or not predicted.
double prediction_measured_ms(const struct record *record, enum prediction_speed speed);

// Tells whether any record counts.
bool prediction_any(const struct results *results);
// Writes predicted and measured times of every counted trial, if points, and the errors; returns whether there are
// any.
bool prediction_report_write(const struct results *results, bool points, enum table_format format, FILE *stream);
