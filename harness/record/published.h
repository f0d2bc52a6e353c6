// Published: what papers report, read strictly from experiments/published/EXPERIMENT-QUANTITY.csv, to be set beside
// our records of that experiment.
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

// What the values of a step run along.
enum published_axis { PUBLISHED_CONTEXT, PUBLISHED_BATCH };

#define PUBLISHED_OPTIONS 4 // of a point, besides the chunk

struct published_point {
    char series[64];              // the paper's name of it
    char method[32];              // ours; empty: no counterpart
    char model[64], training[32]; // empty: not given; training: "full" or "lora"
    char profile[64];             // of the device; empty: not given
    char weights[16];             // what frozen weights are quantised to; empty: they are not
    char optimizer[16];           // empty: none
    char host[8];                 // "yes": something is kept on the host
    char mark[64], setting[160];  // what sets it apart ("sparse"), and how it was come by; empty: not given
    size_t cards;                 // that have some of the sequences each; 0: one
    size_t chunk, context;        // tokens; 0: not given
    size_t batch;                 // sequences; 0: not given
    size_t option_count;
    struct {
        const struct option *option; // of the method: a number, or one of its choices
        char value[24];              // as the command line writes it
    } options[PUBLISHED_OPTIONS];
    double rate;  // of an optimizer; 0: not given
    double value; // bytes, ms, tokens or nats
};

struct published_file {
    char *path;
    char experiment[128];
    enum published_quantity quantity;
    enum published_axis axis; // of memory and time
    bool per_sample;          // values are of a sequence, not of a step
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
// "context", "batch": the column, the key of a trial, and the field of a record.
const char *published_axis_name(enum published_axis axis);
// Whether it is of one step at a context or batch, as memory and time are.
bool published_is_of_a_step(enum published_quantity quantity);

// Reads every .csv of a folder: comments (#), of which the first line is the source, a line of column names, then
// points. folder: NULL for experiments/published as share_resolve finds it. False and a status that names file and
// line if anything is not as it should be. Release with published_free, also after a failure.
bool published_load(struct published *published, const char *folder, struct status *status);
void published_free(struct published *published);
// The file of an experiment and quantity; NULL: there is none.
const struct published_file *published_find(const struct published *published, const char *experiment,
                                            enum published_quantity quantity);
