// Train: a training run of a trial, step by step: windows of tokens or sequences of batch files, micro-batches of
// one normaliser, schedule, clipping and the optimizer's update; and the loss of what is held out. All that a step
// is depends on its number alone, the weights and the optimizer's state: a run goes on where another one stopped,
// with the same bits.
#pragma once
#include "harness/step/setup.h"
#include "harness/train/train_shapes.h"
#include "kernels/comm/world.h"
#include "kernels/trainer/lost_updates.h"

struct train {
    const struct trial *trial; // that trains
    struct setup *setup;       // borrowed, and so is the world: the processes that share the steps
    const struct world *world;
    struct train_data data, held_out;
    struct train_shapes shapes; // of a plan
    struct device *counter;     // what a step of several micro-batches divides by is counted on, without a model
    size_t step;                // done
    size_t evaluated;           // sequences, of a plan at a time and at most; 0: nothing is evaluated
    // Of the last step, of all ranks. The norm is that of all gradients before they are clipped; NaN on a device
    // without data, and where each is freed within the walk.
    double rate, gradient_norm;
    struct objective_sums sums;
    struct lost_updates lost_updates; // where the trial measures them
};

// The data, and the log-probs of them by a second model, which is on the device only meanwhile: best before there
// is a setup. dataless: for a device without data. False and a status (bad input, io) if there is too little data,
// or not what the objective needs. Release with train_close, also after a failure.
bool train_open(struct train *train, const struct trial *trial, const struct world *world, bool dataless,
                struct status *status);
// Begins with the first step. Takes the setup's model, and the batch's place: a batch is on the device while it is
// walked alone.
void train_begin(struct train *train, struct setup *setup);
// The run of a trial of the same data that differs in its method and where it keeps what, on a setup of its own.
// It borrows all from `train`, and is not closed.
struct train train_like(const struct train *train, const struct trial *trial, struct setup *setup);
// The next step. report: sums of this rank's sequences, times with those of the update and of a reference's
// pass, chunks of the last micro-batch. False and a status if tokens cannot be read, or (failed) if the loss is
// not finite; what the device fails at is in its status.
bool train_step(struct train *train, struct step_report *report, struct status *status);
// On a device without data: walks one of train->shapes. report: as of train_step. False and a status if its
// sequences cannot be read.
bool train_run_shape(struct train *train, const struct train_shape *shape, struct step_report *report,
                     struct status *status);
// The shape's batch becomes the setup's; otherwise likewise.
bool train_open_shape(struct train *train, const struct train_shape *shape, struct status *status);
// Whether what is held out is to be evaluated after so many steps as are done.
bool train_evaluates(const struct train *train);
// Its loss, by the trial's objective, and metrics: means over all of it.
bool train_evaluate(struct train *train, struct objective_sums *found, struct status *status);
void train_close(struct train *train);
