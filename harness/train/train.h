// Train: a training run of a trial, step by step: windows of tokens or sequences of batch files, micro-batches with
// a common normaliser, schedule, clipping and the optimizer's update; and the loss on held-out data. A step depends
// only on its number, the weights and the optimizer's state, so a resumed run ends with the same bits.
#pragma once
#include "harness/step/setup.h"
#include "harness/train/train_shapes.h"
#include "kernels/comm/world.h"
#include "kernels/trainer/lost_updates.h"

struct train {
    const struct trial *trial; // that trains
    struct setup *setup;       // borrowed, like the world: the processes that share the steps
    const struct world *world;
    struct train_data data, held_out;
    struct train_shapes shapes; // of a plan
    struct device *counter;     // a device without a model on which a step's normaliser is counted
    size_t step;                // completed steps
    size_t longest;             // tokens of the longest document of all files, which RoPE goes by in every step
    size_t evaluated;           // sequences evaluated; in a plan at most those of one batch; 0: none
    // Values of the last step, over all ranks. The norm of all gradients before clipping; NaN without data, and if
    // gradients are freed within the backward pass.
    double rate, gradient_norm;
    struct objective_sums sums;
    struct lost_updates lost_updates; // if the trial measures them
};

// Opens the data and computes their log-probs by a second model, which is on the device only during this call, so
// best before there is a setup. dataless: for a device without data. Returns false and a status (bad input, io) if
// there are too few data or the objective's inputs are missing. Release with train_close, also after a failure.
bool train_open(struct train *train, const struct trial *trial, const struct world *world, bool dataless,
                struct status *status);
// Starts the run with the setup's model. Replaces the setup's batch: a batch is on the device only while it runs.
void train_begin(struct train *train, struct setup *setup);
// A run on the same data with another method or offload target, on its own setup. It borrows from `train` and is
// not closed.
struct train train_like(const struct train *train, const struct trial *trial, struct setup *setup);
// Runs the next step. report: sums over this rank's sequences, times including the update and a reference's pass,
// chunks of the last micro-batch. Returns false and a status if tokens cannot be read or (failed) the loss is not
// finite; failures of the device are in its status.
bool train_step(struct train *train, struct step_report *report, struct status *status);
// On a device without data: runs one of train->shapes. report: as in train_step. Returns false and a status if its
// sequences cannot be read.
bool train_run_shape(struct train *train, const struct train_shape *shape, struct step_report *report,
                     struct status *status);
// Opens only the shape's batch in the setup.
bool train_open_shape(struct train *train, const struct train_shape *shape, struct status *status);
// Tells whether an evaluation follows the completed steps.
bool train_evaluates(const struct train *train);
// Evaluates the held-out data: mean loss by the trial's objective, and metrics.
bool train_evaluate(struct train *train, struct objective_sums *found, struct status *status);
void train_close(struct train *train);
