#include "kernels/trainer/bucket.h"
#include <string.h>

#define UNIT_PARAMETERS 64 // at most

static struct bucket *buckets_of(const struct buckets *buckets, size_t unit)
{
    return buckets->items + BUCKETS * unit;
}

static const struct comm *replicas(const struct model *model)
{
    return &model->ranks.replicas;
}

static struct row_range own_of(const struct bucket *bucket)
{
    return bucket->owned[bucket->ranks->rank];
}

static size_t blocks_of(const struct parameter *p)
{
    return (tensor_count(p->value) + BUCKET_BLOCK - 1) / BUCKET_BLOCK;
}

static bool shares_weights(const struct model *model)
{
    return model->ranks.zero == ZERO_WEIGHTS;
}

// Buckets whose gradients are kept between steps.
static bool shares_gradients(const struct buckets *buckets)
{
    return buckets->model->ranks.zero >= ZERO_GRADIENTS && !buckets->in_backward;
}

// Tells whether values are in the bucket: because an update of shares must be gathered to every rank, or because
// shares are stored.
static bool has_values(const struct bucket *bucket)
{
    const struct model *model = bucket->all->model;
    return shares_weights(model) || (model->ranks.zero != ZERO_NOTHING && bucket->kind == BUCKET_CAN_TRAIN);
}

bool bucket_has_values(const struct parameter *p)
{
    return p->bucket && has_values(p->bucket);
}

// ---- views

// Elements of a bucket's tensor from a block on; no tensor stays none.
static struct tensor view(struct tensor blocks, size_t block, size_t rows, size_t cols)
{
    struct tensor t = tensor_rows(blocks, block, 0);
    t.rows = rows;
    t.cols = cols;
    return t;
}

// Sets a parameter's codes and scales.
static void set_codes(struct parameter *p)
{
    const struct tensor *parts = p->bucket->values;
    size_t count = tensor_count(p->value), words = quantised_words(p->quantisation, count),
           scales = quantised_scale_words(p->quantisation, count);
    p->kept[0] = parts[0].data ? view(parts[0], p->block, words, 1) : tensor_none();
    p->kept[1] = parts[1].data ? view(parts[1], p->block, scales, 1) : tensor_none();
}

// Points values, and gradients of trainable parameters, of the unit's parameters into these tensors.
static void set_values(const struct bucket *bucket, size_t unit)
{
    FOR_PARAMETERS (p, bucket->all->model, unit) {
        if (p->bucket != bucket || !has_values(bucket))
            continue;
        if (bucket->kind == BUCKET_CODES)
            set_codes(p);
        else
            p->value.data = view(bucket->values[0], p->block, p->value.rows, p->value.cols).data;
    }
}

static void set_gradients(const struct buckets *buckets, size_t unit)
{
    FOR_PARAMETERS (p, buckets->model, unit) {
        if (p->trains && p->bucket) {
            bool whole = p->bucket->grads.data;
            p->grad = whole ? view(p->bucket->grads, p->block, p->value.rows, p->value.cols) : tensor_none();
        }
    }
}

// Elements of a parameter within a share.
static struct row_range piece_of(const struct parameter *p, struct row_range share)
{
    size_t first = share.start > p->block ? share.start : p->block, end = p->block + blocks_of(p);
    struct row_range piece = {0, 0};
    size_t count = tensor_count(p->value);
    end = share.start + share.count < end ? share.start + share.count : end;
    if (first < end) {
        piece.start = (first - p->block) * BUCKET_BLOCK;
        piece.count = (end - p->block) * BUCKET_BLOCK;
        piece.count = (piece.count < count ? piece.count : count) - piece.start;
    }
    return piece;
}

// A replica's share of a bucket. Of shared experts that of its like.
static struct row_range share_of(const struct bucket *bucket, size_t replica)
{
    return bucket->owned[replica / (replicas(bucket->all->model)->size / bucket->ranks->size)];
}

// Lists the element counts of a unit's parameters in a replica's share of a bucket; returns their number.
static size_t list_pieces(const struct bucket *bucket, size_t unit, size_t replica, size_t counts[UNIT_PARAMETERS])
{
    size_t n = 0;
    FOR_PARAMETERS (p, bucket->all->model, unit) {
        size_t count = p->bucket == bucket ? piece_of(p, share_of(bucket, replica)).count : 0;
        CHECK(n < UNIT_PARAMETERS);
        if (count > 0)
            counts[n++] = count;
    }
    return n;
}

bool buckets_alike(const struct buckets *buckets, size_t replica, size_t other)
{
    size_t own[UNIT_PARAMETERS], others[UNIT_PARAMETERS];
    for (size_t i = 0; buckets->items && i < BUCKETS * unit_count(buckets->model); i++) {
        const struct bucket *bucket = &buckets->items[i];
        size_t count = list_pieces(bucket, i / BUCKETS, replica, own);
        if (share_of(bucket, replica).count != share_of(bucket, other).count ||
            list_pieces(bucket, i / BUCKETS, other, others) != count ||
            memcmp(own, others, count * sizeof *own) != 0)
            return false;
    }
    return true;
}

struct parameter bucket_share(const struct parameter *p)
{
    struct parameter share = *p;
    const struct bucket *bucket = p->bucket;
    if (!bucket || bucket->all->model->ranks.zero == ZERO_NOTHING)
        return share;
    struct row_range own = own_of(bucket);
    struct row_range piece = piece_of(p, own);
    size_t first = piece.count > 0 ? p->block + piece.start / BUCKET_BLOCK : own.start, count = piece.count;
    share.first = p->first + piece.start;
    share.value = shares_weights(bucket->all->model) ? view(bucket->own_values[0], first - own.start, count, 1)
                                                     : view(bucket->values[0], first, count, 1);
    share.grad = shares_gradients(bucket->all) ? view(bucket->own_grads, first - own.start, count, 1)
                                               : view(bucket->grads, first, count, 1);
    return share;
}

// ---- values

static struct tensor blocks_new(const struct buckets *buckets, size_t blocks, enum dtype dtype,
                                enum category category)
{
    return tensor_new(buckets->model->device, blocks, BUCKET_BLOCK, dtype, category);
}

// Values of `blocks` blocks; for codes, part 0 is the codes and part 1 their scales. No tensor if there is no such
// part.
static struct tensor values_new(const struct bucket *bucket, size_t part, size_t blocks)
{
    const struct buckets *all = bucket->all;
    struct device *device = all->model->device;
    if (bucket->kind != BUCKET_CODES)
        return part == 0 ? blocks_new(all, blocks, device->ops->dtype, CATEGORY_WEIGHTS) : tensor_none();
    return part == 0 ? tensor_new(device, blocks, quantised_words(all->quantisation, BUCKET_BLOCK), DTYPE_I32,
                                  CATEGORY_WEIGHTS)
                     : tensor_new(device, blocks, quantised_scale_words(all->quantisation, BUCKET_BLOCK), DTYPE_I32,
                                  CATEGORY_WEIGHTS);
}

static void cut(struct bucket *bucket)
{
    size_t count = bucket->ranks->size;
    bucket->owned = calloc(count, sizeof *bucket->owned);
    for (size_t r = 0; r < count; r++)
        bucket->owned[r] = comm_share(bucket->blocks, count, r);
}

void buckets_open(struct buckets *buckets, struct model *model)
{
    buckets->model = model;
    if (replicas(model)->size == 1)
        return;
    buckets->items = calloc(BUCKETS * unit_count(model), sizeof *buckets->items);
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct bucket *items = buckets_of(buckets, unit);
        FOR_PARAMETERS (p, model, unit) {
            bool part = parameter_is_part(p);
            if (model_has(model, p) && !p->wide && (!part || model->ranks.copies.size > 1)) {
                enum bucket_kind kind = model_can_train(model, p) ? BUCKET_CAN_TRAIN
                                        : p->coded                ? BUCKET_CODES
                                                                  : BUCKET_FROZEN;
                p->bucket = &items[kind + part * BUCKET_KINDS];
                p->block = p->bucket->blocks;
                p->bucket->blocks += blocks_of(p);
            }
        }
        for (size_t i = 0; i < BUCKETS; i++) {
            items[i].all = buckets;
            items[i].kind = (enum bucket_kind)(i % BUCKET_KINDS);
            items[i].ranks = i < BUCKET_KINDS ? &model->ranks.replicas : &model->ranks.copies;
            cut(&items[i]);
        }
    }
}

void buckets_close(struct buckets *buckets)
{
    for (size_t b = 0; buckets->items && b < BUCKETS * unit_count(buckets->model); b++)
        free(buckets->items[b].owned);
    free(buckets->items);
}

static void new_values(struct bucket *bucket)
{
    const struct model *model = bucket->all->model;
    bool shares = shares_weights(model);
    size_t blocks = shares ? own_of(bucket).count : bucket->blocks;
    for (size_t part = 0; blocks > 0 && has_values(bucket) && part < PARAMETER_PARTS; part++) {
        struct tensor *values = shares ? &bucket->own_values[part] : &bucket->values[part];
        *values = values_new(bucket, part, blocks);
        if (values->data)
            op_zero(model->device, *values); // padding between parameters is transferred too
    }
}

void bucket_new_values(struct buckets *buckets, size_t unit)
{
    for (size_t i = 0; buckets->items && i < BUCKETS; i++) {
        struct bucket *bucket = &buckets_of(buckets, unit)[i];
        new_values(bucket);
        set_values(bucket, unit);
    }
}

static void free_parts(const struct bucket *bucket, struct tensor *parts)
{
    for (size_t part = 0; part < PARAMETER_PARTS; part++)
        tensor_free(bucket->all->model->device, &parts[part]);
}

void bucket_free_values(struct buckets *buckets, size_t unit)
{
    for (size_t i = 0; buckets->items && i < BUCKETS; i++) {
        struct bucket *bucket = &buckets_of(buckets, unit)[i];
        free_parts(bucket, bucket->values);
        free_parts(bucket, bucket->own_values);
    }
}

void bucket_write(const struct parameter *p, size_t first, size_t count, const double *values)
{
    const struct model *model = p->bucket->all->model;
    struct parameter share = bucket_share(p);
    size_t all = tensor_count(p->value), end = first + count;
    share.first -= p->first;
    if (!shares_weights(model))
        share = (struct parameter){.value = tensor_reshape(p->value, all, 1)};
    size_t own_end = share.first + tensor_count(share.value);
    size_t from = first > share.first ? first : share.first, to = end < own_end ? end : own_end;
    if (from < to)
        tensor_write(model->device, tensor_rows(share.value, from - share.first, to - from), values + from - first);
}

void bucket_write_codes(const struct parameter *p, size_t first, size_t count, const uint32_t *codes,
                        const uint32_t *scales)
{
    enum quantisation q = p->quantisation;
    const struct bucket *bucket = p->bucket;
    struct device *device = bucket->all->model->device;
    struct row_range own = own_of(bucket), piece = piece_of(p, own);
    size_t from = first > piece.start ? first : piece.start;
    size_t to = first + count < piece.start + piece.count ? first + count : piece.start + piece.count;
    if (from < to) {
        size_t at = p->block * BUCKET_BLOCK + from - own.start * BUCKET_BLOCK;
        op_upload(device,
                  tensor_elements(bucket->own_values[0], quantised_words(q, at), quantised_words(q, to - from)),
                  codes + quantised_words(q, from - first));
        op_upload(device,
                  tensor_elements(bucket->own_values[1], quantised_scale_words(q, at),
                                  quantised_scale_words(q, to - from)),
                  scales + quantised_scale_words(q, from - first));
    }
}

// Codes as numbers of their width, which devices can copy.
static struct tensor copyable(struct tensor t)
{
    t.dtype = t.dtype == DTYPE_I32 ? DTYPE_F32 : t.dtype;
    return t;
}

// Does nothing if they are in transit.
static void start_values(struct bucket *bucket)
{
    struct model *model = bucket->all->model;
    struct row_range own = own_of(bucket);
    if (bucket->blocks == 0 || bucket->values[0].data)
        return;
    for (size_t part = 0; part < PARAMETER_PARTS; part++) {
        struct tensor values = bucket->values[part] = values_new(bucket, part, bucket->blocks);
        if (values.data && own.count > 0) {
            op_copy(model->device, copyable(tensor_rows(values, own.start, own.count)),
                    copyable(bucket->own_values[part]));
        }
        if (values.data) {
            bucket->values_coming[part] =
                comm_start_gather_rows(bucket->ranks, model->device, values, bucket->owned);
        }
    }
}

static void wait_for_values(struct bucket *bucket)
{
    struct model *model = bucket->all->model;
    for (size_t part = 0; part < PARAMETER_PARTS; part++)
        comm_wait(bucket->ranks, model->device, &bucket->values_coming[part]);
}

void bucket_prefetch(struct buckets *buckets, size_t unit)
{
    const struct model *model = buckets->model;
    bool can_prefetch = buckets->items && shares_weights(model) && model->ranks.overlap;
    for (size_t i = 0; can_prefetch && i < BUCKETS; i++)
        start_values(&buckets_of(buckets, unit)[i]);
}

void bucket_acquire(struct buckets *buckets, size_t unit)
{
    for (size_t i = 0; buckets->items && shares_weights(buckets->model) && i < BUCKETS; i++) {
        struct bucket *bucket = &buckets_of(buckets, unit)[i];
        start_values(bucket);
        wait_for_values(bucket);
        set_values(bucket, unit);
    }
}

void bucket_release(struct buckets *buckets, size_t unit)
{
    for (size_t i = 0; buckets->items && shares_weights(buckets->model) && i < BUCKETS; i++) {
        struct bucket *bucket = &buckets_of(buckets, unit)[i];
        free_parts(bucket, bucket->values);
        set_values(bucket, unit);
    }
}

// ---- trainable parameters

// The unit's next bucket of trainable parameters behind `last`, NULL: the first. NULL: there are no more, no
// replicas, or the unit does not train.
static struct bucket *next_training(const struct buckets *buckets, size_t unit, const struct bucket *last)
{
    bool any = buckets->items && unit_training(buckets->model, unit);
    struct bucket *items = any ? buckets_of(buckets, unit) : NULL;
    for (size_t i = last ? (size_t)(last - items) + BUCKET_KINDS : BUCKET_CAN_TRAIN; any && i < BUCKETS;
         i += BUCKET_KINDS)
        if (items[i].blocks > 0)
            return &items[i];
    return NULL;
}

#define FOR_TRAINING(bucket, buckets, unit)                                                                        \
    for (struct bucket *bucket = next_training(buckets, unit, NULL); bucket;                                       \
         bucket = next_training(buckets, unit, bucket))

void bucket_gather(struct buckets *buckets, size_t unit)
{
    const struct model *model = buckets->model;
    FOR_TRAINING(bucket, buckets, unit)
    {
        if (bucket->values[0].data)
            bucket->values_coming[0] =
                comm_start_gather_rows(bucket->ranks, model->device, bucket->values[0], bucket->owned);
        if (!model->ranks.overlap)
            wait_for_values(bucket);
    }
}

void bucket_settle(struct buckets *buckets, size_t unit)
{
    for (size_t i = 0; buckets->items && i < BUCKETS; i++) {
        struct bucket *bucket = &buckets_of(buckets, unit)[i];
        bool prefetched = bucket->values_coming[0].going && shares_weights(buckets->model);
        wait_for_values(bucket);
        if (prefetched)
            free_parts(bucket, bucket->values);
    }
}

void bucket_new_gradients(struct buckets *buckets, size_t unit)
{
    bool shares = shares_gradients(buckets);
    FOR_TRAINING(bucket, buckets, unit)
    {
        struct tensor *kept = shares ? &bucket->own_grads : &bucket->grads;
        if (!buckets->in_backward)
            *kept = blocks_new(buckets, shares ? own_of(bucket).count : bucket->blocks,
                               buckets->model->gradient_dtype, CATEGORY_GRADIENTS);
    }
    set_gradients(buckets, unit);
}

void bucket_zero_gradients(struct buckets *buckets, size_t unit)
{
    FOR_TRAINING(bucket, buckets, unit)
    op_zero(buckets->model->device, shares_gradients(buckets) ? bucket->own_grads : bucket->grads);
}

void bucket_free_gradients(struct buckets *buckets, size_t unit)
{
    FOR_TRAINING(bucket, buckets, unit)
    {
        tensor_free(buckets->model->device, &bucket->grads);
        tensor_free(buckets->model->device, &bucket->own_grads);
    }
    set_gradients(buckets, unit);
}

void bucket_add(struct buckets *buckets, size_t unit)
{
    FOR_TRAINING(bucket, buckets, unit)
    {
        if (!bucket->grads.data) {
            bucket->grads = blocks_new(buckets, bucket->blocks, buckets->model->gradient_dtype, CATEGORY_GRADIENTS);
            op_zero(buckets->model->device, bucket->grads);
            set_gradients(buckets, unit);
        }
    }
}

static void start_sum(struct bucket *bucket)
{
    const struct model *model = bucket->all->model;
    bool all = model->ranks.zero == ZERO_NOTHING;
    if (model->ranks.sum == SUM_ENGINE)
        bucket->sum_coming =
            comm_start_reduce_rows(bucket->ranks, model->device, bucket->grads, bucket->owned, all);
    else if (model->ranks.overlap)
        bucket->sum = comm_start_sum_rows(bucket->ranks, model->device, bucket->grads, bucket->owned);
    else
        comm_sum_rows(bucket->ranks, model->device, bucket->grads, bucket->owned);
}

// After ranks have summed their own shares, gathers all of them if every rank keeps the whole.
static void start_sum_of_all(struct bucket *bucket)
{
    const struct model *model = bucket->all->model;
    if (model->ranks.zero == ZERO_NOTHING && model->ranks.sum == SUM_ORDERED)
        bucket->sum_coming = comm_start_gather_rows(bucket->ranks, model->device, bucket->grads, bucket->owned);
}

void bucket_sum(struct buckets *buckets, size_t unit)
{
    if (buckets->adds_more && !shares_gradients(buckets))
        return;
    FOR_TRAINING(bucket, buckets, unit)
    {
        start_sum(bucket);
        if (!buckets->model->ranks.overlap) {
            start_sum_of_all(bucket);
            comm_wait(bucket->ranks, buckets->model->device, &bucket->sum_coming);
        }
    }
}

static bool is_summing(const struct bucket *bucket)
{
    return bucket->sum.delivery.going || bucket->sum_coming.going;
}

bool bucket_is_summing(const struct buckets *buckets, size_t unit)
{
    FOR_TRAINING(bucket, buckets, unit)
    if (is_summing(bucket))
        return true;
    return false;
}

void bucket_advance_sum(struct buckets *buckets, size_t unit)
{
    FOR_TRAINING(bucket, buckets, unit)
    {
        if (bucket->sum.delivery.going) {
            comm_finish_sum_rows(bucket->ranks, buckets->model->device, &bucket->sum);
            start_sum_of_all(bucket);
        } else {
            comm_wait(bucket->ranks, buckets->model->device, &bucket->sum_coming);
        }
    }
}

void bucket_keep_share(struct buckets *buckets, size_t unit)
{
    if (!shares_gradients(buckets))
        return;
    FOR_TRAINING(bucket, buckets, unit)
    {
        struct row_range own = own_of(bucket);
        if (own.count > 0)
            op_accumulate(buckets->model->device, bucket->own_grads,
                          tensor_rows(bucket->grads, own.start, own.count));
        tensor_free(buckets->model->device, &bucket->grads);
    }
    set_gradients(buckets, unit);
}
