// Gradient error: the distance of gradients from a reference, per tensor and overall. Gradients are held on the
// host in f64, so that different dtypes and devices compare alike.
#pragma once
#include "kernels/model/model.h"

struct gradient_tensor {
    char name[112];
    size_t size;
    double *values; // [size]
    uint64_t hash;  // XXH3 of its bytes in the device's dtype
};

// The gradients of all trainable parameters, in the model's order.
struct gradient_set {
    uint64_t hash; // XXH3 of "NAME HASH\n" for each tensor, with 16 hexadecimal digits
    size_t count;
    struct gradient_tensor *tensors;
};

// g: the gradient, r: the reference, all sums in f64.
struct gradient_error {
    // ||g - r|| / ||r||. If the reference is 0 except for f64 rounding (||r|| <= 1e-12 share_l2), as for the
    // queries of a softmax over one token: ||g - r|| / share_l2.
    double relative_l2;
    double l2;           // ||g - r||
    double reference_l2; // ||r||
    // For a tensor of n of the gradient's N elements: sqrt(n / N) of the whole gradient's norm, or of 1 if that is
    // 0. For the whole gradient: 1, the size of a mean loss's gradient by the logits.
    double share_l2;
    double max_abs;       // max |g - r|
    double cosine;        // g . r / (||g|| ||r||); 1 if both are 0, 0 if only one is
    double decimals;      // -log10(max_abs), infinite if they are equal (the SeCO paper's measure)
    double mean_abs;      // mean |g - r|
    double mean_relative; // mean |g - r| / |r| over the elements with r != 0
};

// Tells whether the reference is 0 except for rounding; and the norm that relative_l2 is relative to.
bool gradient_vanishes(const struct gradient_error *error);
double gradient_scale(const struct gradient_error *error);

struct tensor_error {
    char name[112];
    uint64_t hash; // of the gradient
    struct gradient_error error;
};

struct gradient_report {
    struct gradient_error overall;
    uint64_t hash; // of the gradient
    size_t count;
    struct tensor_error *tensors; // [count]
    size_t worst;                 // index of the largest relative_l2; NaN counts as largest
};

// Copies the model's gradients. Release with gradient_set_free.
void gradient_set_take(struct gradient_set *set, const struct model *model);
// Adds a parameter's gradient with these bytes as the next tensor; the set must have room.
void gradient_set_add(struct gradient_set *set, const struct parameter *parameter, enum dtype dtype,
                      const void *bytes);
// Sets the set's hash from its tensors'.
void gradient_set_hash(struct gradient_set *set);
void gradient_set_free(struct gradient_set *set);
// Both must have the same model shape; extra tensors of the reference are ignored. Release with
// gradient_report_free.
void gradient_compare(struct gradient_report *report, const struct gradient_set *set,
                      const struct gradient_set *reference);
void gradient_report_free(struct gradient_report *report);
// The overall relative L2.
double gradient_relative_l2(const struct gradient_set *set, const struct gradient_set *reference);
