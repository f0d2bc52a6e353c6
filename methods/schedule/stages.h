// Stages: the layers cut into runs of rows, bottom up. The forward keeps the inputs of the stages alone; the
// backward runs a stage once more, from its input, for what the method's own walk of it keeps. The first input is
// the embedding, and is looked up again.
#pragma once
#include "kernels/base/status.h"
#include "methods/schedule/options.h"

// Rows [first, end). Below row 0 is the embedding, above the last the head.
struct stage {
    size_t first, end;
};

// What a method is asked: how many, from 1 to the number of layers, or the first rows of them all. Zeroed: one.
struct stage_options {
    size_t count;
    struct index_list rows;
};

#define OPTION_STAGES(options)                                                                                     \
    {                                                                                                              \
        .name = "stages", .type = OPTION_COUNT, .offset = offsetof(options, stages.count), .minimum = 1,           \
        .maximum = STAGES_MAX, .initial = 1,                                                                       \
        .help = "runs of layers of which the forward keeps the inputs alone, at most one per layer; sized so "     \
                "that least is kept",                                                                              \
        .nth = option_nth_run                                                                                      \
    }
#define OPTION_STAGE_ROWS(options)                                                                                 \
    {                                                                                                              \
        .name = "stage_rows", .type = OPTION_LIST, .offset = offsetof(options, stages.rows),                       \
        .maximum = STAGES_MAX - 1, .help = "the first layer of every stage, from 0, in place of their number"      \
    }
#define STAGES_MAX 4096

// Bytes per token that are kept while a stage is walked back.
struct stage_cost {
    double input;   // of itself and of every stage below, but for the lowest
    double row;     // of each of its rows
    double top;     // besides, of the highest stage
    double below;   // besides, of any other
    double several; // besides, of one with two rows or more
};

struct stages {
    size_t count;
    struct stage *items;
};

// False and a status: a list that does not begin with 0 or goes on beyond the layers, more stages than layers, or
// both a number and a list.
bool stages_check(const struct stage_options *options, size_t layers, struct status *status);
// Those asked for. Of a number, the sizes that keep least at any moment; among them those that run the fewest rows
// twice, the highest stage as long as may be. Release with stages_free.
struct stages stages_of(const struct stage_options *options, size_t layers, struct stage_cost cost);
// Without the rows below `lowest`, which are not walked back.
void stages_raise(struct stages *stages, size_t lowest);
void stages_free(struct stages *stages);
// The most that is kept at any moment, in bytes per token.
double stages_kept(const struct stages *stages, struct stage_cost cost);
