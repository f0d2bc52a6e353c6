// Observer: is notified of a device's work as nested ranges: the step, its cells, each operation, an operation's
// parts. The fronts (kernels/device/ops.h) notify it, also on devices without data.
#pragma once
#include "kernels/device/device.h"

// Categories of time, in the order of tables and pictures.
enum work {
    WORK_GEMM,
    WORK_ATTENTION_FORWARD,
    WORK_ATTENTION_BACKWARD,
    WORK_ATTENTION_GLUE, // converts attention's operands to a library's layout and its results back
    WORK_CONV,
    WORK_DELTA_FORWARD,
    WORK_DELTA_BACKWARD,
    WORK_NORM,
    WORK_ROPE,
    WORK_SWIGLU,
    WORK_ROUTING, // of a mixture of experts: choices, and rows in their order and back
    WORK_BIAS,
    WORK_EMBEDDING,
    WORK_HEAD, // all of it: norm, GEMM, cross-entropy
    WORK_COPY, // copies, zeros, scalings and what is dequantised
    WORK_OPTIMIZER,
    WORK_IDLE, // none of these: the device waits for the host
    WORK_COUNT
};
// "attention backward"
const char *work_name(enum work work);

enum range_level {
    RANGE_STEP,      // named after its method
    RANGE_TIMED,     // from the timer's start to its stop, which are marked when it is pushed and popped
    RANGE_CELL,      // a cell's forward or backward, or a part of it
    RANGE_HEAD,      // over the tokens of a chunk
    RANGE_OPERATION, // pushed when it is counted, before it is issued
    RANGE_PART       // of an operation, where a device runs it as several
};

struct range {
    enum range_level level;
    const char *name;
    size_t layer, start; // of a cell; of the head the start alone: its first token
    enum work work;      // of an operation or a part
    size_t m, n, k;      // of a GEMM
    bool transpose_a, transpose_b;
    size_t queries, keys, head_dim; // of attention
};

struct observer {
    void (*push)(struct observer *observer, struct device *device, const struct range *range);
    void (*pop)(struct observer *observer, struct device *device); // the range pushed last
    struct observer *next;
};

// Call between ranges. The observer is the caller's and must be detached before the device is closed.
void observer_attach(struct observer *observer, struct device *device);
void observer_detach(struct observer *observer, struct device *device);

void observers_push(struct device *device, const struct range *range);
void observers_pop(struct device *device);

static inline void range_push(struct device *device, struct range range)
{
    if (device->observers)
        observers_push(device, &range);
}

static inline void range_pop(struct device *device)
{
    if (device->observers)
        observers_pop(device);
}
