// Cell memory: what a cell keeps and what it takes for a while; tensors of the device's dtype but for statistics.
#pragma once
#include "kernels/model/model.h"

// Operations that work row by row run over blocks of at most this many of their `rows` rows, so that their scratch
// does not grow with the chunk: a whole context can be one cell. GEMMs of a block still run at full speed; the
// widest are the MLP's.
static inline size_t block_rows(const struct model *model, size_t layer, size_t rows)
{
    size_t width = config_mlp(&model->config, layer)->width(&model->config, layer);
    size_t max = model->device->ops->rules->block_rows(model->device, width);
    return rows < max ? rows : max;
}
// Blocks of whole tokens of B rows each, for RoPE, which takes a position per row.
static inline size_t block_token_rows(const struct model *model, size_t layer, size_t rows, size_t B)
{
    size_t max = block_rows(model, layer, rows);
    return max > B ? max / B * B : B;
}

static inline struct tensor activation(struct model *model, size_t rows, size_t cols)
{
    return tensor_new(model->device, rows, cols, model->device->ops->dtype, CATEGORY_ACTIVATIONS);
}

static inline struct tensor scratch(struct model *model, size_t rows, size_t cols)
{
    return tensor_new(model->device, rows, cols, model->device->ops->dtype, CATEGORY_WORKSPACE);
}

static inline struct tensor statistic(struct model *model, size_t rows, size_t cols)
{
    enum dtype dtype = dtype_statistic(model->device->ops->dtype);
    return tensor_new(model->device, rows, cols, dtype, CATEGORY_ACTIVATIONS);
}
