// Train shapes: the micro-batches and evaluations of a training run of which each may take another memory than the
// others: what its plan walks.
#pragma once
#include "harness/train/train_data.h"

// The most shapes of a run that are planned.
#define TRAIN_SHAPES_MAX 64

struct train_shape {
    bool evaluated;       // sequences that are held out, without a gradient
    bool adds_more;       // micro-batches of the same step follow
    size_t first, count;  // sequences, as train_data_read takes them
    size_t draw;          // the micro-batch's number in the run
    struct layout layout; // of files
};

struct train_shapes {
    struct train_shape *items; // the first one is a micro-batch that ends its step
    size_t count;
    size_t unplanned; // micro-batches and evaluations of none of these shapes, all of which have shorter rows
};

// Lists the distinct shapes of all that a run takes, in its order; of more than TRAIN_SHAPES_MAX those with the
// longest rows. Where the method draws chunks, each micro-batch of files is a shape. data: NULL, where sequences
// are windows and all alike. held_out: NULL, likewise; evaluated: the number of its sequences, 0: nothing is
// evaluated. Release with train_shapes_free.
void train_shapes_list(struct train_shapes *shapes, const struct trial *trial, struct train_data *data,
                       struct train_data *held_out, size_t evaluated);
void train_shapes_free(struct train_shapes *shapes);
