// Published: values reported in papers, read strictly from experiments/published/EXPERIMENT-QUANTITY.csv, to
// compare with our records of that experiment.
#pragma once
#include "methods/method.h"
#include <stdbool.h>
#include <stddef.h>

enum published_quantity {
    PUBLISHED_MEMORY,
    PUBLISHED_TIME,
    PUBLISHED_MAX_CONTEXT,
    PUBLISHED_LOSS,
    PUBLISHED_RESIDENT,
    PUBLISHED_QUANTITIES
};

// The axis of a step's values.
enum published_axis { PUBLISHED_CONTEXT, PUBLISHED_BATCH };

#define PUBLISHED_OPTIONS 4 // per point, besides the chunk

struct published_point {
    char series[64];              // its name in the paper
    char method[32];              // ours; empty: no counterpart
    char model[64], training[32]; // empty: not given; training: "full" or "lora"
    char profile[64];             // of the device; empty: not given
    char weights[16];             // quantisation of frozen weights; empty: none
    char optimizer[16];           // empty: none
    char host[8];                 // "yes": something is offloaded
    char mark[64], setting[160];  // distinguishing property ("sparse"), and how it was obtained; empty: not given
    size_t cards;                 // data-parallel; 0: one
    size_t chunk, context;        // tokens; 0: not given
    size_t batch;                 // sequences; 0: not given
    size_t option_count;
    struct {
        const struct option *option; // of the method: a number, or a choice
        char value[24];              // as on the command line
    } options[PUBLISHED_OPTIONS];
    double rate;  // of an optimizer; 0: not given
    double value; // bytes, ms, tokens or nats
};

struct published_file {
    char *path;
    char experiment[128];
    enum published_quantity quantity;
    enum published_axis axis; // of memory and time
    bool per_sample;          // values are per sequence instead of per step
    char source[128];         // its first line
    size_t count;
    struct published_point *points;
};

struct published {
    size_t count;
    struct published_file *files; // by path
};

// "memory", "time", "max-context", "loss", "resident"
const char *published_quantity_name(enum published_quantity quantity);
// "context", "batch": the column, trial key and record field.
const char *published_axis_name(enum published_axis axis);
// Tells whether it is measured at a context or batch, as memory and time are.
bool published_is_of_a_step(enum published_quantity quantity);

// Reads every .csv of a folder: comments (#), the first of which is the source, a line of column names, then
// points. folder: NULL for experiments/published (see share_resolve). Returns false and a status with file and line
// on any error. Release with published_free, also after a failure.
bool published_load(struct published *published, const char *folder, struct status *status);
void published_free(struct published *published);
// The file of an experiment and quantity; NULL: none.
const struct published_file *published_find(const struct published *published, const char *experiment,
                                            enum published_quantity quantity);
