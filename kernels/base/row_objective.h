// Row objective: what a row costs, as a function f of l, the log-prob of its target, and its derivative by l; the
// same source on every device. To add one: its name here and its case below.
#pragma once
#include "kernels/base/host_device.h"
#include <math.h>

enum row_objective {
    ROW_LIKELIHOOD, // f = -l
    ROW_DFT         // f = -p l, p = exp(l) held fixed: f' = -p. Wu et al. 2025, arXiv 2508.05629, equation 9
};

struct row_cost {
    double value, slope; // f(l), f'(l)
};

HOST_DEVICE static inline struct row_cost row_cost(enum row_objective objective, double l)
{
    double p = 1;
    switch (objective) {
    case ROW_LIKELIHOOD:
        break;
    case ROW_DFT:
        p = exp(l);
        break;
    }
    struct row_cost cost = {-p * l, -p};
    return cost;
}
