#include "kernels/layers/rotation.h"
#include "kernels/layers/norm.h"

size_t rotated_norms(const struct model *model, struct rotated of)
{
    return model->config.whole_qk_norm ? 1 : of.heads;
}

// x: [n, heads * head_dim] as one row per norm
static struct tensor by_norm(const struct model *model, struct rotated of, struct tensor x)
{
    size_t norms = rotated_norms(model, of);
    return tensor_reshape(x, x.rows * norms, x.cols / norms);
}

void rotated_norm(struct model *model, struct rotated of, struct tensor y, struct tensor rstd, struct tensor x)
{
    if (of.norm)
        norm_forward(model, of.norm, by_norm(model, of, y), rstd, by_norm(model, of, x));
}

struct tensor rotation_frequencies(struct model *model, const struct batch *batch, size_t layer)
{
    const struct layer_kind *kind = config_kind(&model->config, layer);
    const struct rope_scaling *scaling = &kind->rope_scaling;
    if (scaling->dynamic)
        model_set_longest(model, batch->normaliser.longest);
    bool longer = scaling->longrope && batch->normaliser.longest > scaling->original_context;
    return tensor_rows(model->rope_frequencies[kind - model->config.kinds], longer, 1);
}

// x: rows of these tokens of the rank's.
static void turn(struct model *model, const struct batch *batch, struct rotated of, struct tensor x,
                 struct span tokens, int direction)
{
    const struct layer_kind *kind = config_kind(&model->config, of.layer);
    struct rope_shape shape = {kind->head_dim, kind->rope == ROPE_INTERLEAVED, of.gain > 0 ? of.gain : 1};
    struct token_run runs[PIECES];
    size_t B = x.rows / tokens.count, count = pieces_runs(&batch->pieces, tokens, runs);
    for (size_t i = 0; i < count; i++) {
        struct documents documents = batch_documents(batch, (struct span){runs[i].start, runs[i].count});
        struct tensor rows = tensor_rows(x, (runs[i].first - tokens.start) * B, runs[i].count * B);
        if (kind->rope != ROPE_NONE)
            op_rope(model->device, rows, rotation_frequencies(model, batch, of.layer), shape, runs[i].start, B,
                    documents, direction);
        if (of.by_position.length > 0)
            op_position_scale(model->device, rows, of.by_position, runs[i].start, B, documents);
    }
    if (of.scale > 0 && of.scale != 1)
        op_scale(model->device, x, of.scale);
}

void rotate(struct model *model, const struct batch *batch, struct rotated of, struct tensor y, struct tensor rstd,
            struct tensor x, struct span tokens)
{
    rotated_norm(model, of, y, rstd, x);
    turn(model, batch, of, y, tokens, +1);
}

void rotate_backward(struct model *model, const struct batch *batch, struct rotated of, struct tensor grad,
                     struct tensor rstd, struct tensor projected, struct span tokens)
{
    turn(model, batch, of, grad, tokens, -1);
    if (of.norm) {
        struct tensor rows = by_norm(model, of, grad);
        norm_backward(model, of.norm, rows, false, rows, by_norm(model, of, projected), rstd);
    }
}
