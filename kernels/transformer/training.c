#include "kernels/transformer/training.h"
#include "kernels/base/queue.h"
#include "kernels/transformer/bucket.h"
#include "kernels/transformer/lost_updates.h"
#include "kernels/transformer/optimizer.h"
#include "kernels/transformer/projector.h"
#include "kernels/transformer/unit_parameters.h"
#include "kernels/transformer/weights.h"
#include <string.h>

#define ZEROS ((size_t)1 << 20) // bytes of the host's that are zeroed at a time

static void zero_state(struct device *device, struct tensor t)
{
    if (t.place == PLACE_DEVICE) {
        op_zero(device, t);
        return;
    }
    if (device->ops->dataless) {
        return; // an upload costs nothing that counts
    }
    size_t size = dtype_bytes(t.dtype), count = tensor_count(t), most = ZEROS / size;
    void *zeros = calloc(count < most ? count : most, size);
    CHECK(zeros);
    struct tensor column = tensor_reshape(t, count, 1);
    for (size_t first = 0; first < count; first += most) {
        op_upload(device, tensor_rows(column, first, count - first < most ? count - first : most), zeros);
    }
    free(zeros);
}

// Whether update t sums the gradient in the projector's directions; 0: there is none.
static bool projects(const struct model *model, const struct parameter *p, size_t t)
{
    const struct optimizer *optimizer = model->optimizer;
    return t > 0 && optimizer && p->projector.data && optimizer->projects && optimizer->projects(model, p, t);
}

// A gradient that is not set.
static struct tensor gradient_new(struct model *model, struct parameter *p, enum place place)
{
    struct tensor shape = p->value;
    if (p->projected) {
        shape = projected_shape(shape.rows, shape.cols, projector_rank(p->projector, shape.rows, shape.cols));
    }
    return tensor_new_in(model->device, place, shape.rows, shape.cols, model->gradient_dtype, CATEGORY_GRADIENTS);
}

static void projector_new(struct model *model, struct parameter *p)
{
    struct device *device = model->device;
    struct tensor projector = {0};
    if (model->optimizer && model->optimizer->projector) {
        projector = model->optimizer->projector(model, p);
    }
    if (projector.rows > 0) {
        p->projector = tensor_new(device, projector.rows, projector.cols, projector.dtype, CATEGORY_OPTIMIZER);
        op_zero(device, p->projector);
    }
    p->projected = projects(model, p, model->update.t ? model->update.t : 1);
}

static void state_new(struct model *model, struct parameter *p)
{
    struct device *device = model->device;
    struct tensor state[PARAMETER_STATES] = {0};
    if (model->optimizer && model->optimizer->state) {
        struct parameter share = bucket_share(model, p);
        model->optimizer->state(model, p->bucket ? &share : p, state);
    }
    for (size_t s = 0; s < PARAMETER_STATES; s++) {
        if (state[s].rows > 0 && !p->state[s].data) {
            p->state[s] = tensor_new_in(device, model->optimizer_place, state[s].rows, state[s].cols,
                                        state[s].dtype, CATEGORY_OPTIMIZER);
            zero_state(device, p->state[s]);
        }
    }
}

static void parameter_new(struct model *model, struct parameter *p, struct role role)
{
    p->trains = role.trains;
    if (role.trains) {
        projector_new(model, p);
    }
    if (role.trains && !model->updates_in_walk && !p->bucket) {
        p->grad = gradient_new(model, p, model->gradients_place);
    }
    if (role.trains || role.keeps) {
        state_new(model, p);
    }
    if (role.trains && model->optimizer && model->optimizer->start) {
        model->optimizer->start(model, p);
    }
}

void training_new(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    for (size_t i = 0; i < parameters.count; i++) {
        parameter_new(model, &parameters.items[i], model_role(model, &parameters.items[i]));
    }
    if (unit_training(model, unit)) {
        bucket_new_gradients(model, unit);
    }
}

static void parameter_free(struct model *model, struct parameter *p, bool keep_state)
{
    p->trains = p->projected = false;
    tensor_free(model->device, &p->grad);
    tensor_free(model->device, &p->far_grad);
    tensor_free(model->device, &p->projector);
    for (size_t s = 0; s < PARAMETER_STATES && !keep_state; s++) {
        tensor_free(model->device, &p->state[s]);
        tensor_free(model->device, &p->far_state[s]);
    }
}

void training_free(struct model *model, size_t unit, bool keep)
{
    struct parameters parameters = unit_parameters(model, unit);
    bucket_free_gradients(model, unit);
    for (size_t i = 0; i < parameters.count; i++) {
        struct parameter *p = &parameters.items[i];
        parameter_free(model, p, keep && model_role(model, p).keeps);
    }
}

// t, of the host, becomes a tensor of the device; far is what it was.
static void prefetch(struct device *device, struct tensor *t, struct tensor *far, bool copied)
{
    if (t->place == PLACE_HOST) {
        *far = *t;
        if (copied) {
            *t = tensor_copy_in(device, *far);
        } else {
            *t = tensor_new(device, far->rows, far->cols, far->dtype, far->category);
            op_zero(device, *t);
        }
    }
}

static void offload(struct device *device, struct tensor t, struct tensor far)
{
    if (far.data) {
        copy_out(device, far, t);
    }
}

static void release(struct device *device, struct tensor *t, struct tensor *far)
{
    if (far->data) {
        tensor_free(device, t);
        *t = *far;
        *far = tensor_none();
    }
}

// ---- gradients

// Of a model that has none between steps: unless there are any, zero.
static void gradients_make(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    for (size_t i = 0; i < parameters.count; i++) {
        struct parameter *p = &parameters.items[i];
        if (p->trains && !p->bucket && !p->grad.data) {
            p->grad = gradient_new(model, p, PLACE_DEVICE);
            op_zero(model->device, p->grad);
        }
    }
}

static void gradients_free(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    bucket_free_gradients(model, unit);
    for (size_t i = 0; i < parameters.count; i++) {
        tensor_free(model->device, &parameters.items[i].grad);
    }
}

void gradients_shape(struct model *model)
{
    for (size_t i = 0; i < model->parameter_count; i++) { // what changes goes before what comes in its place
        struct parameter *p = &model->parameters[i];
        bool before = p->projected;
        p->projected = projects(model, p, model->update.t);
        if (p->projected != before) {
            tensor_free(model->device, &p->grad);
        }
    }
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (p->trains && !p->bucket && !model->updates_in_walk && !p->grad.data) {
            p->grad = gradient_new(model, p, model->gradients_place);
        }
    }
}

void gradients_drop(struct model *model)
{
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        gradients_free(model, unit);
    }
}

void gradients_acquire(struct model *model, size_t unit)
{
    struct device *device = model->device;
    struct transit *transit = &model->transits[unit];
    struct parameters parameters = unit_parameters(model, unit);
    bucket_add(model, unit);
    if (model->updates_in_walk) {
        gradients_make(model, unit);
        return;
    }
    if (model->gradients_place != PLACE_HOST || transit->adding) {
        return;
    }
    for (size_t i = 0; i < parameters.count; i++) {
        prefetch(device, &parameters.items[i].grad, &parameters.items[i].far_grad, !transit->zero);
    }
    if (!transit->zero) {
        event_wait(device, QUEUE_COMPUTE, event_record(device, QUEUE_IN));
    }
    transit->adding = true;
    transit->zero = false;
}

// What is on its way to the host is there.
static void release_offloaded(struct model *model)
{
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct transit *transit = &model->transits[unit];
        struct parameters parameters = unit_parameters(model, unit);
        if (transit->offloading) {
            event_wait(model->device, QUEUE_COMPUTE, transit->out);
            for (size_t i = 0; i < parameters.count; i++) {
                release(model->device, &parameters.items[i].grad, &parameters.items[i].far_grad);
            }
            transit->offloading = false;
        }
    }
}

// ---- updates

// Whether anything is to be brought.
static bool travels(const struct model *model)
{
    return model->weights_place == PLACE_HOST || model->gradients_place == PLACE_HOST ||
           model->optimizer_place == PLACE_HOST;
}

static void update_prefetch(struct model *model, size_t unit)
{
    struct device *device = model->device;
    struct parameters parameters = unit_parameters(model, unit);
    if (!travels(model)) {
        return;
    }
    for (size_t i = 0; i < parameters.count; i++) {
        struct parameter *p = &parameters.items[i];
        if (p->trains) {
            weights_prefetch_one(model, p);
            prefetch(device, &p->grad, &p->far_grad, !model->transits[unit].zero);
            for (size_t s = 0; s < PARAMETER_STATES; s++) {
                prefetch(device, &p->state[s], &p->far_state[s], true);
            }
        }
    }
    model->transits[unit].in = event_record(device, QUEUE_IN);
}

static void update_offload(struct model *model, size_t unit)
{
    struct device *device = model->device;
    struct parameters parameters = unit_parameters(model, unit);
    if (!travels(model)) {
        return;
    }
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    for (size_t i = 0; i < parameters.count; i++) {
        struct parameter *p = &parameters.items[i];
        if (p->trains) {
            weights_offload_one(model, p);
            for (size_t s = 0; s < PARAMETER_STATES; s++) {
                offload(device, p->state[s], p->far_state[s]);
            }
        }
    }
    model->transits[unit].out = event_record(device, QUEUE_OUT);
}

static void update_settle(struct model *model, size_t unit)
{
    struct device *device = model->device;
    struct parameters parameters = unit_parameters(model, unit);
    event_wait(device, QUEUE_COMPUTE, model->transits[unit].out);
    for (size_t i = 0; i < parameters.count; i++) {
        struct parameter *p = &parameters.items[i];
        if (p->trains) {
            weights_release_one(model, p);
            release(device, &p->grad, &p->far_grad);
            for (size_t s = 0; s < PARAMETER_STATES; s++) {
                release(device, &p->state[s], &p->far_state[s]);
            }
        }
    }
    model->transits[unit] = (struct transit){.zero = model->transits[unit].zero};
}

// Of a parameter what this rank moves; it can be nothing.
static void update_share(struct model *model, struct parameter *p)
{
    struct parameter share = bucket_share(model, p);
    struct parameter *moved = p->bucket ? &share : p;
    if (tensor_count(share.value) == 0) {
        return;
    }
    // Of a tied table's two ends one counts.
    if (model->lost_updates && (p != model->embedding || ranks_lowest(&model->ranks))) {
        lost_updates_add(model->lost_updates, model, moved);
    } else {
        model->optimizer->update(model, moved);
    }
}

static void update_unit(struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    event_wait(model->device, QUEUE_COMPUTE, model->transits[unit].in);
    for (size_t i = 0; i < parameters.count; i++) {
        if (parameters.items[i].trains) {
            weights_acquire_one(model, &parameters.items[i]);
            update_share(model, &parameters.items[i]);
        }
    }
    bucket_gather(model, unit);
    update_offload(model, unit);
}

void training_update(struct model *model)
{
    size_t units = unit_count(model);
    update_prefetch(model, 0);
    for (size_t unit = 0; unit < units; unit++) {
        if (unit > 0) {
            update_settle(model, unit - 1);
        }
        if (unit + 1 < units) {
            update_prefetch(model, unit + 1);
        }
        update_unit(model, unit);
    }
    update_settle(model, units - 1);
    for (size_t unit = 0; unit < units; unit++) {
        bucket_settle(model, unit);
    }
}

// ---- complete

// Summed over ranks.
static void complete_unit(struct model *model, size_t unit)
{
    struct device *device = model->device;
    struct transit *transit = &model->transits[unit];
    struct parameters parameters = unit_parameters(model, unit);
    if (model->updates_in_walk) {
        gradients_make(model, unit); // the same
        if (model->update.t > 0) {
            update_prefetch(model, unit);
            update_unit(model, unit);
            update_settle(model, unit);
            gradients_free(model, unit);
        }
        return;
    }
    bucket_keep_share(model, unit);
    release_offloaded(model);
    if (transit->zero) { // nothing was added
        gradients_acquire(model, unit);
    }
    if (transit->adding) {
        event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
        for (size_t i = 0; i < parameters.count; i++) {
            offload(device, parameters.items[i].grad, parameters.items[i].far_grad);
        }
        transit->out = event_record(device, QUEUE_OUT);
        transit->adding = false;
        transit->offloading = true;
    }
}

// Sums that are under way come on; the units of those that are complete are completed. Whether any are under way
// still.
static bool advance_sums(struct model *model)
{
    bool any = false;
    for (size_t unit = unit_count(model); unit-- > 0;) { // in the order of a backward pass
        if (bucket_is_summing(model, unit)) {
            bucket_advance_sum(model, unit);
            if (bucket_is_summing(model, unit)) {
                any = true;
            } else {
                complete_unit(model, unit);
            }
        }
    }
    return any;
}

void gradients_release(struct model *model, size_t unit)
{
    bucket_add(model, unit); // of a unit that nothing was added to
    advance_sums(model);
    bucket_sum(model, unit);
    if (!bucket_is_summing(model, unit)) {
        complete_unit(model, unit);
    }
}

void gradients_settle(struct model *model)
{
    while (advance_sums(model)) {
    }
    release_offloaded(model);
}
