// Ranks: which part of a step a process has where several share it. As a pipeline: the layers are cut into stages
// of consecutive ones, bottom up; the lowest has the embedding too, the highest the head and the norm before it. As
// replicas: each takes some of the sequences through the same layers, or some of the tokens of the same sequences,
// and their gradients are summed.
#pragma once
#include "kernels/comm/comm.h"
#include "kernels/model/config.h"

// What replicas have a share of each, instead of all of it; with each also what is named before it (Rajbhandari et
// al. 2020, arXiv 1910.02054).
enum zero { ZERO_NOTHING, ZERO_OPTIMIZER, ZERO_GRADIENTS, ZERO_WEIGHTS };

// How ranks with tokens of the same sequences attend to each other's: each has keys and values of all, or they go
// round, or each attends for some of the heads over all tokens.
enum exchange { EXCHANGE_GATHER, EXCHANGE_RING, EXCHANGE_ALL_TO_ALL, EXCHANGE_COUNT };

// Who adds the gradients of replicas: their devices, in the ranks' order, so that the number of ranks alone fixes
// the bits; or what carries the bytes, by its own all-reduce and reduce-scatter, in an order of its own.
enum sum { SUM_ORDERED, SUM_ENGINE };

// Ranks in all: sequence * data * stages. Rank q + sequence * (r + data * s) has of stage s the q-th share of the
// tokens of the r-th share of the sequences: the more two ranks send each other, the nearer they are.
struct split {
    size_t data, sequence, stages;
    enum zero zero;
    enum exchange exchange;
    enum sum sum;
    bool overlap;
    size_t node; // replicas that are nearer to each other, one after another; 1: nobody is
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
    enum exchange exchange;
    enum zero zero;
    enum sum sum; // over replicas
    // What replicas send each other goes while they compute: in zero 3 weights that are read next, a unit's
    // gradients beside the next one's, after an update a unit's weights beside the next one's. It takes memory: of
    // a row's weights a second one, of its gradients those of the row before and the others' parts of this rank's
    // share.
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
