// Gradient error: how far one set of gradients lies from a reference, per tensor and overall.
// Sets are held on the host in f64, so that gradients of different dtypes and devices meet on equal terms.
#pragma once
#include "kernels/model/model.h"

struct gradient_tensor {
    char name[112];
    size_t size;
    double *values; // [size]
    uint64_t hash;  // XXH3 of its bytes, in the dtype that the device holds it in
};

// The gradients of everything that trains, in the model's order.
struct gradient_set {
    uint64_t hash; // XXH3 of "NAME HASH\n" of each tensor, its hash in 16 hexadecimal digits
    size_t count;
    struct gradient_tensor *tensors;
};

// g: the gradient, r: the reference, all sums in f64.
struct gradient_error {
    // ||g - r|| / ||r||. A reference that is 0 but for the rounding of f64 (||r|| <= 1e-12 share_l2), such as that
    // of the queries of a softmax over one token, has no scale of its own: ||g - r|| / share_l2.
    double relative_l2;
    double l2;           // ||g - r||
    double reference_l2; // ||r||
    // A tensor of n of the gradient's N elements: sqrt(n / N) of the whole gradient's norm. The whole gradient: 1,
    // of the size of a mean loss's gradient by the logits. A tensor's is a share of 1 where the whole gradient is
    // 0.
    double share_l2;
    double max_abs;       // max |g - r|
    double cosine;        // g . r / (||g|| ||r||); 1 if both are 0, 0 if only one is
    double decimals;      // -log10(max_abs), infinite if they are equal (the SeCO paper's measure)
    double mean_abs;      // mean |g - r|
    double mean_relative; // mean |g - r| / |r| over the elements with r != 0
};

// Whether the reference is 0 but for rounding, and what relative_l2 is relative to.
bool gradient_vanishes(const struct gradient_error *error);
double gradient_scale(const struct gradient_error *error);

struct tensor_error {
    char name[112];
    uint64_t hash; // of the gradient, not of the reference
    struct gradient_error error;
};

struct gradient_report {
    struct gradient_error overall;
    uint64_t hash; // of the gradient
    size_t count;
    struct tensor_error *tensors; // [count]
    size_t worst;                 // index of the largest relative_l2; one that is not a number counts as larger
};

// Copies the model's gradients. Release with gradient_set_free.
void gradient_set_take(struct gradient_set *set, const struct model *model);
// A parameter's gradient, of which these are the bytes, becomes the set's next tensor; there is room for it.
void gradient_set_add(struct gradient_set *set, const struct parameter *parameter, enum dtype dtype,
                      const void *bytes);
// Its hash, of its tensors'.
void gradient_set_hash(struct gradient_set *set);
void gradient_set_free(struct gradient_set *set);
// Of the same model shape; the reference may have tensors that the set has not, which count for nothing. Release
// with gradient_report_free.
void gradient_compare(struct gradient_report *report, const struct gradient_set *set,
                      const struct gradient_set *reference);
void gradient_report_free(struct gradient_report *report);
// The overall relative L2 alone.
double gradient_relative_l2(const struct gradient_set *set, const struct gradient_set *reference);
