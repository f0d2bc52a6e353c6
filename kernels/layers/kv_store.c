#include "kernels/layers/kv_store.h"
#include "kernels/device/ops.h"

// A buffer on the device for any layer's carry on the host: each tensor as large as the largest.
static struct carry staging_new(struct model *model, const struct kv_store *store, const struct carry *host)
{
    struct carry staged = {0};
    for (size_t i = 0; i < CARRY_TENSORS; i++) {
        struct tensor *t = &staged.t[i];
        for (size_t l = store->first; l < store->end; l++)
            if (host[l].t[i].place == PLACE_HOST && tensor_bytes(host[l].t[i]) > tensor_bytes(*t))
                *t = host[l].t[i];
        if (t->cols > 0)
            *t = tensor_new(model->device, t->rows, t->cols, t->dtype, t->category);
    }
    return staged;
}

void kv_store_open(struct kv_store *store, struct model *model, size_t first, size_t end, enum place place,
                   struct carry_size size)
{
    *store = (struct kv_store){.model = model, .first = first, .end = end, .place = place};
    store->buffers = (struct double_buffer){
        .device = model->device, .copies = place == PLACE_HOST, .count = end - first > 1 ? 2 : 1};
    store->kv = calloc(end, sizeof *store->kv);
    store->grad = calloc(end, sizeof *store->grad);
    CHECK(store->kv && store->grad);
    for (size_t l = first; l < end; l++)
        store->kv[l] = carry_new(model, l, place, size);
    for (size_t i = 0; place == PLACE_HOST && i < store->buffers.count; i++)
        store->staged[i] = staging_new(model, store, store->kv);
}

static bool is_offloaded(struct carry carry)
{
    return carry.t[0].place == PLACE_HOST;
}

void kv_store_open_gradients(struct kv_store *store, enum place place, struct carry_size size)
{
    struct model *model = store->model;
    store->buffers.copies |= place == PLACE_HOST;
    for (size_t l = store->first; l < store->end; l++) {
        store->grad[l] = carry_gradient_new(model, l, place, size);
        if (!is_offloaded(store->grad[l]))
            carry_zero(model, store->grad[l]);
    }
    for (size_t i = 0; place == PLACE_HOST && i < store->buffers.count; i++)
        store->staged_grad[i] = staging_new(model, store, store->grad);
}

static void prefetch(struct device *device, struct carry staged, struct carry host)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        if (host.t[i].rows > 0 && host.t[i].cols > 0)
            copy_in(device, staged.t[i], host.t[i]);
}

// A layer's carry in the buffer that may be larger.
static struct carry as_layer(struct carry buffer, struct carry host)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++) {
        host.t[i].data = host.t[i].cols > 0 ? buffer.t[i].data : NULL;
        host.t[i].place = PLACE_DEVICE;
    }
    return host;
}

static struct carry staged_kv(const struct kv_store *store, size_t layer, size_t buffer)
{
    return store->place == PLACE_HOST ? as_layer(store->staged[buffer], store->kv[layer]) : store->kv[layer];
}
static struct carry staged_grad(const struct kv_store *store, size_t layer, size_t buffer)
{
    struct carry grad = store->grad[layer];
    return is_offloaded(grad) ? as_layer(store->staged_grad[buffer], grad) : grad;
}

static void prefetch_kv(struct kv_store *store, size_t layer, size_t buffer, struct kv_prefix prefix)
{
    struct carry staged = staged_kv(store, layer, buffer), host = store->kv[layer];
    size_t row = 0, rows = prefix.projects ? 0 : prefix.kv;
    if (host.border && prefix.start == 0)
        return;
    if (host.border)
        row = prefix.start - host.border, rows = host.border;
    prefetch(store->model->device, carry_rows(staged, row, rows), carry_rows(host, row, rows));
}

static void prefetch_gradients(struct kv_store *store, size_t layer, size_t buffer, struct kv_prefix prefix)
{
    struct carry staged = staged_grad(store, layer, buffer), host = store->grad[layer];
    bool slides = host.own > 0;
    prefetch(store->model->device, slides ? carry_moved(staged, prefix.start) : carry_rows(staged, 0, prefix.grad),
             slides ? carry_alive(host, prefix.start + host.own) : carry_rows(host, 0, prefix.grad));
}

void kv_store_prefetch(struct kv_store *store, size_t layer, struct kv_prefix prefix)
{
    size_t i = double_buffer_prefetch_begin(&store->buffers);
    if (store->place == PLACE_HOST)
        prefetch_kv(store, layer, i, prefix);
    if (is_offloaded(store->grad[layer]) && !prefix.fresh)
        prefetch_gradients(store, layer, i, prefix);
    double_buffer_prefetch_end(&store->buffers);
}

// The layer acquired last, where operations find it.
static struct kv_layer acquired(const struct kv_store *store, size_t layer)
{
    size_t i = double_buffer_current(&store->buffers);
    return (struct kv_layer){staged_kv(store, layer, i), staged_grad(store, layer, i)};
}

struct kv_layer kv_store_acquire(struct kv_store *store, size_t layer, struct kv_prefix prefix)
{
    double_buffer_acquire(&store->buffers);
    struct kv_layer got = acquired(store, layer);
    bool offloaded = is_offloaded(store->grad[layer]);
    if (offloaded && prefix.fresh && prefix.grad)
        carry_zero(store->model, got.grad.own ? got.grad : carry_rows(got.grad, 0, prefix.grad));
    else if (!prefix.fresh && prefix.grad && got.grad.own)
        (offloaded ? carry_zero_new : carry_slide)(store->model, got.grad, prefix.start);
    return got;
}

static void offload(struct kv_store *store, struct carry host, struct carry staged)
{
    for (size_t i = 0; i < CARRY_TENSORS; i++)
        if (host.t[i].rows > 0 && host.t[i].cols > 0)
            double_buffer_offload(&store->buffers, host.t[i], staged.t[i]);
}

void kv_store_offload(struct kv_store *store, size_t layer, size_t row, size_t rows)
{
    if (store->place == PLACE_HOST)
        offload(store, carry_rows(store->kv[layer], row, rows), carry_rows(acquired(store, layer).kv, row, rows));
}

void kv_store_offload_gradients(struct kv_store *store, size_t layer, size_t rows)
{
    struct carry host = store->grad[layer], staged = acquired(store, layer).grad;
    if (is_offloaded(host))
        offload(store, host.own ? carry_alive(host, rows) : carry_rows(host, 0, rows),
                host.own ? carry_alive(staged, rows) : carry_rows(staged, 0, rows));
}

void kv_store_close(struct kv_store *store)
{
    struct model *model = store->model;
    double_buffer_close(&store->buffers);
    for (size_t l = store->first; l < store->end; l++) {
        carry_free(model, &store->grad[l]);
        carry_free(model, &store->kv[l]);
    }
    for (size_t i = 0; i < 2; i++) {
        carry_free(model, &store->staged_grad[i]);
        carry_free(model, &store->staged[i]);
    }
    free(store->grad);
    free(store->kv);
    *store = (struct kv_store){0};
}
