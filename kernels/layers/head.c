#include "kernels/layers/head.h"
#include "kernels/device/observer.h"
#include "kernels/layers/blocks.h"
#include "kernels/layers/norm.h"
#include "kernels/layers/projection.h"
#include "kernels/model/unit.h"

// A tied head's table is the embedding's.
static void acquire(struct model *model)
{
    unit_acquire(model, unit_of_head(model));
    if (model->config.tied)
        unit_acquire(model, UNIT_EMBEDDING);
}

static void release(struct model *model)
{
    if (model->config.tied)
        unit_release(model, UNIT_EMBEDDING);
    unit_release(model, unit_of_head(model));
}

// Results from the logits: the objective's loss, and with backward its gradient in x's place; or, if log_prob is a
// tensor, only the targets' log-probs.
struct use {
    struct loss_weights weights;
    struct tensor loss;
    bool backward;
    struct tensor log_prob; // [n, 1]
};

static void scale_embedding(struct model *model, struct tensor x)
{
    double scale = model->config.embedding_scale;
    if (scale > 0 && scale != 1)
        op_scale(model->device, x, scale);
}

static void write_log_probs(struct device *device, struct tensor logits, struct tensor targets,
                            struct tensor log_prob, double cap)
{
    struct tensor logsumexp = tensor_new(device, logits.rows, 1, log_prob.dtype, CATEGORY_LOGITS);
    op_log_prob(device, log_prob, logsumexp, tensor_none(), logits, targets, cap);
    tensor_free(device, &logsumexp);
}

static void head(struct model *model, const struct batch *batch, struct tensor x, size_t start, size_t head_chunk,
                 struct use use)
{
    struct device *device = model->device;
    const struct config *c = &model->config;
    enum dtype dtype = x.dtype;
    bool backward = use.backward;
    size_t n = x.rows, max = head_chunk * batch->batch;
    if (max == 0 || max > n)
        max = n;
    range_push(device, (struct range){
                           .level = RANGE_HEAD, .name = backward ? "head_backward" : "head_loss", .start = start});
    acquire(model);
    if (backward) {
        unit_add(model, unit_of_head(model));
        unit_prefetch(model, unit_of_layer(c->layers - 1));
    }
    if (backward && c->tied)
        unit_add(model, UNIT_EMBEDDING);
    struct tensor h = tensor_new(device, max, c->width, dtype, CATEGORY_LOGITS);
    struct tensor logits = tensor_new(device, max, c->vocab, dtype, CATEGORY_LOGITS);
    size_t statistics = c->centred ? 2 : 1;
    struct tensor rstd = tensor_new(device, max, statistics, dtype_statistic(dtype), CATEGORY_LOGITS);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor x_block = tensor_rows(x, row, rows), h_block = tensor_rows(h, 0, rows);
        struct tensor logits_block = tensor_rows(logits, 0, rows), rstd_block = tensor_rows(rstd, 0, rows);
        norm_forward(model, model->final_norm, h_block, rstd_block, x_block);
        projection_forward(model, &model->output, logits_block, h_block, false);
        size_t first_row = start * batch->batch + row;
        if (use.log_prob.data) {
            write_log_probs(device, logits_block, tensor_rows(batch->targets, first_row, rows),
                            tensor_rows(use.log_prob, row, rows), c->logit_cap);
        } else {
            objective_apply(device, batch, logits_block, first_row, c->logit_cap, use.weights, backward, use.loss);
        }
        if (backward) {
            projection_backward(model, &model->output, h_block, logits_block, h_block); // h is spent
            norm_backward(model, model->final_norm, x_block, false, h_block, x_block, rstd_block);
        }
    }
    release(model);
    tensor_free(device, &rstd);
    tensor_free(device, &logits);
    tensor_free(device, &h);
    range_pop(device);
}

void head_backward(struct model *model, const struct batch *batch, struct tensor x, size_t start, size_t head_chunk,
                   struct loss_weights weights, struct tensor loss)
{
    head(model, batch, x, start, head_chunk, (struct use){.weights = weights, .loss = loss, .backward = true});
}

void head_loss(struct model *model, const struct batch *batch, struct tensor x, size_t start, size_t head_chunk,
               struct tensor loss)
{
    head(model, batch, x, start, head_chunk, (struct use){.weights = {.loss = 1}, .loss = loss});
}

void head_log_probs(struct model *model, const struct batch *batch, struct tensor x, size_t head_chunk,
                    struct tensor log_prob)
{
    head(model, batch, x, 0, head_chunk, (struct use){.log_prob = log_prob});
}

// Ranks that share the sequences have each the sums of its own tokens, and all the same costs of the whole: the
// first counts them.
static void settle(struct model *model, const struct batch *batch, struct tensor loss)
{
    const struct comm *ranks = &model->ranks.sequence;
    if (!batch_is_shared(batch) || ranks->rank == 0) {
        objective_settle(model->device, &model->ranks.replicas, batch, loss);
        return;
    }
    struct tensor counted = tensor_new(model->device, loss.rows, 1, loss.dtype, CATEGORY_WORKSPACE);
    op_zero(model->device, counted);
    objective_settle(model->device, &model->ranks.replicas, batch, counted);
    tensor_free(model->device, &counted);
}

void head_first_pass(struct model *model, const struct batch *batch, struct tensor x, size_t head_chunk,
                     struct tensor loss)
{
    if (objective_gathers(batch)) {
        objective_begin(model->device, batch);
        head_loss(model, batch, x, 0, head_chunk, loss);
        if (batch_is_shared(batch))
            comm_sum(&model->ranks.sequence, model->device, batch->sums);
        settle(model, batch, loss);
    }
}

// The id whose row of the table, and of LoRA's A, takes no gradient, as in PEFT; -1: there is none.
static int32_t padding_of(const struct model *model)
{
    return model->config.padded ? (int32_t)model->config.pad : -1;
}

// A's columns of the ids: [n, rank]
static struct tensor input_down(struct model *model, struct tensor x, struct tensor ids)
{
    const struct tensor a = model->input.lora_a->value;
    struct tensor u = tensor_new(model->device, x.rows, a.cols, x.dtype, CATEGORY_WORKSPACE);
    op_embedding_forward(model->device, u, a, ids);
    return u;
}

// Gradients of A and B += what grad, that of the embeddings, gives.
static void input_factors_backward(struct model *model, struct tensor grad, struct tensor ids)
{
    struct device *device = model->device;
    const struct projection *p = &model->input;
    struct tensor u = input_down(model, grad, ids);
    op_gemm(device, p->lora_b->grad, grad, TRANSPOSE, u, NO_TRANSPOSE, p->lora_scale, 1);
    op_gemm(device, u, grad, NO_TRANSPOSE, p->lora_b->value, NO_TRANSPOSE, p->lora_scale, 0); // that of u
    op_embedding_backward(device, p->lora_a->grad, u, ids, padding_of(model));
    tensor_free(device, &u);
}

bool embedding_trains(const struct model *model)
{
    return unit_training(model, UNIT_EMBEDDING) != 0;
}

void embed_rows(struct model *model, const struct batch *batch, struct tensor x, size_t row)
{
    struct tensor ids = tensor_rows(batch->ids, row, x.rows);
    op_embedding_forward(model->device, x, model->embedding->value, ids);
    if (model->input.lora_a && !model->without_adapter) {
        struct tensor u = input_down(model, x, ids);
        op_gemm(model->device, x, u, NO_TRANSPOSE, model->input.lora_b->value, TRANSPOSE, model->input.lora_scale,
                1);
        tensor_free(model->device, &u);
    }
    scale_embedding(model, x);
}

void embed_forward(struct model *model, const struct batch *batch, struct tensor x, size_t start)
{
    unit_acquire(model, UNIT_EMBEDDING);
    unit_prefetch(model, unit_of_layer(0));
    embed_rows(model, batch, x, start * batch->batch);
    unit_release(model, UNIT_EMBEDDING);
}

void embed_backward(struct model *model, const struct batch *batch, struct tensor grad, size_t start)
{
    struct tensor ids = tensor_rows(batch->ids, start * batch->batch, grad.rows);
    if (!embedding_trains(model))
        return;
    unit_add(model, UNIT_EMBEDDING);
    scale_embedding(model, grad); // which is spent
    if (model->embedding->trains)
        op_embedding_backward(model->device, model->embedding->grad, grad, ids, padding_of(model));
    if (model->input.lora_a) {
        unit_acquire(model, UNIT_EMBEDDING);
        input_factors_backward(model, grad, ids);
        unit_release(model, UNIT_EMBEDDING);
    }
}
