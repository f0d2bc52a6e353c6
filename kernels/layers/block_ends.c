#include "kernels/layers/block_ends.h"

struct tensor block_input(struct model *model, const struct block *block, struct tensor h, struct tensor rstd,
                          struct tensor scratch, struct tensor x, size_t row, size_t rows)
{
    x = tensor_rows(x, row, rows);
    if (!block->norm)
        return x;
    struct tensor normed = h.data ? tensor_rows(h, row, rows) : tensor_rows(scratch, 0, rows);
    norm_forward(model, block->norm, normed, tensor_rows(rstd, row, rows), x);
    return normed;
}

struct tensor block_input_again(struct model *model, const struct block *block, const struct kept *kept,
                                struct tensor scratch, struct tensor x, size_t row, size_t rows)
{
    if (kept->h.data)
        return tensor_rows(kept->h, row, rows);
    return block_input(model, block, tensor_none(), tensor_none(), scratch, x, row, rows);
}

void block_keep_input(struct model *model, const struct block *block, struct kept *kept, size_t n, enum keep how)
{
    if (how != KEEP_NOTHING && block->norm)
        kept->rstd = norm_statistics(model, n);
    if (how == KEEP_ALL && block->norm)
        kept->h = activation(model, n, model->config.width);
}

bool block_input_needed(const struct block *block, bool descends)
{
    return descends || (block->norm && block->norm->grad.data);
}

void block_input_backward(struct model *model, const struct block *block, const struct kept *kept, bool descends,
                          struct tensor grad, struct tensor h, struct tensor x, size_t row)
{
    if (block->norm && block_input_needed(block, descends))
        norm_backward(model, block->norm, descends ? grad : tensor_none(), true, h, tensor_rows(x, row, grad.rows),
                      tensor_rows(kept->rstd, row, grad.rows));
}

void block_keep_output(struct model *model, const struct block *block, struct kept *kept, size_t n)
{
    if (block->out_norm) {
        kept->rstd_out = norm_statistics(model, n);
        kept->out = activation(model, n, model->config.width);
    }
}

void block_output(struct model *model, const struct block *block, const struct kept *kept, size_t row,
                  struct tensor normed, struct tensor y, struct tensor onto, struct tensor in)
{
    struct device *device = model->device;
    bool apart = y.data && y.data != onto.data;
    if (block->out_norm) {
        struct tensor made = kept->out.data ? tensor_rows(kept->out, row, in.rows) : normed;
        if (apart)
            op_copy(device, y, onto);
        projection_forward(model, block->out, made, in, false);
        norm_forward(model, block->out_norm, normed, tensor_rows(kept->rstd_out, row, in.rows), made);
        if (y.data)
            op_accumulate(device, y, normed);
    } else if (apart) {
        projection_forward_onto(model, block->out, y, onto, in);
    } else if (y.data) {
        projection_forward(model, block->out, y, in, true);
    }
}

struct tensor block_output_gradient(struct model *model, const struct block *block, const struct kept *kept,
                                    size_t row, struct tensor scratch, struct tensor grad)
{
    if (!block->out_norm)
        return grad;
    scratch = tensor_rows(scratch, 0, grad.rows);
    norm_backward(model, block->out_norm, scratch, false, grad, tensor_rows(kept->out, row, grad.rows),
                  tensor_rows(kept->rstd_out, row, grad.rows));
    return scratch;
}
