// Ranks: each process's part of a step that several share. A pipeline cuts the layers into stages of consecutive
// ones, bottom up; the lowest also has the embedding, the highest the head and the norm before it. Replicas run
// the same layers over different sequences, or different tokens of the same sequences, and sum their gradients.
#pragma once
#include "kernels/comm/comm.h"
#include "kernels/model/config.h"

// Tensors that replicas shard: each level also shards those named before it (Rajbhandari et al. 2020, arXiv
// 1910.02054).
enum zero { ZERO_NOTHING, ZERO_OPTIMIZER, ZERO_GRADIENTS, ZERO_WEIGHTS };

// Attention over ranks with tokens of the same sequences: each gathers all keys and values, or they pass in a
// ring, or each rank attends for some of the heads over all tokens.
enum exchange { EXCHANGE_GATHER, EXCHANGE_RING, EXCHANGE_ALL_TO_ALL, EXCHANGE_COUNT };

// Sum of the replicas' gradients: by their devices, in the ranks' order, so that the number of ranks alone fixes
// the bits; or by the transport's all-reduce and reduce-scatter, in its own order.
enum sum { SUM_ORDERED, SUM_ENGINE };

// Expert ranks are `experts` consecutive replicas, each with as many experts of every layer, in order, and its own
// tokens.
//
// Ranks in all: sequence * data * stages. Rank q + sequence * (r + data * s) has stage s, the r-th share of the
// sequences and the q-th share of their tokens: ranks that communicate more have closer numbers.
struct split {
    size_t data, sequence, stages;
    enum zero zero;
    enum exchange exchange;
    enum sum sum;
    bool overlap;
    size_t node;    // consecutive replicas with a faster link between them; 1: none
    size_t experts; // consecutive replicas that share the experts; 0, 1: each has all
};
// The share of the sequences that a rank of all has.
static inline size_t split_data(struct split split, size_t rank)
{
    return rank / split.sequence % split.data;
}

struct ranks {
    struct comm pipeline;          // the stages, the lowest first
    size_t first_layer, end_layer; // of this one's
    struct comm replicas;          // those with the same layers, and the nodes that they are in
    struct comm sequence;          // those of them with the same sequences
    struct comm experts;           // those of them that share the experts with this one
    struct comm copies;            // those of them with the same experts
    enum exchange exchange;
    enum zero zero;
    enum sum sum; // over replicas
    // Replicas communicate while they compute: in zero 3 the next unit's weights, a unit's gradients during the
    // next unit's backward, after an update a unit's weights during the next unit's. It takes memory: a second
    // layer's weights, and the previous layer's gradients with the other ranks' parts of this rank's share.
    bool overlap;
};
// One rank with all of the model.
struct ranks ranks_alone(const struct config *config);
// The part of a rank of `all`, which are as many as the split says; there are at most as many stages as layers. The
// stages' work on a context, of all tokens, is as even as whole layers allow: the highest has fewer layers, for it
// has the head.
struct ranks ranks_of(const struct comm *all, struct split split, const struct config *config, size_t context);

static inline bool ranks_lowest(const struct ranks *ranks)
{
    return ranks->pipeline.rank == 0;
}
static inline bool ranks_highest(const struct ranks *ranks)
{
    return ranks->pipeline.rank + 1 == ranks->pipeline.size;
}
