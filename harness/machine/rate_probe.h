// Rate probe: an operation that is run by itself, at any shape, as steps meet it; and the shapes at which calibrate
// times it (kernels/device/rates.h). On a card these are larger, and operations have the heads and the width of a
// model of 8 B parameters: of smaller ones most of the time would be launches.
#pragma once
#include "kernels/device/device.h"
#include "kernels/device/rates.h"

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
    size_t dimensions;
    const size_t *axes[RATE_DIMENSIONS], *card_axes[RATE_DIMENSIONS]; // of a CPU and of a card; ending in 0
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
double probe_flops(const struct rate_probe *probe, const struct device *device, const size_t *at);
static inline bool probe_on_card(const struct device *device)
{
    return device->bus_id[0] != 0;
}
