#include "kernels/attention/kv_ranks.h"
#include "kernels/attention/all_to_all.h"

// The carry that a layer's cells read: the rank's own; that of all tokens, or its heads of that.
enum brought { BROUGHT_OWN, BROUGHT_ALL, BROUGHT_HEADS };
static enum brought brought_by(const struct model *model, const struct batch *batch, size_t layer)
{
    const struct mixer *mixer = config_mixer(&model->config, layer);
    enum exchange exchange = model->ranks.exchange;
    if (!batch_is_shared(batch) || mixer->at_borders || exchange == EXCHANGE_RING)
        return BROUGHT_OWN;
    return exchange == EXCHANGE_ALL_TO_ALL && mixer->carries_heads ? BROUGHT_HEADS : BROUGHT_ALL;
}
static bool brings(const struct model *model, const struct batch *batch, size_t layer)
{
    return brought_by(model, batch, layer) != BROUGHT_OWN;
}

// The i-th piece of every rank; to be freed.
static struct row_range *owned_rows(const struct model *model, const struct batch *batch, size_t i)
{
    size_t ranks = model->ranks.sequence.size, B = batch->batch;
    struct row_range *owned = calloc(ranks, sizeof *owned);
    CHECK(owned && batch->pieces.ranks == ranks);
    for (size_t rank = 0; rank < ranks; rank++) {
        struct span piece = piece_of(batch->pieces.context, ranks, rank, i);
        owned[rank] = (struct row_range){piece.start * B, piece.count * B};
    }
    return owned;
}

static struct carry gather(struct model *model, const struct batch *batch, struct carry own)
{
    struct carry all = carry_like(model, own, batch->pieces.context * batch->batch, own.k.dtype, own.k.category);
    batch_copy_own(batch, model->device, all.k, own.k, true);
    batch_copy_own(batch, model->device, all.v, own.v, true);
    for (size_t i = 0; i < PIECES; i++) {
        struct row_range *owned = owned_rows(model, batch, i);
        comm_gather_rows(&model->ranks.sequence, model->device, all.k, owned);
        comm_gather_rows(&model->ranks.sequence, model->device, all.v, owned);
        free(owned);
    }
    return all;
}

struct carry carry_gather(struct model *model, const struct batch *batch, size_t layer, struct carry own)
{
    enum brought brought = brought_by(model, batch, layer);
    size_t heads = config_kind(&model->config, layer)->kv_heads;
    return brought == BROUGHT_OWN   ? own
           : brought == BROUGHT_ALL ? gather(model, batch, own)
                                    : (struct carry){.k = heads_spread(model, batch, own.k, heads),
                                                     .v = heads_spread(model, batch, own.v, heads)};
}

void carry_gathered_free(struct model *model, const struct batch *batch, size_t layer, struct carry *gathered)
{
    if (brings(model, batch, layer))
        carry_free(model, gathered);
}

struct carry carry_gather_take(struct model *model, const struct batch *batch, size_t layer, struct carry own)
{
    struct carry all = carry_gather(model, batch, layer, own);
    if (brings(model, batch, layer))
        carry_free(model, &own);
    return all;
}

struct carry carry_gradients_new(struct model *model, const struct batch *batch, size_t layer, size_t chunk)
{
    enum brought brought = brought_by(model, batch, layer);
    size_t tokens = brought != BROUGHT_OWN ? batch->pieces.context : batch->context;
    struct carry_size size = carry_size_of(batch, tokens, chunk);
    size.slides = !batch_is_shared(batch);
    struct carry gradients = {.batch = batch->batch};
    if (brought == BROUGHT_HEADS) {
        const struct layer_kind *kind = config_kind(&model->config, layer);
        size_t cols = heads_here(model, kind->kv_heads) * kind->head_dim;
        gradients.k.cols = gradients.v.cols = cols;
        gradients =
            carry_like(model, gradients, tokens * batch->batch, model->kv_gradient_dtype, CATEGORY_KV_GRADIENTS);
    } else {
        gradients = carry_gradient_new(model, layer, PLACE_DEVICE, size);
    }
    carry_zero(model, gradients);
    return gradients;
}

// Replaces gradients of all tokens by those of this rank's own, whose `heads` heads are spread; 0: none is.
static void take_own(struct model *model, const struct batch *batch, size_t heads, size_t cols,
                     struct tensor *gradients)
{
    struct tensor own =
        tensor_new(model->device, batch->context * batch->batch, cols, gradients->dtype, gradients->category);
    if (heads > 0)
        heads_collect(model, batch, own, heads, *gradients);
    else
        batch_copy_own(batch, model->device, *gradients, own, false);
    tensor_free(model->device, gradients);
    *gradients = own;
}

bool carry_gradients_sum(struct model *model, const struct batch *batch, size_t layer, struct carry *gradients)
{
    const struct mixer *mixer = config_mixer(&model->config, layer);
    enum brought brought = brought_by(model, batch, layer);
    if (brought == BROUGHT_OWN)
        return batch_is_shared(batch) && !mixer->at_borders;
    for (size_t i = 0; brought == BROUGHT_ALL && i < PIECES; i++) {
        struct row_range *owned = owned_rows(model, batch, i);
        comm_sum_rows(&model->ranks.sequence, model->device, gradients->k, owned);
        comm_sum_rows(&model->ranks.sequence, model->device, gradients->v, owned);
        free(owned);
    }
    size_t heads = brought == BROUGHT_HEADS ? config_kind(&model->config, layer)->kv_heads : 0;
    struct pair_shape shape = mixer->carry(model, layer).grad;
    take_own(model, batch, heads, shape.cols[0], &gradients->k);
    take_own(model, batch, heads, shape.cols[1], &gradients->v);
    return true;
}
