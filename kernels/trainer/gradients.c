#include "kernels/trainer/gradients.h"
#include "kernels/device/queue.h"
#include "kernels/layers/projector.h"
#include "kernels/offload/transfer.h"

void gradients_open(struct gradients *gradients, struct model *model, struct buckets *buckets, enum place place)
{
    *gradients = (struct gradients){.model = model, .buckets = buckets, .place = place};
    gradients->transits = calloc(unit_count(model), sizeof *gradients->transits);
}

void gradients_close(struct gradients *gradients)
{
    free(gradients->transits);
}

// Uninitialised.
static struct tensor gradient_new(const struct model *model, const struct parameter *p, enum place place)
{
    struct tensor shape = p->value;
    if (p->projected)
        shape = projected_shape(shape.rows, shape.cols, projector_rank(p->projector, shape.rows, shape.cols));
    return tensor_new_in(model->device, place, shape.rows, shape.cols, model->gradient_dtype, CATEGORY_GRADIENTS);
}

void gradients_new_one(struct gradients *gradients, struct parameter *p)
{
    if (p->trains && !p->bucket && !gradients->buckets->in_backward && !p->grad.data)
        p->grad = gradient_new(gradients->model, p, gradients->place);
}

// Allocates the unit's missing gradients, zeroed, if they live only within the backward pass.
static void make(struct gradients *gradients, size_t unit)
{
    struct model *model = gradients->model;
    FOR_PARAMETERS (p, model, unit) {
        if (p->trains && !p->bucket && !p->grad.data) {
            p->grad = gradient_new(model, p, PLACE_DEVICE);
            op_zero(model->device, p->grad);
        }
    }
}

static void drop(struct gradients *gradients, size_t unit)
{
    bucket_free_gradients(gradients->buckets, unit);
    FOR_PARAMETERS (p, gradients->model, unit)
        tensor_free(gradients->model->device, &p->grad);
}

static void zero(struct gradients *gradients, size_t unit)
{
    struct transit *transit = &gradients->transits[unit];
    transit->zero = gradients->place == PLACE_HOST;
    bucket_zero_gradients(gradients->buckets, unit);
    FOR_PARAMETERS (p, gradients->model, unit)
        if (p->grad.data && !p->bucket && !transit->zero)
            op_zero(gradients->model->device, p->grad);
}

void gradients_zero(struct gradients *gradients)
{
    struct model *model = gradients->model;
    for (size_t i = 0; i < model->parameter_count; i++)
        gradients_new_one(gradients, &model->parameters[i]);
    for (size_t unit = 0; unit < unit_count(model); unit++)
        if (gradients->buckets->in_backward)
            drop(gradients, unit);
        else
            zero(gradients, unit);
}

void gradients_acquire(struct gradients *gradients, size_t unit)
{
    struct device *device = gradients->model->device;
    struct transit *transit = &gradients->transits[unit];
    bucket_add(gradients->buckets, unit);
    if (gradients->buckets->in_backward) {
        make(gradients, unit);
        return;
    }
    if (gradients->place != PLACE_HOST || transit->adding)
        return;
    FOR_PARAMETERS (p, gradients->model, unit)
        transfer_prefetch(device, &p->grad, &p->far_grad, !transit->zero);
    if (!transit->zero)
        event_wait(device, QUEUE_COMPUTE, event_record(device, QUEUE_IN));
    transit->adding = true;
    transit->zero = false;
}

// Waits for gradients in transit to the host and frees them on the device.
static void release_offloaded(struct gradients *gradients)
{
    struct model *model = gradients->model;
    for (size_t unit = 0; unit < unit_count(model); unit++) {
        struct transit *transit = &gradients->transits[unit];
        if (transit->offloading) {
            event_wait(model->device, QUEUE_COMPUTE, transit->out);
            FOR_PARAMETERS (p, model, unit)
                transfer_release(model->device, &p->grad, &p->far_grad);
            transit->offloading = false;
        }
    }
}

static void offload(struct gradients *gradients, size_t unit)
{
    struct device *device = gradients->model->device;
    struct transit *transit = &gradients->transits[unit];
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    FOR_PARAMETERS (p, gradients->model, unit)
        transfer_offload(device, p->grad, p->far_grad);
    transit->out = event_record(device, QUEUE_OUT);
    transit->adding = false;
    transit->offloading = true;
}

// Completes a unit whose gradients are summed over ranks.
static void complete(struct gradients *gradients, size_t unit)
{
    struct transit *transit = &gradients->transits[unit];
    if (gradients->buckets->in_backward) {
        make(gradients, unit); // for a unit without additions
        if (gradients->update(gradients->updater, unit))
            drop(gradients, unit);
        return;
    }
    bucket_keep_share(gradients->buckets, unit);
    release_offloaded(gradients);
    if (transit->zero) // without additions
        gradients_acquire(gradients, unit);
    if (transit->adding)
        offload(gradients, unit);
}

// Advances sums in transit and completes the units whose sums are done. Returns whether any are left.
static bool advance_sums(struct gradients *gradients)
{
    bool any = false;
    for (size_t unit = unit_count(gradients->model); unit-- > 0;) { // in the order of a backward pass
        if (bucket_is_summing(gradients->buckets, unit)) {
            bucket_advance_sum(gradients->buckets, unit);
            if (bucket_is_summing(gradients->buckets, unit))
                any = true;
            else
                complete(gradients, unit);
        }
    }
    return any;
}

void gradients_release(struct gradients *gradients, size_t unit)
{
    bucket_add(gradients->buckets, unit); // for a unit without additions
    advance_sums(gradients);
    bucket_sum(gradients->buckets, unit);
    if (!bucket_is_summing(gradients->buckets, unit))
        complete(gradients, unit);
}

void gradients_settle(struct gradients *gradients)
{
    while (advance_sums(gradients)) {
    }
    release_offloaded(gradients);
}

void gradients_sum_ends(struct gradients *gradients)
{
    const struct model *model = gradients->model;
    const struct comm *pipeline = &model->ranks.pipeline;
    bool end = ranks_lowest(&model->ranks) || ranks_highest(&model->ranks);
    if (model->config.tied && pipeline->size > 1 && end && model->embedding->trains &&
        !gradients->buckets->adds_more) {
        struct comm ends = comm_part(pipeline, 0, pipeline->size - 1, 2);
        struct parameter share = bucket_share(model->embedding); // the same at both ends
        comm_sum(&ends, model->device, share.grad);
    }
}
