// Training step: the protocol of a step, in one place.
//
//   1. begin      update number t begins                               trainer_begin
//   2. zero       the gradients                                        trainer_zero
//   3. add        forward and backward of each micro-batch;            method_step
//                 after the last one ranks have summed the gradients
//   4. complete   the caller reads, checks or clips the gradients
//   5. update     the weights move                                     trainer_update
//
// A gradient alone is 2 to 4.
#pragma once
#include "kernels/trainer/trainer.h"
#include "methods/method.h"

struct training_step {
    struct trainer *trainer;
    const struct method *method;
    const struct batch *batch; // of the one micro-batch; NULL: `open` says it
    const void *options;       // the method's own struct
    // Number of the update, from 1 on, and what a schedule multiplies the rate by; 0: the gradients alone.
    size_t update;
    double rate_factor;
    bool again;           // the same step is taken again and again: whose turn it is stays (trainer_begin_again)
    size_t micro_batches; // 0: one
    bool more_follow;     // further micro-batches of the same update are other calls'
    // Hooks may be NULL. They add their own times to the report.
    void *caller;
    // Sets batch and options of micro-batch number `part`; and lets go of them. False ends the step.
    bool (*open)(struct training_step *step, size_t part, struct step_report *report);
    void (*close)(struct training_step *step);
    // The gradients are complete. False ends the step, without an update.
    bool (*complete)(struct training_step *step, struct step_report *report);
};

// Takes the step. The report has the sums of all micro-batches, the chunks of the last, and the time of all but of
// reading sums. False: a hook ended it. Failures are in the device's status.
bool training_step_take(struct training_step *step, struct step_report *report);
// 1 and 2 alone: what the gradients are before the first micro-batch.
void training_step_begin(const struct training_step *step);
