// Reference: the gradient that every other is held against: method `full` in f64 on the same rounded weights and
// tokens; and the noise floor that an error must be seen against: `full` in the trial's own dtype, summed in two
// orders.
#pragma once
#include "harness/spec/trial.h"
#include "harness/step/rounding.h"

struct reference {
    struct gradient_set gradients;
    double loss;
    double noise; // the largest relative L2 of the reference summed in other orders, in f64 as it is
    struct gradient_report floor; // `full` summed in reverse against `full`, both in the trial's dtype
};

// Computes both on devices of their own, closed on return, so that the measured device's peak knows nothing of
// them. Release with reference_free, also after a failure. False and a status.
bool reference_take(struct reference *reference, const struct trial *trial, struct status *status);
void reference_free(struct reference *reference);
// What sums in bf16 (dKV, the weights' gradients) alone change: the trial's gradient against that of the same
// method with sums in f32. Without sums in bf16 a report of nothing. Release it with gradient_report_free, also
// after a failure. False and a status.
bool reference_sums(struct gradient_report *sums, const struct gradient_set *set, const struct trial *trial,
                    const void *options, struct status *status);
// Whether rounding explains how an exact method's gradient, and its noise floor, differ from the reference, overall
// and tensor by tensor: the bound (harness/step/rounding.h) is known before anything is computed, so that no build
// excuses its errors by its own noise. False and a status that names the first tensor if not.
bool reference_judge(struct rounding_verdict *verdict, const struct reference *reference, const struct trial *trial,
                     const struct gradient_report *report, struct status *status);
