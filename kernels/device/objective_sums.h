// Objective sums: a step's loss and the metrics by which training with an objective is monitored, in a tensor
// [OBJECTIVE_SUMS, 1] f64, or [1, 1] for the loss alone. Operations add to the elements it has.
#pragma once
#include "kernels/base/host_device.h"
#include <stddef.h>

// Means over the step's pairs, or over its rows with a target.
enum objective_metric {
    METRIC_MARGIN,    // beta (S - S') of a pair, S as in sequence_objective.h
    METRIC_ACCURACY,  // whether the margin is above 0
    METRIC_CLIP_LOW,  // whether the ratio of a row or its sequence is below its bound
    METRIC_CLIP_HIGH, // above it
    METRIC_KL,        // the estimate of the divergence from the reference
    METRIC_ENTROPY,   // of the row's distribution over the vocabulary
    METRIC_Z_LOSS,    // the square of its logsumexp
    // Losses of the model's routers (kernels/model/router_losses.h), without coefficients; no operation adds to
    // them.
    METRIC_AUX_LOSS,
    METRIC_ROUTER_Z_LOSS,
    OBJECTIVE_METRICS
};

#define OBJECTIVE_SUMS (1 + (size_t)OBJECTIVE_METRICS)

// In the tensor's order.
struct objective_sums {
    double loss, metrics[OBJECTIVE_METRICS];
};

// to: the tensor's elements, [1] or [OBJECTIVE_SUMS], or this struct. The loop's constant bounds keep a card's sums
// in registers.
HOST_DEVICE static inline void objective_sums_add(void *to, size_t count, const struct objective_sums *sums,
                                                  double weight)
{
    double *values = (double *)to;
    values[0] += weight * sums->loss;
    for (size_t i = 0; i < OBJECTIVE_METRICS; i++)
        if (count > 1)
            values[1 + i] += weight * sums->metrics[i];
}
