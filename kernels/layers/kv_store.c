#include "kernels/layers/kv_store.h"
#include "kernels/device/ops.h"

static struct kv kv_new_in(struct model *model, enum place place, size_t rows, enum dtype dtype,
                           enum category category)
{
    size_t cols = model->config.kv_heads * model->config.head_dim;
    return (struct kv){tensor_new_in(model->device, place, rows, cols, dtype, category),
                       tensor_new_in(model->device, place, rows, cols, dtype, category)};
}

void kv_store_open(struct kv_store *store, struct model *model, size_t first, size_t end, enum place place,
                   size_t rows)
{
    enum dtype dtype = model->device->ops->dtype;
    *store = (struct kv_store){.model = model, .first = first, .end = end, .place = place};
    store->buffers = (struct double_buffer){
        .device = model->device, .far = place == PLACE_HOST, .count = end - first > 1 ? 2 : 1};
    store->kv = calloc(end, sizeof *store->kv);
    store->grad = calloc(end, sizeof *store->grad);
    CHECK(store->kv && store->grad);
    for (size_t l = first; l < end; l++)
        store->kv[l] = kv_new_in(model, place, rows, dtype, CATEGORY_KV_CACHE);
    for (size_t i = 0; place == PLACE_HOST && i < store->buffers.count; i++)
        store->near[i] = kv_new(model, rows, dtype, CATEGORY_KV_CACHE);
}

void kv_store_open_gradients(struct kv_store *store, enum place place, size_t rows)
{
    struct model *model = store->model;
    enum dtype dtype = model->kv_gradient_dtype;
    store->grad_place = place;
    store->buffers.far |= place == PLACE_HOST;
    for (size_t l = store->first; l < store->end; l++) {
        store->grad[l] = kv_new_in(model, place, rows, dtype, CATEGORY_KV_GRADIENTS);
        if (place == PLACE_DEVICE) {
            op_zero(model->device, store->grad[l].k);
            op_zero(model->device, store->grad[l].v);
        }
    }
    for (size_t i = 0; place == PLACE_HOST && i < store->buffers.count; i++)
        store->near_grad[i] = kv_new(model, rows, dtype, CATEGORY_KV_GRADIENTS);
}

static void prefetch(struct device *device, struct kv near, struct kv far, size_t rows)
{
    if (rows > 0) {
        copy_in(device, tensor_rows(near.k, 0, rows), tensor_rows(far.k, 0, rows));
        copy_in(device, tensor_rows(near.v, 0, rows), tensor_rows(far.v, 0, rows));
    }
}

void kv_store_prefetch(struct kv_store *store, size_t layer, struct kv_prefix prefix)
{
    struct device *device = store->model->device;
    size_t i = double_buffer_prefetch_begin(&store->buffers);
    if (store->place == PLACE_HOST)
        prefetch(device, store->near[i], store->kv[layer], prefix.kv);
    if (store->grad_place == PLACE_HOST && !prefix.fresh)
        prefetch(device, store->near_grad[i], store->grad[layer], prefix.grad);
    double_buffer_prefetch_end(&store->buffers);
}

// The layer acquired last, where operations find it.
static struct kv_layer near(const struct kv_store *store, size_t layer)
{
    size_t i = double_buffer_current(&store->buffers);
    return (struct kv_layer){.kv = store->place == PLACE_HOST ? store->near[i] : store->kv[layer],
                             .grad = store->grad_place == PLACE_HOST ? store->near_grad[i] : store->grad[layer]};
}

struct kv_layer kv_store_acquire(struct kv_store *store, size_t layer, struct kv_prefix prefix)
{
    struct device *device = store->model->device;
    double_buffer_acquire(&store->buffers);
    struct kv_layer got = near(store, layer);
    if (store->grad_place == PLACE_HOST && prefix.fresh && prefix.grad) {
        op_zero(device, tensor_rows(got.grad.k, 0, prefix.grad));
        op_zero(device, tensor_rows(got.grad.v, 0, prefix.grad));
    }
    return got;
}

static void offload(struct kv_store *store, struct kv far, struct kv near, size_t row, size_t rows)
{
    if (rows > 0) {
        double_buffer_offload(&store->buffers, tensor_rows(far.k, row, rows), tensor_rows(near.k, row, rows));
        double_buffer_offload(&store->buffers, tensor_rows(far.v, row, rows), tensor_rows(near.v, row, rows));
    }
}

void kv_store_offload(struct kv_store *store, size_t layer, size_t row, size_t rows)
{
    if (store->place == PLACE_HOST)
        offload(store, store->kv[layer], near(store, layer).kv, row, rows);
}

void kv_store_offload_gradients(struct kv_store *store, size_t layer, size_t rows)
{
    if (store->grad_place == PLACE_HOST)
        offload(store, store->grad[layer], near(store, layer).grad, 0, rows);
}

void kv_store_close(struct kv_store *store)
{
    struct model *model = store->model;
    double_buffer_close(&store->buffers);
    for (size_t l = store->first; l < store->end; l++) {
        kv_free(model, &store->grad[l]);
        kv_free(model, &store->kv[l]);
    }
    for (size_t i = 0; i < 2; i++) {
        kv_free(model, &store->near_grad[i]);
        kv_free(model, &store->near[i]);
    }
    free(store->grad);
    free(store->kv);
    *store = (struct kv_store){0};
}
