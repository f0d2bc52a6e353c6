// Bucket: parameters of a unit, concatenated in one tensor, which replicas sum and gather together and of which
// each owns a share. Parameters start at blocks, and shares are whole blocks, so that groups of optimizer state,
// random bits and quantisation scales are never split. A unit has three buckets: trainable parameters, frozen ones,
// and frozen ones stored as codes, which are gathered as codes. Where ranks share the experts, those of their
// parameters are three more, of the replicas with the same experts: of one replica, none. Wide parameters are in
// none: each rank has them.
//
//     zero   whole on every rank, but                            sent per step, times (P - 1) / P
//     0                                                          2 x gradients
//     1      for shares of the optimizer's state                 gradients; weights, after an update
//     2      and of gradients, unless they are being added to    as before
//     3      and of weights, unless their unit is acquired       gradients; weights, as often as they are acquired
#pragma once
#include "kernels/device/dynamic_map.h"
#include "kernels/model/unit_parameters.h"

#define BUCKET_BLOCK MAP_BLOCK // elements that share a scale

// Loops over each parameter p of a unit.
#define FOR_PARAMETERS(p, model, unit)                                                                             \
    for (struct parameter *p = unit_parameters(model, unit).items,                                                 \
                          *p##_end = p + unit_parameters(model, unit).count;                                       \
         p < p##_end; p++)

enum bucket_kind { BUCKET_CAN_TRAIN, BUCKET_FROZEN, BUCKET_CODES, BUCKET_KINDS };
#define BUCKETS ((size_t)2 * BUCKET_KINDS) // of a unit, those of shared experts last

struct bucket {
    const struct buckets *all;
    enum bucket_kind kind;
    const struct comm *ranks; // the replicas that have it
    size_t blocks;
    struct row_range *owned; // [ranks] their shares of the blocks
    // [blocks, BUCKET_BLOCK], for codes [blocks, words or scales per block], and this rank's share; whichever
    // currently exists. Without either, each parameter has its own tensor.
    struct tensor values[PARAMETER_PARTS], own_values[PARAMETER_PARTS], grads, own_grads;
    // In transit between ranks: values, the whole sum of gradients, and its parts.
    struct delivery values_coming[PARAMETER_PARTS], sum_coming;
    struct row_sum sum;
};

// All buckets of a model.
struct buckets {
    struct model *model;
    struct bucket *items;           // by unit, BUCKETS of each; NULL: no replicas
    enum quantisation quantisation; // of codes
    bool in_backward;               // gradients live from the first addition to their unit's update, when complete
    bool adds_more; // more micro-batches of the same update follow: whole gradients are summed over ranks after the
                    // last
};

// Lays out the buckets of a model's parameters, without tensors; none for a single replica. in_backward and
// quantisation are set. Release with buckets_close.
void buckets_open(struct buckets *buckets, struct model *model);
void buckets_close(struct buckets *buckets);

// Tells whether two replicas' shares consist of pieces of equal lengths in every bucket.
bool buckets_alike(const struct buckets *buckets, size_t replica, size_t other);

// Tells whether the parameter's values or codes are in a bucket: its tensor is a view, or in zero 3, while not
// acquired, none.
bool bucket_has_values(const struct parameter *parameter);
// This rank's share of a parameter, which its optimizer updates: a parameter [n, 1] with these elements and the
// tensors that exist now. n can be 0. The whole parameter if there are no shares.
struct parameter bucket_share(const struct parameter *parameter);

// Allocates the values of the unit's buckets, zeroed; the other frees them.
void bucket_new_values(struct buckets *buckets, size_t unit);
void bucket_free_values(struct buckets *buckets, size_t unit);
// Sets values [first, first + count) of a parameter; zero 3 keeps those in this rank's share.
void bucket_write(const struct parameter *parameter, size_t first, size_t count, const double *values);
// The same for codes and scales; first a multiple of QUANTISATION_WHOLE.
void bucket_write_codes(const struct parameter *parameter, size_t first, size_t count, const uint32_t *codes,
                        const uint32_t *scales);
// Gather the unit's weights in zero 3, and drop them. With overlap of communication and computation (struct ranks)
// they can be prefetched, which allocates their memory.
void bucket_prefetch(struct buckets *buckets, size_t unit);
void bucket_acquire(struct buckets *buckets, size_t unit);
void bucket_release(struct buckets *buckets, size_t unit);
// Gives every rank the updated weights of the unit: with overlap by bucket_settle, otherwise at once.
void bucket_gather(struct buckets *buckets, size_t unit);
// Waits for values in transit and drops prefetched values that were not acquired.
void bucket_settle(struct buckets *buckets, size_t unit);

// Allocate the unit's gradients that are kept between steps, zero them, and free all of them.
void bucket_new_gradients(struct buckets *buckets, size_t unit);
void bucket_zero_gradients(struct buckets *buckets, size_t unit);
void bucket_free_gradients(struct buckets *buckets, size_t unit);
// Allocates whole, zeroed gradients to be added to, if only shares are kept.
void bucket_add(struct buckets *buckets, size_t unit);
// Replaces gradients by their sum over ranks, or the rank's share of it, after each rank has added its part. With
// overlap the sum proceeds asynchronously, one message per bucket_advance_sum, until it is complete.
void bucket_sum(struct buckets *buckets, size_t unit);
bool bucket_is_summing(const struct buckets *buckets, size_t unit);
void bucket_advance_sum(struct buckets *buckets, size_t unit);
// Adds whole gradients to the share that is kept, and frees them.
void bucket_keep_share(struct buckets *buckets, size_t unit);
