// Segments: the layers divided into ranges, bottom up. The forward keeps only the segments' inputs; the backward
// runs a segment forward again from its input, keeping what the method's own backward of it needs. The first input
// is the embedding, which is looked up again.
#pragma once
#include "kernels/base/status.h"
#include "methods/schedule/options.h"

// Layers [first, end). Below layer 0 is the embedding, above the last the head.
struct segment {
    size_t first, end;
};

// The option: a number from 1 to the number of layers, or the first layers of all segments. Zeroed: one.
struct segment_options {
    size_t count;
    struct index_list starts;
};

#define OPTION_SEGMENTS(options)                                                                                   \
    {                                                                                                              \
        .name = "segments", .type = OPTION_COUNT, .offset = offsetof(options, segments.count), .minimum = 1,       \
        .maximum = SEGMENTS_MAX, .initial = 1,                                                                     \
        .help = "number of segments, ranges of layers of which the forward keeps only the input; sized to "        \
                "minimise the memory kept",                                                                        \
        .nth = option_nth_run                                                                                      \
    }
#define OPTION_SEGMENT_STARTS(options)                                                                             \
    {                                                                                                              \
        .name = "segment_starts", .type = OPTION_LIST, .offset = offsetof(options, segments.starts),               \
        .maximum = SEGMENTS_MAX - 1, .help = "first layer of every segment, from 0, instead of their number"       \
    }
#define SEGMENTS_MAX 4096

// Bytes per token kept during a segment's backward.
struct segment_cost {
    double input;   // for itself and every segment below, except the lowest
    double layer;   // for each of its layers, on average
    double top;     // extra for the highest segment
    double below;   // extra for any other
    double several; // extra for one with two layers or more
};

struct segments {
    size_t count;
    struct segment *items;
};

// Returns false and a status for a list that does not begin with 0 or exceeds the layers, more segments than
// layers, or both a number and a list.
bool segments_check(const struct segment_options *options, size_t layers, struct status *status);
// The requested segments. A number is divided to minimise the maximum kept, then the layers run twice, with the
// longest possible highest segment. Release with segments_free.
struct segments segments_of(const struct segment_options *options, size_t layers, struct segment_cost cost);
// Removes the layers below `lowest`, which have no backward.
void segments_raise(struct segments *segments, size_t lowest);
void segments_free(struct segments *segments);
// The maximum kept at any moment, in bytes per token. layers: by layer; NULL: cost.layer for each.
double segments_kept(const struct segments *segments, struct segment_cost cost, const double *layers);
