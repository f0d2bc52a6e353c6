// Rounding: a bound on a gradient's rounding error, from the trial's shape and dtypes and the f64 reference, never
// from the gradient under test. harness/step/rounding.md has the derivation, its sources and measured margins.
//
// Rounding errors are independent and of mean 0, so that their squares add up. Relative to the gradient:
//
//   sigma^2 = c^2 (4 (4 L + 28) us^2 + 64 (L + 1) log2 n ua^2 + ub^2 A / 2)
//   bound   = sigma max(5, 10 noise / sigma of f64)
//
//   c   root mean square of one rounding's relative error, over the unit roundoff: 1 / sqrt(8 ln 2)
//   us  unit roundoff of stored results: the dtype's, or TF32's where GEMM may round its factors to it
//   ua  unit roundoff of sums: that of f32 under bf16, else the dtype's
//   ub  unit roundoff of bf16
//   L   layers
//   n   terms of the longest sum: the width, that of the MLP, the vocabulary or the step's tokens
//   A   parts that a sum kept in bf16 gets one by one, chunks of the context or of the head (0: there is none);
//       stochastic rounding has twice the variance, and counts as twice as many
//
// A single tensor may be off by 3 times that, relative to its norm or to a tenth of its share (struct
// gradient_error): a norm's gain has few elements, and small tensors arise from cancelling terms. Terms that cancel
// completely, as for the queries of a softmax over one token, leave errors of the statistics' dtype: there the
// bound is that dtype's, relative to the share.
#pragma once
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"

struct rounding_verdict {
    const char *name;   // "within" the bound, "beyond" it, or "undecided" if the bound is too wide
    double bound;       // on the relative L2 of the whole gradient
    double bound_share; // the largest error divided by its bound
};

struct rounding {
    double relative, cancelled; // the bound, and the bound in the statistics' dtype
    // Whether the bound separates right from wrong gradients: it is at most 0.25, and the reference moves by at
    // most 25 sigma of f64; beyond that the model or this build's f64 is not trustworthy.
    bool decides;
};

// noise: the largest relative L2 between f64 references summed in different orders.
struct rounding rounding_of(const struct trial *trial, double noise);
// The maximum L2 error that rounding explains, for the whole gradient and for a tensor.
double rounding_whole(const struct rounding *rounding, const struct gradient_error *error);
double rounding_tensor(const struct rounding *rounding, const struct gradient_error *error);
