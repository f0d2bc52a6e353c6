// Rate probe: one operation, run alone at any shape that steps use, and the shapes at which calibrate times it
// (kernels/device/rates.h). Cards get larger shapes, with the heads and width of an 8 B-parameter model: smaller
// operations would mostly measure launches.
#pragma once
#include "kernels/device/device.h"
#include "kernels/device/rates.h"

#define PROBE_TENSORS 10

// Operands of one run.
struct probe_operands {
    struct device *device;
    struct tensor numbers;              // source of their values
    const struct probe_operands *first; // shared operands, except the late ones; NULL: none are shared
    unsigned late;
    struct tensor t[PROBE_TENSORS];
    struct attention_shape shape;
    struct key_segment segment;
};

struct rate_probe {
    const char *operation;
    size_t dimensions;
    const size_t *axes[RATE_DIMENSIONS], *card_axes[RATE_DIMENSIONS]; // for a CPU and for a card; ending in 0
    void (*open)(struct probe_operands *operands, const size_t *at);
    void (*run)(struct probe_operands *operands);
    unsigned late; // bit mask of tensors that a step accesses late: weights, their gradients, keys and values
};

extern const struct rate_probe rate_probes[]; // ending in a NULL operation
const struct rate_probe *rate_probe_find(const char *operation);

// Random numbers for all operands of a device, as a column.
struct tensor probe_numbers(struct device *device);
// `at`: one extent for each dimension of the probe.
void probe_operands_open(struct probe_operands *operands, struct device *device, struct tensor numbers,
                         const struct rate_probe *probe, const size_t *at, const struct probe_operands *first);
void probe_operands_close(struct probe_operands *operands);
// Approximate FLOPs of a run; 0 for operations that only move data.
double probe_flops(const struct rate_probe *probe, const struct device *device, const size_t *at);
static inline bool probe_on_card(const struct device *device)
{
    return device->bus_id[0] != 0;
}
