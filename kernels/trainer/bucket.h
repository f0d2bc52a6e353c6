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
#include "kernels/device/dynamic_map.h"
#include "kernels/model/unit_parameters.h"

#define BUCKET_BLOCK MAP_BLOCK // elements: those that share a scale are one rank's

// For each parameter p of a unit.
#define FOR_PARAMETERS(p, model, unit)                                                                             \
    for (struct parameter *p = unit_parameters(model, unit).items,                                                 \
                          *p##_end = p + unit_parameters(model, unit).count;                                       \
         p < p##_end; p++)

enum bucket_kind { BUCKET_CAN_TRAIN, BUCKET_FROZEN, BUCKET_CODES, BUCKET_KINDS };

struct bucket {
    const struct buckets *all;
    enum bucket_kind kind;
    size_t blocks;
    struct row_range *owned; // [replicas] their shares of the blocks
    // [blocks, BUCKET_BLOCK], of codes [blocks, words or scales of a block], and this rank's share; of either that
    // which there is now. Neither of values: each parameter has its own.
    struct tensor values[PARAMETER_PARTS], own_values[PARAMETER_PARTS], grads, own_grads;
    // On their way between the ranks: values, all of the gradients' sum, and its parts.
    struct delivery values_coming[PARAMETER_PARTS], sum_coming;
    struct row_sum sum;
};

// All of a model's.
struct buckets {
    struct model *model;
    struct bucket *items;           // by unit, one of each kind; NULL: there are no replicas
    enum quantisation quantisation; // of codes
    bool in_backward;               // a unit's gradients live from the first sum to its update, when it is complete
    bool adds_more; // walks of the same update follow: what is kept whole is summed over ranks after the last
};

// Finds the buckets of a model's parameters, without tensors; where there is one replica none. in_walk and
// quantisation are set. Release with buckets_close.
void buckets_open(struct buckets *buckets, struct model *model);
void buckets_close(struct buckets *buckets);

// Whether the shares of two replicas consist of pieces of the same lengths, in every bucket.
bool buckets_alike(const struct buckets *buckets, size_t replica, size_t other);

// Whether the parameter's values, or the codes of them, are in a bucket: its value, or what is kept of it, is a
// view, or in zero 3, while it is not acquired, none.
bool bucket_has_values(const struct parameter *parameter);
// This rank's share of a parameter, which its optimizer moves: a parameter of these elements alone, [n, 1], with
// the tensors that there are of them now. n can be 0. The whole parameter where there are no shares.
struct parameter bucket_share(const struct parameter *parameter);

// Allocates the values of the unit's buckets, zero; and frees them.
void bucket_new_values(struct buckets *buckets, size_t unit);
void bucket_free_values(struct buckets *buckets, size_t unit);
// Sets values [first, first + count) of a parameter's, of which zero 3 keeps those in this rank's share.
void bucket_write(const struct parameter *parameter, size_t first, size_t count, const double *values);
// The same of codes and scales; first a multiple of QUANTISATION_BLOCK.
void bucket_write_codes(const struct parameter *parameter, size_t first, size_t count, const uint32_t *codes,
                        const float *scales);
// Gather the unit's weights in zero 3, and drop them. Ranks that overlap what they send with what they compute
// (struct ranks) can prefetch them: they are on their way from then on, and take their memory.
void bucket_prefetch(struct buckets *buckets, size_t unit);
void bucket_acquire(struct buckets *buckets, size_t unit);
void bucket_release(struct buckets *buckets, size_t unit);
// Every rank gets all that an update has changed of the unit's weights: by bucket_settle, with overlap, or at once.
void bucket_gather(struct buckets *buckets, size_t unit);
// Waits for values that are on their way, and drops those that were prefetched and not acquired.
void bucket_settle(struct buckets *buckets, size_t unit);

// Allocate the unit's gradients that are kept between steps, zero them, and free all of them.
void bucket_new_gradients(struct buckets *buckets, size_t unit);
void bucket_zero_gradients(struct buckets *buckets, size_t unit);
void bucket_free_gradients(struct buckets *buckets, size_t unit);
// Allocates whole gradients, zero, to be added to, where shares alone are kept.
void bucket_add(struct buckets *buckets, size_t unit);
// Each rank has added all that it adds: their sum in place of it, or of it in the rank's share alone. With overlap
// the sum is then under way, and complete when it has come on, a message at a time, until it is not any more.
void bucket_sum(struct buckets *buckets, size_t unit);
bool bucket_is_summing(const struct buckets *buckets, size_t unit);
void bucket_advance_sum(struct buckets *buckets, size_t unit);
// The whole is added to the share that is kept, and freed.
void bucket_keep_share(struct buckets *buckets, size_t unit);
