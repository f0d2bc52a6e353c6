// Reference: the gradient with which all others are compared: method `full` in f64 on the same rounded weights and
// tokens; and the noise floor of errors: `full` in the trial's dtype, summed in two orders.
//
// In a mixture of experts, logits that are rounded otherwise now and then choose another expert, and the gradient
// then differs by much more than by rounding. Errors of a dtype are therefore against a reference whose tokens take
// the experts of the trial's first pass. An f64 trial is held against the experts that the reference chooses, so
// that a wrong router does not pass.
#pragma once
#include "harness/spec/trial.h"
#include "harness/step/rounding.h"
#include "kernels/layers/choices.h"

struct reference {
    struct gradient_set gradients;
    double loss;
    double noise;                 // the largest relative L2 between f64 references summed in different orders
    struct gradient_report floor; // `full` summed in reverse against `full`, both in the trial's dtype
};

// The experts that the reference and the noise floor are to take: the trial's, of all ranks; NULL: those that they
// choose.
const struct kept_choices *reference_choices(const struct trial *trial, const struct kept_choices *taken);
// Computes both on separate devices, closed on return, so that the measured device's peak is not affected. Returns
// false and a status on failure. Release with reference_free, also after a failure.
bool reference_take(struct reference *reference, const struct trial *trial, const struct kept_choices *given,
                    struct status *status);
void reference_free(struct reference *reference);
// The gradient of `full` in f64 with the experts that it chooses, and these. Release both with their functions.
bool reference_route(struct gradient_set *set, struct kept_choices *taken, const struct trial *trial,
                     struct status *status);
// The effect of bf16 accumulators (dKV, weight gradients): the trial's gradient against that of the same method
// with f32 accumulators. An empty report without bf16 accumulators. Returns false and a status on failure. Release
// with gradient_report_free, also after a failure.
bool reference_sums(struct gradient_report *sums, const struct gradient_set *set, const struct trial *trial,
                    const void *options, struct status *status);
// Checks whether rounding explains the difference of an exact method's gradient, and of its noise floor, from the
// reference, overall and by tensor. The bound (harness/step/rounding.h) is known in advance, so no build excuses
// its errors by its own noise. Returns false and a status that names the first failing tensor.
bool reference_judge(struct rounding_verdict *verdict, const struct reference *reference, const struct trial *trial,
                     const struct gradient_report *report, struct status *status);
