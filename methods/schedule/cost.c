#include "methods/schedule/cost.h"

static double element(const struct model *model)
{
    return dtype_bytes(model->device->ops->dtype);
}
static double statistic(const struct model *model)
{
    return dtype_bytes(dtype_statistic(model->device->ops->dtype));
}
static double kv_width(const struct model *model)
{
    return model->config.kv_heads * model->config.head_dim;
}

double cost_input(const struct model *model)
{
    return ranks_lowest(&model->ranks) ? 0 : cost_hidden(model);
}
double cost_hidden(const struct model *model)
{
    return model->config.width * element(model);
}
double cost_kv(const struct model *model)
{
    return 2 * kv_width(model) * element(model);
}
double cost_kv_gradients(const struct model *model)
{
    return 2 * kv_width(model) * dtype_bytes(model->kv_gradient_dtype);
}
// Minimum number of ranks whose keys and values of a layer are resident at once.
static double ranks_at_once(const struct model *model)
{
    double ranks = (double)model->ranks.sequence.size, heads = (double)model->config.kv_heads;
    enum exchange exchange = model->ranks.exchange;
    return exchange == EXCHANGE_GATHER                        ? ranks
           : exchange == EXCHANGE_ALL_TO_ALL && heads < ranks ? ranks / heads
                                                              : 1;
}
double cost_layer_kv(const struct model *model)
{
    return cost_kv(model) * ranks_at_once(model);
}
double cost_layer_kv_gradients(const struct model *model)
{
    return cost_kv_gradients(model) * ranks_at_once(model);
}

double cost_attention(const struct model *model)
{
    const struct config *c = &model->config;
    return (double)(c->heads * c->head_dim) * element(model) + (double)c->heads * statistic(model);
}

double cost_cell(const struct model *model)
{
    const struct config *c = &model->config;
    double elements = 2.0 * c->heads * c->head_dim + c->width + 2.0 * c->ffn, statistics = c->heads + 2;
    if (c->qk_norm) {
        elements += kv_width(model);
        statistics += c->whole_qk_norm ? 2 : c->heads + c->kv_heads;
    }
    if (c->norms != NORMS_BEFORE) {
        elements += 2.0 * c->width; // block outputs before their norms
        statistics += c->norms == NORMS_AROUND ? 2 : 0;
    }
    return elements * element(model) + statistics * statistic(model);
}
