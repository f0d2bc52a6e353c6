// Rounding: how far rounding may move a gradient, from the trial's shape and dtypes and from the reference in f64,
// never from what is held against it.
//
// Rounding errors are taken as independent, of mean 0 and variance u^2 / 3 relative to what is rounded (uniform in
// -u to u, the unit roundoff), so that their squares add up: the probabilistic analysis of Higham & Mary 2019 (SIAM
// J. Sci. Comput. 41:5), which bounds a sum of n terms by lambda sqrt(n) u instead of n u; n is the depth of its
// tree for a sum in blocks and vectors, as libraries add. Relative to the gradient:
//
//   sigma^2 = (L + 1) R (us^2 + ua^2 log2 n) / 3 + ub^2 A / 6
//
//   us  unit roundoff of stored results: the dtype's, or TF32's where GEMM may round its factors to it
//   ua  unit roundoff of sums: that of f32 under bf16, else the dtype's
//   ub  unit roundoff of bf16
//   L   layers
//   R   results that a layer stores between the loss and a gradient, forward and backward: 32
//   n   terms of the longest sum: the width, that of the MLP, the vocabulary or the step's tokens
//   A   parts that a sum kept in bf16 gets one by one, chunks of the context or of the head (0: there is none): the
//       sum of i parts of random signs has i / A of the variance of the last one; stochastic rounding has twice the
//       variance, and counts as twice as many
//
// How a model passes errors on (its conditioning: trained weights, norms behind blocks, sequences that cancel)
// shows in the reference: summed in another order it moves by some sigma of f64, and f32 by 0.8 to 3.5 times as
// many of its own, in 1,000 random trials of all exact methods and most objectives and in a trained model. The
// whole gradient may be off by ten times as many, at least 5 sigma, and at most half of its norm and 250 sigma, to
// which f64 itself is held.
//
// A single tensor may be off by 3 times that, relative to its norm or to a tenth of its share (struct
// gradient_error): a norm's gain of few elements, or what is small because its terms cancel, is less exact. Terms
// that cancel altogether, as those of the queries of a softmax over one token, leave what the dtype of statistics
// cannot hold: there the bound is that dtype's, relative to the share.
#pragma once
#include "harness/run/gradient_error.h"
#include "harness/spec/trial.h"

struct rounding {
    double relative, cancelled; // the bound, and the bound in the dtype of statistics
};

// noise: relative L2 of the reference in f64 summed in another order.
struct rounding rounding_of(const struct trial *trial, double noise);
// The largest L2 that rounding explains of an error of the whole gradient, and of a tensor.
double rounding_whole(const struct rounding *rounding, const struct gradient_error *error);
double rounding_tensor(const struct rounding *rounding, const struct gradient_error *error);
