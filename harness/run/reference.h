// Reference: the gradient that every other is held against: method `full` in f64 on the same rounded weights and
// tokens; and the noise floor that an error must be seen against: `full` in the trial's own dtype, summed in two
// orders.
#pragma once
#include "harness/run/gradient_error.h"
#include "harness/spec/trial.h"

struct reference {
    struct gradient_set gradients;
    double loss;
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
// An exact method's gradient may differ from the reference by what rounding explains, overall and for every tensor.
// Noise is what another order of sums changes, or sums in bf16 (reference_sums). Relative L2 is up to 32 times
// that, or, where this is more than half of the gradient, half of it or 4 times the noise, of the reference or of
// what the noise was taken of, whichever is larger; and at least 1e-12 and 32 times the dtype's epsilon: in bf16
// another order may change no result at all, while every result is rounded. False and a status that names the
// tensor if not.
bool reference_accepts(const struct reference *reference, enum dtype dtype, const struct gradient_report *report,
                       const struct gradient_report *sums, struct status *status);
