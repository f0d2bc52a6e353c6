// Segments: the layers cut into runs of layers, bottom up. The forward keeps the inputs of the segments alone; the
// backward runs a segment once more, from its input, for what the method's own walk of it keeps. The first input is
// the embedding, and is looked up again.
#pragma once
#include "kernels/base/status.h"
#include "methods/schedule/options.h"

// Layers [first, end). Below layer 0 is the embedding, above the last the head.
struct segment {
    size_t first, end;
};

// What a method is asked: how many, from 1 to the number of layers, or the first layers of them all. Zeroed: one.
struct segment_options {
    size_t count;
    struct index_list starts;
};

#define OPTION_SEGMENTS(options)                                                                                   \
    {                                                                                                              \
        .name = "segments", .type = OPTION_COUNT, .offset = offsetof(options, segments.count), .minimum = 1,       \
        .maximum = SEGMENTS_MAX, .initial = 1,                                                                     \
        .help = "runs of layers of which the forward keeps the inputs alone, at most one per layer; sized so "     \
                "that least is kept",                                                                              \
        .nth = option_nth_run                                                                                      \
    }
#define OPTION_SEGMENT_STARTS(options)                                                                             \
    {                                                                                                              \
        .name = "segment_starts", .type = OPTION_LIST, .offset = offsetof(options, segments.starts),               \
        .maximum = SEGMENTS_MAX - 1, .help = "the first layer of every segment, from 0, in place of their number"  \
    }
#define SEGMENTS_MAX 4096

// Bytes per token that are kept while a segment is walked back.
struct segment_cost {
    double input;   // of itself and of every segment below, but for the lowest
    double layer;   // of each of its layers
    double top;     // besides, of the highest segment
    double below;   // besides, of any other
    double several; // besides, of one with two layers or more
};

struct segments {
    size_t count;
    struct segment *items;
};

// False and a status: a list that does not begin with 0 or goes on beyond the layers, more segments than layers, or
// both a number and a list.
bool segments_check(const struct segment_options *options, size_t layers, struct status *status);
// Those asked for. Of a number, the sizes that keep least at any moment; among them those that run the fewest
// layers twice, the highest segment as long as may be. Release with stages_free.
struct segments segments_of(const struct segment_options *options, size_t layers, struct segment_cost cost);
// Without the layers below `lowest`, which are not walked back.
void segments_raise(struct segments *segments, size_t lowest);
void segments_free(struct segments *segments);
// The most that is kept at any moment, in bytes per token.
double segments_kept(const struct segments *segments, struct segment_cost cost);
