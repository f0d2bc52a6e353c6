// Training step: runs one step of training for all callers.
//
//   1. begin      starts update number t                               trainer_begin
//   2. zero       zeroes the gradients                                 trainer_zero
//   3. add        runs forward and backward of each micro-batch;       method_step
//                 ranks sum gradients during the last one
//   4. complete   lets the caller read, check or clip the gradients
//   5. update     updates the weights                                  trainer_update
//
// A gradient alone takes steps 2 to 4.
#pragma once
#include "kernels/framework/framework_run.h"
#include "kernels/trainer/trainer.h"
#include "methods/method.h"

struct training_step {
    struct trainer *trainer;
    const struct method *method;
    const struct batch *batch;       // the single micro-batch; NULL: set by `open`
    const void *options;             // the method's own struct
    struct framework_run *framework; // takes its own step, in place of all these; NULL: this program's
    // Number of the update, from 1 on, and the schedule's factor of the rate; 0: gradients alone.
    size_t update;
    double rate_factor;
    bool again;           // repeats the same step, with the same active block (trainer_begin_again)
    size_t micro_batches; // 0: one
    bool more_follow;     // other calls run further micro-batches of the same update
    // Hooks may be NULL. They add their own times to the report.
    void *caller;
    // Sets batch and options of micro-batch `part`; the other releases them. Returning false ends the step.
    bool (*open)(struct training_step *step, size_t part, struct step_report *report);
    void (*close)(struct training_step *step);
    // Called with complete gradients. Returning false ends the step without an update.
    bool (*complete)(struct training_step *step, struct step_report *report);
};

// Runs the step. The report has the sums over all micro-batches, the chunks of the last, and the time without
// reading sums. Returns false if a hook ended it. Failures are in the device's status.
bool training_step_take(struct training_step *step, struct step_report *report);
// Steps 1 and 2: the gradients' state before the first micro-batch.
void training_step_begin(const struct training_step *step);
