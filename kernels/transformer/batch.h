// Batch: token ids and targets of one step on a device, time-major.
#pragma once
#include "kernels/base/ops.h"
#include <stdint.h>

#define NO_TARGET (-100)

// Tokens [start, start + count) of every sequence.
struct span {
    size_t start, count;
};

struct batch {
    size_t context, batch;      // tokens of a sequence, sequences
    size_t target_count;        // rows with a target, over the whole batch
    struct tensor ids, targets; // [context * batch, 1] i32; row t * batch + b
};

// ids and targets: [batch, context], sequence-major as files hold them. targets NULL: the next token of the
// same sequence; the last position of a sequence has none. ids NULL: nothing is written, for devices without data.
void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch);
void batch_close(struct batch *batch, struct device *device);
