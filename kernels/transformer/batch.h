// Batch: token ids and targets of one step on a device, time-major, and the objective that they are to serve.
#pragma once
#include "kernels/base/ops.h"
#include <stdint.h>

#define NO_TARGET (-100)

// Tokens [start, start + count) of every sequence.
struct span {
    size_t start, count;
};

// What objectives divide by: counts over the whole of a step, all its micro-batches.
struct normaliser {
    size_t rows;      // with a target
    size_t sequences; // with a target or without
    double weight;    // sum of the weights of rows with a target; 0: none are given
};

struct objective;
struct batch {
    size_t context, batch;             // tokens of a sequence, sequences
    struct normaliser normaliser;      // of this batch alone; whoever makes one step of several puts their sum here
    struct tensor ids, targets;        // [context * batch, 1] i32; row t * batch + b
    const struct objective *objective; // kernels/transformer/objective.h
    struct tensor weights;             // [context * batch, 1], of the rows, as the objective averages; no tensor: 1
    // By row the first token of its document, on the host and on the device; NULL and no tensor: each sequence is
    // one.
    int32_t *starts;
    struct tensor device_starts; // [context * batch, 1] i32
    uint64_t documents;          // a number that tells these from others, by all starts; 0: none
};

// ids and targets: [batch, context], sequence-major as files hold them. targets NULL: the next token of the
// same sequence; the last position of a sequence has none. ids NULL: nothing is written, for devices without data.
void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch);
// Chooses another objective than the first of objectives[]. weights: [batch, context], for one that averages by
// weight, of which none may be negative; else NULL, and on a device without data.
void batch_set_objective(struct batch *batch, struct device *device, const struct objective *objective,
                         const double *weights);
// Several documents in a sequence: attention sees none but its own, positions begin with each, and its last token
// has no target. documents: [batch, context], a number for each token, which does not fall along a sequence. Before
// the objective is chosen. Also on a device without data: there, too, it says what is seen.
void batch_set_documents(struct batch *batch, struct device *device, const int32_t *documents);
// Where the documents of these tokens begin, as an operation takes it; no tensor: at 0.
struct tensor batch_starts(const struct batch *batch, struct span tokens);
void batch_close(struct batch *batch, struct device *device);
