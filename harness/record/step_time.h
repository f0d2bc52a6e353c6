// Step time: a record's time of one step: the median of its samples or, if each drew its own chunks, their mean, an
// unbiased estimate of the expectation over draws.
#pragma once
#include "harness/record/record.h"
#include "harness/stats/sample.h"
#include <stdbool.h>

// ms; NaN: unknown.
struct step_time {
    double ms;
    // The fastest and the slowest sample; for a mean over draws two standard errors either way, limited to the
    // fastest sample below 0.
    double low, high;
    double drawn_chunks; // mean number of drawn chunks
};

// Tells whether the method drew chunks, once per sample or once for all.
bool step_time_is_drawn(const struct record *record);
// Unknown without samples, and for drawn chunks if all samples used one draw (a record without sample_chunks),
// which is chance.
struct step_time step_time_of(const struct record *record);
// The step's time at the speed of its profile's rates: samples divided by their slowdowns; for draws their mean.
// NaN: without slowdowns.
double step_time_at_profile_speed(const struct record *record);
// The same for estimate_ms, which has no samples.
struct step_time step_time_estimate(const struct record *record);
// The mean of the samples, for ratios of means; the median if there are none.
double step_time_mean(const struct record *record);
// Ratio of one trial's time to another's, from rounds in which both were measured, all times > 0: the geometric
// mean of times[i] / over[i] over the last rounds that both have, with its interval of 95 %; for one round from 0
// to infinity. Samples of one process are alike, and changes of the machine between rounds affect both, so each
// round counts as one ratio; their mean has Student's interval (1908).
struct shift round_ratio(const struct number_list *times, const struct number_list *over);
// Ratio of a record's step time to another's, from their common rounds (round_ratio). NaN: one has no time.
struct shift step_time_ratio(const struct record *record, const struct record *over);
