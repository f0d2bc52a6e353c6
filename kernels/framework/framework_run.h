// Framework run: a training step of another framework on a device without data: its weights, and what its autograd
// allocates and frees in a step, in the engine's order.
#pragma once
#include "kernels/framework/autocast.h"
#include "kernels/framework/framework.h"
#include "kernels/framework/tape.h"
#include "kernels/framework/torch_pool.h"
#include "kernels/model/model.h"

#define FRAMEWORK_STATES 4 // at most

struct framework_run {
    struct tape tape;
    struct torch_pool pool; // of all that the tape makes
    const struct model *model;
    struct framework framework;
    enum framework_walk walk;
    struct autocast autocast;
    enum dtype dtype; // of the model's weights
    size_t context, batch;
    bool has_optimizer;
    struct value *weights; // [model->parameter_count]; a weight that trains has a node
    struct value *state;   // FRAMEWORK_STATES for each
    struct value codes[3]; // tables of the values of 8-bit scales, and of 8-bit states; no value: there are none
    struct value ids, labels, padding, frequencies[2 * CONFIG_KINDS], library[2];
    struct value embedding_scale; // Gemma's tensor that embeddings are multiplied by; no value: none
    // Tables of the forward pass that runs, by kinds of layers, which its checkpoints read; no value: it has none.
    struct framework_tables {
        struct value cos, sin, mask;
    } tables[CONFIG_KINDS];
    struct value bucket, gathered; // of cards that share the step: of gradients, and a unit's whole weights
    struct value positions;
    struct value input; // a leaf, which its node keeps, if checkpoints ask for a frozen embedding's gradient
};

struct framework_run_options {
    struct framework framework; // resolved and checked
    enum framework_walk walk;
    size_t context, batch;
    bool has_optimizer;
};

// Allocates what a step finds: weights, gradients that are held, the optimizer's state, tokens and the libraries'
// workspaces. The model lists parameters on the device. Out of memory is in device->status. Release with
// framework_run_close, also after a failure.
void framework_run_open(struct framework_run *run, const struct model *model,
                        const struct framework_run_options *options);
// One step: forward, backward, and the optimizer's update if it has one.
void framework_run_step(struct framework_run *run);
// The largest tensors that a step has made and still has at its peak, of which tape.peak_moment and peak_operation
// tell the place; from the largest on, at most TAPE_FOUND. Takes two steps. Returns their number.
size_t framework_run_largest(struct framework_run *run, const struct storage **largest);
// Bytes that PyTorch's allocator reserves for the steps so far: in the segments that its rules give, to 1.3 times
// the peak, or more. Reserved over allocated bytes of published runs: 1.10 and 1.14 (NeMo-RL, pull request
// 926), 1.11 and 1.23 (fms-acceleration, pull request 14).
struct framework_reserved {
    size_t low_bytes, high_bytes;
};
struct framework_reserved framework_run_reserved(const struct framework_run *run);
// The verdict on a limit: "fits" if the high end does, "does not fit" if the peak alone does not, else "may fit".
const char *framework_verdict(size_t peak_bytes, struct framework_reserved reserved, size_t limit_bytes);
void framework_run_close(struct framework_run *run);
