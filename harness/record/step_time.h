// Step time: what a record says that one step takes: the median of its samples or, where each walked a draw of
// chunks of its own, their mean, which estimates the expectation over draws without bias; the median would not.
#pragma once
#include "harness/record/record.h"
#include "harness/stats/sample.h"
#include <stdbool.h>

// ms; what is not known is NaN.
struct step_time {
    double ms;
    // The fastest and the slowest sample; of a mean over draws two standard errors either way, down to the fastest
    // sample where they would reach below 0.
    double low, high;
    double drawn_chunks; // drawn, mean over the draws
};

// Whether its method drew chunks: a draw for each sample, or all the same.
bool step_time_is_drawn(const struct record *record);
// Not known: without samples, and of a method that draws its chunks whose samples all walked one draw (a record
// without sample_chunks), which is luck.
struct step_time step_time_of(const struct record *record);
// What the step would have taken at the speed that its profile's rates are of: of the samples over their slowdowns.
// Of draws their mean. NaN: without slowdowns.
double step_time_at_profile_speed(const struct record *record);
// The same of a record's estimate_ms, which has no samples.
struct step_time step_time_estimate(const struct record *record);
// The mean of the samples, for ratios of means; the median if there are none.
double step_time_mean(const struct record *record);
// How many times as long one trial takes as another, from rounds in which both were measured, all times > 0: of the
// last rounds that both lists have the geometric mean of times[i] / over[i] and its interval of 95 %; of one round
// from 0 to infinity. Samples of one process are alike, and what changes about a machine from round to round does
// so for both: a round is one value, the ratio of its two times, and of these the mean's interval is Student's
// (1908).
struct shift round_ratio(const struct number_list *times, const struct number_list *over);
// How many times as long a record's step takes as that of another: the ratio of the rounds that both have, each
// over each in turn (round_ratio). NaN: one has no time.
struct shift step_time_ratio(const struct record *record, const struct record *over);
