// Train: a training run of a trial, step by step: windows of tokens, micro-batches of one normaliser, schedule,
// clipping and the optimizer's update; and the loss of held-out tokens. All that a step is depends on its number
// alone, the weights and the optimizer's state: a run goes on where another one stopped, with the same bits.
#pragma once
#include "harness/files/windows.h"
#include "harness/run/setup.h"

struct train {
    const struct trial *trial; // that trains
    struct setup *setup;       // borrowed
    struct windows windows, held_out;
    size_t step;               // done
    size_t evaluation_windows; // 0: nothing is evaluated
    int32_t *ids;              // [batch, context]
    // Of the last step. The norm is that of all gradients before they are clipped; NaN on a device without data,
    // and where each is freed within the walk.
    double rate, gradient_norm;
};

// Takes the setup's model, and the batch's place: a batch is on the device while it is walked alone. False and a
// status (bad input, io) if there are too few tokens. Release with train_close, also after a failure.
bool train_open(struct train *train, const struct trial *trial, struct setup *setup, struct status *status);
// The next step. report: loss of the whole step, times with those of the update, columns of the last micro-batch.
// False and a status if tokens cannot be read, or (failed) if the loss is not finite; what the device fails at is
// in its status.
bool train_step(struct train *train, struct step_report *report, struct status *status);
// Whether the tokens held out are to be evaluated after so many steps as are done.
bool train_evaluates(const struct train *train);
// Their loss, by the trial's objective: a mean over all of them.
bool train_evaluate(struct train *train, double *loss, struct status *status);
void train_close(struct train *train);
