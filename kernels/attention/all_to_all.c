#include "kernels/attention/all_to_all.h"
#include "kernels/attention/attention_shape.h"

bool heads_divide(size_t heads, size_t kv_heads, size_t ranks)
{
    return heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0);
}

// A rank's of so many heads.
static struct span heads_of(size_t heads, size_t ranks, size_t rank)
{
    return heads >= ranks ? (struct span){rank * (heads / ranks), heads / ranks}
                          : (struct span){rank / (ranks / heads), 1};
}

struct span heads_own(const struct model *model, size_t heads)
{
    const struct comm *ranks = &model->ranks.sequence;
    return heads_of(heads, ranks->size, ranks->rank);
}

size_t heads_here(const struct model *model, size_t heads)
{
    return heads_own(model, heads).count;
}

bool heads_are_spread(const struct model *model)
{
    return model->ranks.sequence.size > 1 && model->ranks.exchange == EXCHANGE_ALL_TO_ALL;
}

// An exchange of this rank with all others: `parts`, [n B, heads' columns] each, one after another, have the own
// tokens of each rank's heads; `share` has this rank's heads of all tokens.
struct exchange_parts {
    struct tensor parts, share;
    size_t rows; // of a part
    struct message *of_parts, *of_share;
    size_t part_count, share_count;
};

static struct tensor part_of(const struct exchange_parts *e, size_t rank)
{
    return tensor_rows(e->parts, rank * e->rows, e->rows);
}

// A message for each piece of a rank's tokens.
static void add_messages(struct message *to, size_t *count, const struct batch *batch, size_t ranks, size_t rank,
                         size_t peer, struct tensor t, bool by_position)
{
    size_t B = batch->batch, row = 0;
    for (size_t i = 0; i < PIECES; i++) {
        struct span piece = piece_of(batch->pieces.context, ranks, rank, i);
        if (piece.count > 0) {
            to[(*count)++] =
                (struct message){peer, tensor_rows(t, (by_position ? piece.start * B : row), piece.count * B)};
        }
        row += piece.count * B;
    }
}

static void parts_open(struct exchange_parts *e, struct model *model, const struct batch *batch,
                       struct tensor share, size_t rows)
{
    const struct comm *ranks = &model->ranks.sequence;
    *e = (struct exchange_parts){.share = share, .rows = rows};
    e->parts = tensor_new(model->device, ranks->size * rows, share.cols, share.dtype, CATEGORY_WORKSPACE);
    e->of_parts = calloc(PIECES * ranks->size, sizeof *e->of_parts);
    e->of_share = calloc(PIECES * ranks->size, sizeof *e->of_share);
    CHECK(e->of_parts && e->of_share);
    for (size_t rank = 0; rank < ranks->size; rank++) {
        if (rank != ranks->rank) {
            add_messages(e->of_parts, &e->part_count, batch, ranks->size, ranks->rank, rank, part_of(e, rank),
                         false);
            add_messages(e->of_share, &e->share_count, batch, ranks->size, rank, rank, share, true);
        }
    }
}

static void parts_close(struct exchange_parts *e, struct model *model)
{
    tensor_free(model->device, &e->parts);
    free(e->of_parts);
    free(e->of_share);
}

// Columns of some ranks' heads of all sections.
static size_t columns_of(struct sections sections, size_t ranks, size_t rank)
{
    size_t cols = 0;
    for (size_t i = 0; i < SECTIONS_MAX && sections.items[i].heads > 0; i++)
        cols += heads_of(sections.items[i].heads, ranks, rank).count * sections.items[i].width;
    return cols;
}

// Copies a rank's heads of each section between rows of all heads and of its own. out: from all.
static void copy_heads_of(struct model *model, struct sections sections, size_t rank, struct tensor all,
                          struct tensor part, bool out)
{
    size_t ranks = model->ranks.sequence.size, first = 0, to = 0;
    for (size_t i = 0; i < SECTIONS_MAX && sections.items[i].heads > 0; i++) {
        struct section section = sections.items[i];
        struct span heads = heads_of(section.heads, ranks, rank);
        size_t from = first + heads.start * section.width, cols = heads.count * section.width;
        if (out)
            op_copy_columns(model->device, part, to, all, from, cols);
        else
            op_copy_columns(model->device, all, from, part, to, cols);
        first += section.heads * section.width;
        to += cols;
    }
}

struct tensor sections_spread(struct model *model, const struct batch *batch, struct tensor own,
                              struct sections sections)
{
    const struct comm *ranks = &model->ranks.sequence;
    struct tensor share = tensor_new(model->device, batch->pieces.context * batch->batch,
                                     columns_of(sections, ranks->size, ranks->rank), own.dtype, own.category);
    struct exchange_parts e;
    parts_open(&e, model, batch, share, own.rows);
    for (size_t rank = 0; own.rows > 0 && rank < ranks->size; rank++)
        copy_heads_of(model, sections, rank, own, part_of(&e, rank), true);
    batch_copy_own(batch, model->device, share, part_of(&e, ranks->rank), true);
    comm_exchange(ranks, model->device, e.of_parts, e.part_count, e.of_share, e.share_count);
    parts_close(&e, model);
    return share;
}

void sections_collect(struct model *model, const struct batch *batch, struct tensor own, struct sections sections,
                      struct tensor share)
{
    const struct comm *ranks = &model->ranks.sequence;
    size_t heads = sections.items[0].heads;
    size_t together = heads < ranks->size ? ranks->size / heads : 1; // ranks with the same head
    struct exchange_parts e;
    parts_open(&e, model, batch, share, own.rows);
    batch_copy_own(batch, model->device, share, part_of(&e, ranks->rank), false);
    comm_exchange(ranks, model->device, e.of_share, e.share_count, e.of_parts, e.part_count);
    for (size_t rank = 0; own.rows > 0 && rank < ranks->size; rank += together) {
        struct tensor sum = part_of(&e, rank);
        for (size_t other = rank + 1; other < rank + together; other++)
            op_accumulate(model->device, sum, part_of(&e, other));
        copy_heads_of(model, sections, rank, own, sum, false);
    }
    parts_close(&e, model);
}

static struct sections one_section(struct tensor own, size_t heads)
{
    return (struct sections){{{heads, own.cols / heads}}};
}

struct tensor heads_spread(struct model *model, const struct batch *batch, struct tensor own, size_t heads)
{
    return sections_spread(model, batch, own, one_section(own, heads));
}

void heads_collect(struct model *model, const struct batch *batch, struct tensor own, size_t heads,
                   struct tensor share)
{
    sections_collect(model, batch, own, one_section(own, heads), share);
}

static struct attention_shape shape_of(const struct model *model, const struct batch *batch, size_t layer)
{
    struct token_run all = {0, 0, batch->pieces.context};
    struct attention_shape shape = attention_shape_of(&model->config, batch, layer, all, batch->batch);
    shape.heads = heads_here(model, shape.heads);
    shape.kv_heads = heads_here(model, shape.kv_heads);
    return shape;
}

struct tensor rows_or_none(struct tensor t, size_t cols, enum dtype dtype)
{
    return t.data ? t : (struct tensor){.dtype = dtype, .category = CATEGORY_WORKSPACE, .cols = cols};
}
static struct tensor rows_of_heads(const struct model *model, size_t layer, struct tensor t)
{
    const struct layer_kind *kind = config_kind(&model->config, layer);
    return rows_or_none(t, kind->heads * kind->head_dim, model->device->ops->dtype);
}
static struct tensor rows_of_sums(const struct model *model, size_t layer, struct tensor t)
{
    return rows_or_none(t, config_kind(&model->config, layer)->heads, dtype_statistic(model->device->ops->dtype));
}

static struct tensor of_heads_new(struct model *model, struct attention_shape shape, struct tensor like,
                                  size_t width)
{
    return tensor_new(model->device, shape.queries * shape.batch, shape.heads * width, like.dtype,
                      CATEGORY_WORKSPACE);
}

void all_to_all_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                       struct tensor q, struct carry kv)
{
    struct device *device = model->device;
    size_t heads = config_kind(&model->config, layer)->heads;
    struct attention_shape shape = shape_of(model, batch, layer);
    struct tensor own_o = rows_of_heads(model, layer, kept->own[ATTENTION_O]),
                  own_sums = rows_of_sums(model, layer, kept->own[ATTENTION_LOGSUMEXP]);
    struct tensor spread_q = heads_spread(model, batch, rows_of_heads(model, layer, q), heads);
    struct tensor o = of_heads_new(model, shape, own_o, shape.head_dim);
    struct tensor logsumexp = of_heads_new(model, shape, own_sums, 1);
    op_attention_forward(device, shape, o, logsumexp, spread_q, kv.k, kv.v);
    tensor_free(device, &spread_q);
    heads_collect(model, batch, own_o, heads, o);
    heads_collect(model, batch, own_sums, heads, logsumexp);
    tensor_free(device, &logsumexp);
    tensor_free(device, &o);
}

void all_to_all_attend_backward(struct model *model, const struct batch *batch, size_t layer,
                                const struct kept *kept, struct tensor q, struct carry kv, struct carry grad_kv,
                                struct tensor grad_q)
{
    struct device *device = model->device;
    size_t heads = config_kind(&model->config, layer)->heads;
    struct attention_shape shape = shape_of(model, batch, layer);
    struct tensor spread_q = heads_spread(model, batch, rows_of_heads(model, layer, q), heads);
    struct tensor o = heads_spread(model, batch, rows_of_heads(model, layer, kept->own[ATTENTION_O]), heads);
    struct tensor logsumexp =
        heads_spread(model, batch, rows_of_sums(model, layer, kept->own[ATTENTION_LOGSUMEXP]), heads);
    struct tensor own_grad = rows_of_heads(model, layer, grad_q);
    struct tensor grad = heads_spread(model, batch, own_grad, heads); // in place
    struct key_segment keys = {.count = batch->pieces.context, .grad_k = grad_kv.k, .grad_v = grad_kv.v};
    op_attention_backward(device, shape, grad, false, &keys, 1, grad, o, logsumexp, spread_q, kv.k, kv.v);
    tensor_free(device, &logsumexp);
    tensor_free(device, &o);
    tensor_free(device, &spread_q);
    heads_collect(model, batch, own_grad, heads, grad);
    tensor_free(device, &grad);
}
