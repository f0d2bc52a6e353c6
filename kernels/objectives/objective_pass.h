// Objective pass: what a batch's objective makes of its rows, on the device: loss, metrics and the gradient of
// logits.
#pragma once
#include "kernels/comm/comm.h"
#include "kernels/objectives/batch.h"
#include "kernels/objectives/objective.h"

// The factors of a chunk's rows in the loss that is reported and in the gradient: SpaCO's differ. Deferred: the
// slope of the pair's sums is taken for 1, and the sums are gathered on the way.
struct loss_weights {
    double loss, grad;
    bool deferred;
};

// Where all below adds the loss and, if the objective has some, metrics: [1, 1] or [OBJECTIVE_SUMS, 1], zeroed.
struct tensor objective_sums_new(struct device *device, const struct batch *batch);
// What has been added, the metrics as this batch's shares of their means over the step; 0: the objective has none.
// Waits for the device.
struct objective_sums objective_sums_read(struct device *device, const struct batch *batch, struct tensor loss);

// Whether the batch's objective has sums: then comes first objective_begin, head_loss over all chunks from the
// left, and objective_settle. For others these do nothing.
bool objective_gathers(const struct batch *batch);
void objective_begin(struct device *device, const struct batch *batch);
// replicas: of the ranks that have the step's other sequences.
void objective_settle(struct device *device, const struct comm *replicas, const struct batch *batch,
                      struct tensor loss);

// Whether the gradient is a multiple of that with slopes of 1: the step is one pair, and has nothing but its sums.
// Then a walk may do with one pass: objective_begin, every row once, some without backward and some with it,
// deferred, and objective_settle_deferred, which says what its gradient has to be multiplied by, and waits for the
// device.
bool objective_defers(const struct batch *batch);
double objective_settle_deferred(struct device *device, const struct batch *batch, struct tensor loss);

// logits: [n, V], of the batch's rows from first_row on, become the gradient of themselves; without backward they
// are spent. loss += these rows' share. With sums the pass without backward gathers them, and has these rows' share
// of the loss.
void objective_apply(struct device *device, const struct batch *batch, struct tensor logits, size_t first_row,
                     struct loss_weights weights, bool backward, struct tensor loss);
