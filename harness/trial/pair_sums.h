// Pair sums: the error of a pair's difference of log-probs, the quantity of preference objectives, if its sums over
// tokens use a narrow accumulator.
#pragma once
#include "harness/record/record.h"
#include "kernels/objectives/batch.h"
#include "kernels/objectives/objective.h"

// Means over the pairs: difference is |D| in long double, D = (S_chosen - R_chosen) - (S_rejected - R_rejected).
// The errors are |error of D| if the four sums of log-probs, S the model's and R the reference's, are accumulated
// row by row in a dtype; for bf16 the rows are rounded too, as in a bf16 model. bf16_once_error: the same rows,
// with each sum rounded once.
//
// log_prob: [rows, 1], the model's for the batch's targets; the reference's are the batch's, or 0 if it has none.
// The device has data.
void pair_sums_of(struct record_pair_sums *sums, struct device *device, const struct batch *batch,
                  struct tensor log_prob);
