#include "kernels/attention/kv.h"

struct kv kv_new(struct model *model, size_t rows, enum dtype dtype, enum category category)
{
    size_t cols = model->config.kv_heads * model->config.head_dim;
    return (struct kv){tensor_new(model->device, rows, cols, dtype, category),
                       tensor_new(model->device, rows, cols, dtype, category)};
}

void kv_free(struct model *model, struct kv *kv)
{
    tensor_free(model->device, &kv->k);
    tensor_free(model->device, &kv->v);
}

struct kv kv_rows(struct kv kv, size_t start, size_t count)
{
    return (struct kv){tensor_rows(kv.k, start, count), tensor_rows(kv.v, start, count)};
}
