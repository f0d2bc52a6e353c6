// Rate probe: an operation that is run by itself, at any shape, as steps meet it; and the shapes at which calibrate
// times it (kernels/base/rates.h).
#pragma once
#include "kernels/base/device.h"
#include "kernels/base/rates.h"

#define PROBE_TENSORS 10

// One run's operands.
struct probe_operands {
    struct device *device;
    struct tensor numbers;              // that they are filled with
    const struct probe_operands *first; // whose are taken in place of all that are not late; NULL: all are its own
    unsigned late;
    struct tensor t[PROBE_TENSORS];
    struct attention_shape shape;
    struct key_segment segment;
};

struct rate_probe {
    const char *operation;
    size_t dimensions, sized;            // the first so many are larger on a card
    const size_t *axes[RATE_DIMENSIONS]; // ending in 0
    void (*open)(struct probe_operands *operands, const size_t *at);
    void (*run)(struct probe_operands *operands);
    unsigned late; // bits: the tensors that a step comes back to late: weights, their gradients, keys and values
};

extern const struct rate_probe rate_probes[]; // ending in a NULL operation
const struct rate_probe *rate_probe_find(const char *operation);

// Random numbers for all operands of a device, as a column.
struct tensor probe_numbers(struct device *device);
// `at`: the extents, as many as the probe has dimensions.
void probe_operands_open(struct probe_operands *operands, struct device *device, struct tensor numbers,
                         const struct rate_probe *probe, const size_t *at, const struct probe_operands *first);
void probe_operands_close(struct probe_operands *operands);
// About how many FLOPs a run takes; 0 of what has none.
double probe_flops(const struct rate_probe *probe, const size_t *at);
