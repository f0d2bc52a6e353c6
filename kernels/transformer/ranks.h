// Ranks: which part of a model a process has where several share it. As a pipeline: the layers are cut into stages
// of consecutive ones, bottom up; the lowest has the embedding too, the highest the head and the norm before it.
#pragma once
#include "kernels/base/comm.h"
#include "kernels/transformer/config.h"

struct ranks {
    struct comm pipeline;          // the stages, the lowest first
    size_t first_layer, end_layer; // of this one's
};
// One rank with all of the model.
struct ranks ranks_alone(const struct config *config);
// The part of a rank of `pipeline`, which has at most as many ranks as there are layers. The stages' work on a
// context, of all tokens, is as even as whole layers allow: the highest has fewer layers, for it has the head.
struct ranks ranks_in_pipeline(const struct comm *pipeline, const struct config *config, size_t context);

static inline bool ranks_lowest(const struct ranks *ranks)
{
    return ranks->pipeline.rank == 0;
}
static inline bool ranks_highest(const struct ranks *ranks)
{
    return ranks->pipeline.rank + 1 == ranks->pipeline.size;
}
