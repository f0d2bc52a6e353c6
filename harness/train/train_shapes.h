// Train shapes: the micro-batches and evaluations of a training run that may differ in memory; its plan runs each.
#pragma once
#include "harness/train/train_data.h"

// Maximum number of planned shapes per run.
#define TRAIN_SHAPES_MAX 64

struct train_shape {
    bool evaluated;       // held-out sequences, without a gradient
    bool adds_more;       // more micro-batches of the same step follow
    size_t first, count;  // sequences, as in train_data_read
    size_t draw;          // the micro-batch's number in the run
    struct layout layout; // of files
};

struct train_shapes {
    struct train_shape *items; // the first one is a micro-batch that ends its step
    size_t count;
    size_t unplanned; // micro-batches and evaluations with other shapes, all with shorter rows
};

// Lists the distinct shapes of a run, in its order; if there are more than TRAIN_SHAPES_MAX, those with the longest
// rows. If the method draws chunks, each micro-batch of files is a shape. data: NULL for windows, which are all
// alike; held_out: the same; evaluated: number of its sequences, 0: none. Release with train_shapes_free.
void train_shapes_list(struct train_shapes *shapes, const struct trial *trial, struct train_data *data,
                       struct train_data *held_out, size_t evaluated);
void train_shapes_free(struct train_shapes *shapes);
