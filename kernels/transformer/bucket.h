// Bucket: parameters of a unit one after another in one tensor, which replicas sum and gather as one, and of which
// each has a share. Each parameter begins with a block, and shares are of whole blocks, so that what optimizers
// keep and round together, and what shares a scale of codes, is not cut. A unit has three: of what can train, of
// what is frozen, and of what is frozen and kept as codes, which are gathered as such.
//
//     zero   whole on every rank, but                            sent per step, times (P - 1) / P
//     0                                                          2 x gradients
//     1      for shares of the optimizer's state                 gradients; weights, after an update
//     2      and of gradients, unless they are being added to    as before
//     3      and of weights, unless their unit is acquired       gradients; weights, as often as they are acquired
#pragma once
#include "kernels/base/dynamic_map.h"
#include "kernels/transformer/model.h"

#define BUCKET_BLOCK MAP_BLOCK // elements: those that share a scale are one rank's

struct bucket {
    size_t blocks;
    struct row_range *owned; // [replicas] their shares of the blocks
    // [blocks, BUCKET_BLOCK], of codes [blocks, words or scales of a block], and this rank's share; of either that
    // which there is now. Neither of values: each parameter has its own.
    struct tensor values[PARAMETER_PARTS], own_values[PARAMETER_PARTS], grads, own_grads;
    // What is on its way between the ranks: values; parts of the gradients' sum; and all of it.
    struct delivery values_coming[PARAMETER_PARTS], sum_coming;
    struct row_sum sum;
};

// Of a model that has its ranks, the buckets that its parameters are in, without tensors; where there is one
// replica none.
void buckets_open(struct model *model);
void buckets_close(struct model *model);

// Whether the shares of two replicas consist of pieces of the same lengths, in every bucket.
bool buckets_alike(const struct model *model, size_t replica, size_t other);

// Whether the parameter's values, or the codes of them, are in a bucket: its value, or what is kept of it, is a
// view, or in zero 3, while it is not acquired, none.
bool bucket_has_values(const struct model *model, const struct parameter *parameter);
// What this rank's optimizer moves of a parameter, and in zero 3 has of its values: a parameter of these elements
// alone, [n, 1], with the tensors that there are of them now. n can be 0. All of it where there are no shares.
struct parameter bucket_share(const struct model *model, const struct parameter *parameter);

// Memory for the values of the unit's buckets, zero; its end; and values [first, first + count) of a parameter's,
// of which zero 3 keeps those in this rank's share.
void bucket_new_values(struct model *model, size_t unit);
void bucket_free_values(struct model *model, size_t unit);
void bucket_write(struct model *model, const struct parameter *parameter, size_t first, size_t count,
                  const double *values);
// The same of codes and scales; first a multiple of QUANTISATION_BLOCK.
void bucket_write_codes(struct model *model, const struct parameter *parameter, size_t first, size_t count,
                        const uint32_t *codes, const float *scales);
// In zero 3 the unit's weights are gathered, and dropped. Where ranks overlap what they send with what they compute
// (struct ranks) they can be prefetched: they are on their way from then on, and take their memory.
void bucket_prefetch(struct model *model, size_t unit);
void bucket_acquire(struct model *model, size_t unit);
void bucket_release(struct model *model, size_t unit);
// Every rank gets all that an update has changed of the unit's weights: by bucket_settle, with overlap, or at once.
void bucket_gather(struct model *model, size_t unit);
// What is on its way is there; what was prefetched, and not acquired, is dropped.
void bucket_settle(struct model *model, size_t unit);

// Of the unit's gradients that which is kept between steps, not set; it becomes 0; all of them are freed.
void bucket_new_gradients(struct model *model, size_t unit);
void bucket_zero_gradients(struct model *model, size_t unit);
void bucket_free_gradients(struct model *model, size_t unit);
// Where the whole is not kept, it is there from here on, 0, to be added to.
void bucket_add(struct model *model, size_t unit);
// Each rank has added all that it adds: their sum in place of it, or of it in the rank's share alone. Where walks
// of the same update follow and the whole is kept, the last one's is that of all. With overlap the sum is then
// under way, and complete when it has come on, a message at a time, until it is not any more.
void bucket_sum(struct model *model, size_t unit);
bool bucket_is_summing(const struct model *model, size_t unit);
void bucket_advance_sum(struct model *model, size_t unit);
// The whole is added to the share that is kept, and freed.
void bucket_keep_share(struct model *model, size_t unit);
