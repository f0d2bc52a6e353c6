#include "kernels/attention/ring.h"
#include "kernels/attention/attention_shape.h"

// The rank whose keys and values are here at stop number `stop`.
static size_t owner_at(const struct comm *ranks, size_t stop)
{
    return (ranks->rank + ranks->size - stop) % ranks->size;
}

static struct pieces pieces_at(const struct model *model, const struct batch *batch, size_t stop)
{
    const struct comm *ranks = &model->ranks.sequence;
    return pieces_of(batch->pieces.context, ranks->size, owner_at(ranks, stop));
}

// A pass of keys and values, or of their gradients: out goes to the right rank, in comes from the left one.
struct passing {
    struct delivery delivery;
    struct carry out, in;
};

static void pass_begin(struct model *model, struct passing *passing, struct carry out, struct carry in)
{
    const struct comm *ranks = &model->ranks.sequence;
    size_t right = (ranks->rank + 1) % ranks->size, left = owner_at(ranks, 1);
    const struct message sends[] = {{right, out.k}, {right, out.v}}, receives[] = {{left, in.k}, {left, in.v}};
    *passing = (struct passing){.out = out, .in = in};
    passing->delivery =
        comm_start_exchange(ranks, model->device, sends, out.k.rows > 0 ? 2 : 0, receives, in.k.rows > 0 ? 2 : 0);
}

// Frees the sent tensors, unless they are the rank's own, and returns the received ones.
static struct carry pass_end(struct model *model, struct passing *passing, const struct carry *own)
{
    comm_wait(&model->ranks.sequence, model->device, &passing->delivery);
    if (!own || passing->out.k.data != own->k.data)
        carry_free(model, &passing->out);
    return passing->in;
}

static struct carry block_new(struct model *model, const struct batch *batch, struct pieces of, struct carry like)
{
    return carry_like(model, like, pieces_count(&of) * batch->batch, like.k.dtype, like.k.category);
}

// A run of queries, and a piece of keys that it sees some of: itself, or one before it.
struct pair {
    size_t query_row, query_rows, key_row, key_rows;
    bool own; // the piece is the run
    struct attention_shape shape;
};

// Pair number `index` of the batch's runs and a block's pieces; the run's own piece comes first. False: the run
// sees nothing of that piece.
static bool pair_of(const struct model *model, const struct batch *batch, size_t layer, const struct pieces *of,
                    size_t index, struct pair *pair)
{
    struct token_run runs[PIECES];
    size_t B = batch->batch, i = index / PIECES, j = PIECES - 1 - index % PIECES;
    if (i >= pieces_runs(&batch->pieces, (struct span){0, batch->context}, runs))
        return false;
    struct span piece = of->items[j];
    if (piece.count == 0 || piece.start > runs[i].start)
        return false;
    *pair = (struct pair){.query_row = runs[i].first * B,
                          .query_rows = runs[i].count * B,
                          .key_row = (j > 0 ? of->items[0].count : 0) * B,
                          .key_rows = piece.count * B,
                          .own = piece.start == runs[i].start,
                          .shape = attention_shape_of(&model->config, batch, layer, runs[i], B)};
    pair->shape.start -= piece.start;
    pair->shape.keys = piece.count;
    CHECK(!batch->starts || batch->shifted || model->device->status.code != STATUS_OK);
    bool chunked = config_kind(&model->config, layer)->chunked;
    pair->shape.mask.documents = batch_documents_from(batch, piece.start, runs[i], chunked);
    bool seen = false;
    for (size_t b = 0; b < B; b++) // the first queries see furthest back
        seen |= attention_seen_keys(&pair->shape, 0, b).own < piece.count;
    return seen;
}

// The operands of a rank's attention at all stops.
struct attention {
    struct model *model;
    const struct batch *batch;
    size_t layer;
    const struct kept *kept;
    struct tensor q, grad_o, grad_q;
};

static void attend_to(void *of_rank, const struct pieces *of, struct carry block)
{
    const struct attention *a = of_rank;
    struct device *device = a->model->device;
    const struct batch *batch = a->batch;
    const struct kept *kept = a->kept;
    struct pair pair;
    for (size_t i = 0; i < PIECES * PIECES; i++) {
        if (!pair_of(a->model, batch, a->layer, of, i, &pair))
            continue;
        struct tensor o = tensor_rows(kept->own[ATTENTION_O], pair.query_row, pair.query_rows), o_here = o;
        struct tensor sums = tensor_rows(kept->own[ATTENTION_LOGSUMEXP], pair.query_row, pair.query_rows),
                      sums_here = sums;
        struct carry kv = carry_rows(block, pair.key_row, pair.key_rows);
        if (!pair.own) {
            o_here = tensor_new(device, o.rows, o.cols, o.dtype, CATEGORY_WORKSPACE);
            sums_here = tensor_new(device, sums.rows, sums.cols, sums.dtype, CATEGORY_WORKSPACE);
        }
        op_attention_forward(device, pair.shape, o_here, sums_here,
                             tensor_rows(a->q, pair.query_row, pair.query_rows), kv.k, kv.v);
        if (!pair.own) {
            op_attention_merge(device, o, sums, o_here, sums_here);
            tensor_free(device, &sums_here);
            tensor_free(device, &o_here);
        }
    }
}

void ring_pass(struct model *model, const struct batch *batch, struct carry own, ring_stop *stop_at, void *of)
{
    size_t ranks = model->ranks.sequence.size;
    struct carry block = own;
    for (size_t stop = 0; stop < ranks; stop++) {
        struct passing passing;
        struct pieces here = pieces_at(model, batch, stop);
        bool last = stop + 1 == ranks;
        if (!last) {
            struct pieces next = pieces_at(model, batch, stop + 1);
            pass_begin(model, &passing, block, block_new(model, batch, next, own));
        }
        stop_at(of, &here, block);
        if (!last)
            block = pass_end(model, &passing, &own);
    }
    carry_free(model, &block);
}

void ring_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                 struct tensor q, struct carry kv)
{
    struct attention a = {.model = model, .batch = batch, .layer = layer, .kept = kept, .q = q};
    ring_pass(model, batch, kv, attend_to, &a);
}

static void attend_to_backward(void *of_rank, const struct pieces *of, struct carry block, struct carry grad_block)
{
    const struct attention *a = of_rank;
    const struct batch *batch = a->batch;
    const struct kept *kept = a->kept;
    struct pair pair;
    for (size_t i = 0; i < PIECES * PIECES; i++) {
        if (!pair_of(a->model, batch, a->layer, of, i, &pair))
            continue;
        size_t row = pair.query_row, rows = pair.query_rows;
        struct carry kv = carry_rows(block, pair.key_row, pair.key_rows);
        struct carry grad = carry_rows(grad_block, pair.key_row, pair.key_rows);
        struct key_segment keys = {.count = pair.shape.keys, .grad_k = grad.k, .grad_v = grad.v};
        op_attention_backward(a->model->device, pair.shape, tensor_rows(a->grad_q, row, rows), !pair.own, &keys, 1,
                              tensor_rows(a->grad_o, row, rows), tensor_rows(kept->own[ATTENTION_O], row, rows),
                              tensor_rows(kept->own[ATTENTION_LOGSUMEXP], row, rows), tensor_rows(a->q, row, rows),
                              kv.k, kv.v);
    }
}

// A block's gradients travel behind it, from the rank right of its own on, and are sent on when this rank's have
// been added; those of the rank's own come last, to what it has added itself.
void ring_pass_backward(struct model *model, const struct batch *batch, struct carry own, struct carry grad_own,
                        ring_stop_backward *stop_at, void *of)
{
    struct device *device = model->device;
    size_t ranks = model->ranks.sequence.size;
    struct carry block = own, grads = grad_own;
    for (size_t stop = 0; stop < ranks; stop++) {
        struct passing passing;
        struct pieces here = pieces_at(model, batch, stop), next = pieces_at(model, batch, stop + 1);
        bool last = stop + 1 == ranks;
        if (!last)
            pass_begin(model, &passing, block, block_new(model, batch, next, own));
        stop_at(of, &here, block, grads);
        if (!last)
            block = pass_end(model, &passing, &own);
        struct carry others = block_new(model, batch, next, grad_own);
        if (stop > 0) {
            pass_begin(model, &passing, grads, others);
            others = pass_end(model, &passing, NULL);
        } else {
            carry_zero(model, others);
        }
        grads = others;
    }
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        op_accumulate(device, grad_own.t[i], grads.t[i]);
    carry_free(model, &grads);
    carry_free(model, &block);
}

void ring_attend_backward(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                          struct tensor q, struct carry kv, struct carry grad_kv, struct tensor grad_q)
{
    struct device *device = model->device;
    struct tensor grad_o = tensor_new(device, grad_q.rows, grad_q.cols, grad_q.dtype, CATEGORY_WORKSPACE);
    if (grad_q.rows > 0)
        op_copy(device, grad_o, grad_q);
    struct attention a = {model, batch, layer, kept, q, grad_o, grad_q};
    ring_pass_backward(model, batch, kv, grad_kv, attend_to_backward, &a);
    tensor_free(device, &grad_o);
}
