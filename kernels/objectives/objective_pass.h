// Objective pass: computes loss, metrics and the gradient of logits from a batch's objective, on the device.
#pragma once
#include "kernels/comm/comm.h"
#include "kernels/objectives/batch.h"
#include "kernels/objectives/objective.h"

// Factors of a chunk's rows in the reported loss and in the gradient, which differ for SpaCO. deferred: takes the
// slope of the pair's sums as 1 and gathers the sums on the way.
struct loss_weights {
    double loss, grad;
    bool deferred;
};

// Accumulator of the loss and, if the objective has any, metrics: [1, 1] or [OBJECTIVE_SUMS, 1], zeroed.
struct tensor objective_sums_new(struct device *device, const struct batch *batch);
// The accumulated loss and metrics (this batch's shares of means over the step; 0 without metrics). Waits for the
// device.
struct objective_sums objective_sums_read(struct device *device, const struct batch *batch, struct tensor loss);

// Tells whether the batch's objective has sums: then call objective_begin, head_loss over all chunks from the left,
// and objective_settle first. For others these do nothing.
bool objective_gathers(const struct batch *batch);
void objective_begin(struct device *device, const struct batch *batch);
// replicas: ranks with the step's other sequences.
void objective_settle(struct device *device, const struct comm *replicas, const struct batch *batch,
                      struct tensor loss);

// Tells whether the gradient is a multiple of that with slopes of 1, because the step is a single pair with only
// sums. Then one pass suffices: objective_begin, every row once, with or without backward, deferred, and
// objective_settle_deferred, which returns the gradient's factor and waits for the device.
bool objective_defers(const struct batch *batch);
double objective_settle_deferred(struct device *device, const struct batch *batch, struct tensor loss);

// Replaces logits: [n, V], of the batch's rows from first_row on, by their gradient; without backward their
// contents become undefined. Adds these rows' share of the loss. With sums, the pass without backward gathers them
// and adds the share.
void objective_apply(struct device *device, const struct batch *batch, struct tensor logits, size_t first_row,
                     double cap, struct loss_weights weights, bool backward, struct tensor loss);
