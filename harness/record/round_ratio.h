// Round ratio: how many times as long one trial takes as another, and how far that may be off, from rounds in which
// both were measured. Samples of one process are alike, and what changes about a machine from round to round does
// so for both: a round is one value, the ratio of its two times, and of these the mean's interval is Student's
// (1908).
#pragma once
#include "harness/record/record.h"
#include "harness/stats/sample.h"

// The geometric mean of times[i] / over[i] and its interval of 95 %. Of one round there is none: from 0 to
// infinity. All times > 0; rounds > 0.
struct shift round_ratio(const double *times, const double *over, size_t rounds);
// The same of the last rounds that both lists have, which are not empty: round by round from the end.
struct shift round_ratio_last(const struct number_list *times, const struct number_list *over);
