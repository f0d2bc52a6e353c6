// Pair sums: how far the difference of a pair's log-probs, which preferences are judged by, is off where its sums
// over tokens are kept in a narrow dtype.
#pragma once
#include "harness/record/record.h"
#include "kernels/objectives/batch.h"
#include "kernels/objectives/objective.h"

// Means over the pairs: difference is |D| in long double, D = (S_chosen - R_chosen) - (S_rejected - R_rejected).
// The errors are |error of D| where the four sums of log-probs, S the model's and R the reference's, are kept in a
// dtype and added row by row; of bf16 the rows are rounded to it, too, as a model in bf16 has them.
// bf16_once_error: the same rows, and each sum rounded once.
//
// log_prob: [rows, 1] of the batch's targets, by the model; of the reference they are the batch's own, or 0 where
// it has none. The device has data.
void pair_sums_of(struct record_pair_sums *sums, struct device *device, const struct batch *batch,
                  struct tensor log_prob);
