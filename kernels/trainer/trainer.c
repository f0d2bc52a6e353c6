#include "kernels/trainer/trainer.h"
#include "kernels/device/queue.h"
#include "kernels/offload/transfer.h"
#include "kernels/trainer/lost_updates.h"
#include "kernels/trainer/router_bias.h"
#include <string.h>

#define ZEROS ((size_t)1 << 20) // bytes of host memory zeroed at a time

// ---- trainable parameters

static void zero_state(struct device *device, struct tensor t)
{
    if (t.place == PLACE_DEVICE) {
        op_zero(device, t);
        return;
    }
    if (device->ops->dataless)
        return; // a plan counts no uploads
    size_t size = dtype_bytes(t.dtype), count = tensor_count(t), max = ZEROS / size;
    void *zeros = calloc(count < max ? count : max, size);
    struct tensor chunk = tensor_reshape(t, count, 1);
    for (size_t first = 0; first < count; first += max)
        op_upload(device, tensor_rows(chunk, first, count - first < max ? count - first : max), zeros);
    free(zeros);
}

// Tells whether update t accumulates the gradient projected; t 0: no update.
static bool projects(const struct trainer *trainer, const struct parameter *p, size_t t)
{
    const struct optimizer *optimizer = trainer->optimizer;
    return t > 0 && optimizer && p->projector.data && optimizer->projects && optimizer->projects(trainer, p, t);
}

static void projector_new(struct trainer *trainer, struct parameter *p)
{
    const struct model *model = trainer->model;
    struct tensor projector = {0};
    if (trainer->optimizer && trainer->optimizer->projector)
        projector = trainer->optimizer->projector(trainer, p);
    if (projector.rows > 0) {
        p->projector =
            tensor_new(model->device, projector.rows, projector.cols, projector.dtype, CATEGORY_OPTIMIZER);
        op_zero(model->device, p->projector);
    }
    p->projected = projects(trainer, p, model->update ? model->update : 1);
}

static void state_new(struct trainer *trainer, struct parameter *p)
{
    struct device *device = trainer->model->device;
    struct tensor state[PARAMETER_STATES] = {0};
    if (trainer->optimizer && trainer->optimizer->state) {
        struct parameter share = bucket_share(p);
        trainer->optimizer->state(trainer, p->bucket ? &share : p, state);
    }
    for (size_t s = 0; s < PARAMETER_STATES; s++) {
        if (state[s].rows > 0 && !p->state[s].data) {
            p->state[s] = tensor_new_in(device, trainer->optimizer_place, state[s].rows, state[s].cols,
                                        state[s].dtype, CATEGORY_OPTIMIZER);
            zero_state(device, p->state[s]);
        }
    }
}

// A parameter's role for the active block.
static struct role role_of(const struct trainer *trainer, const struct parameter *p)
{
    const struct model *model = trainer->model;
    if (!model_has(model, p) || !model_can_train(model, p))
        return (struct role){0};
    if (model->block_coordinate && trainer->optimizer && trainer->optimizer->role)
        return trainer->optimizer->role(trainer, p);
    return (struct role){.trains =
                             !model->block_coordinate || unit_of(model, p) == unit_of_layer(trainer->active.layer)};
}

static void parameter_new(struct trainer *trainer, struct parameter *p, struct role role)
{
    p->trains = role.trains;
    if (role.trains) {
        projector_new(trainer, p);
        gradients_new_one(&trainer->gradients, p);
    }
    if (role.trains || role.keeps)
        state_new(trainer, p);
    if (role.trains && trainer->optimizer && trainer->optimizer->start)
        trainer->optimizer->start(trainer, p);
}

static void unit_new(struct trainer *trainer, size_t unit)
{
    FOR_PARAMETERS (p, trainer->model, unit)
        parameter_new(trainer, p, role_of(trainer, p));
    if (unit_training(trainer->model, unit))
        bucket_new_gradients(&trainer->buckets, unit);
}

static void parameter_free(struct device *device, struct parameter *p, bool keep_state)
{
    p->trains = p->projected = false;
    tensor_free(device, &p->grad);
    tensor_free(device, &p->far_grad);
    tensor_free(device, &p->projector);
    for (size_t s = 0; s < PARAMETER_STATES && !keep_state; s++) {
        tensor_free(device, &p->state[s]);
        tensor_free(device, &p->far_state[s]);
    }
}

// Frees a unit's gradients and state; keep: except state that persists.
static void unit_free(struct trainer *trainer, size_t unit, bool keep)
{
    bucket_free_gradients(&trainer->buckets, unit);
    FOR_PARAMETERS (p, trainer->model, unit)
        parameter_free(trainer->model->device, p, keep && role_of(trainer, p).keeps);
}

// Selects the parameters that train, of the active block or all, and allocates their gradients and zeroed optimizer
// state, unless it persists.
static void choose_trained(struct trainer *trainer)
{
    struct model *model = trainer->model;
    for (size_t unit = 0; unit < unit_count(model); unit++) // frees the previous block's tensors before allocating
        unit_free(trainer, unit, true);
    for (size_t unit = 0; unit < unit_count(model); unit++)
        unit_new(trainer, unit);
    // Pipeline ranks own different layers, and pass gradients down to the ranks below.
    bool all = ranks_lowest(&model->ranks) && ranks_highest(&model->ranks);
    bool passes = !model->block_coordinate && (!all || unit_training(model, UNIT_EMBEDDING));
    model->lowest_trained = 0;
    while (!passes && model->lowest_trained + 1 < model->config.layers &&
           !unit_training(model, unit_of_layer(model->lowest_trained)))
        model->lowest_trained++;
}

// ---- active blocks

static void activate(struct trainer *trainer, size_t number, size_t layer)
{
    struct active_block now = trainer->active;
    if (!trainer->model->block_coordinate || now.number != number || now.layer != layer) {
        trainer->model->block_coordinate = true;
        trainer->active = (struct active_block){.number = number, .layer = layer};
        choose_trained(trainer);
        if (trainer->optimizer->activated)
            trainer->optimizer->activated(trainer);
    }
}

void trainer_activate_block(struct trainer *trainer, size_t layer)
{
    activate(trainer, 0, layer);
}

// ---- the update of a unit

// Tells whether anything is offloaded.
static bool travels(const struct trainer *trainer)
{
    return trainer->weights.place == PLACE_HOST || trainer->gradients.place == PLACE_HOST ||
           trainer->optimizer_place == PLACE_HOST;
}

static void update_prefetch(struct trainer *trainer, size_t unit)
{
    struct model *model = trainer->model;
    struct device *device = model->device;
    if (!travels(trainer))
        return;
    FOR_PARAMETERS (p, model, unit) {
        if (p->trains) {
            weights_prefetch_one(model, p);
            transfer_prefetch(device, &p->grad, &p->far_grad, !trainer->gradients.transits[unit].zero);
            for (size_t s = 0; s < PARAMETER_STATES; s++)
                transfer_prefetch(device, &p->state[s], &p->far_state[s], true);
        }
    }
    trainer->crossings[unit].in = event_record(device, QUEUE_IN);
}

static void update_offload(struct trainer *trainer, size_t unit)
{
    struct model *model = trainer->model;
    struct device *device = model->device;
    if (!travels(trainer))
        return;
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    FOR_PARAMETERS (p, model, unit) {
        if (p->trains) {
            weights_offload_one(model, p);
            for (size_t s = 0; s < PARAMETER_STATES; s++)
                transfer_offload(device, p->state[s], p->far_state[s]);
        }
    }
    trainer->crossings[unit].out = event_record(device, QUEUE_OUT);
}

static void update_settle(struct trainer *trainer, size_t unit)
{
    struct model *model = trainer->model;
    struct device *device = model->device;
    event_wait(device, QUEUE_COMPUTE, trainer->crossings[unit].out);
    FOR_PARAMETERS (p, model, unit) {
        if (p->trains) {
            weights_release_one(model, p);
            transfer_release(device, &p->grad, &p->far_grad);
            for (size_t s = 0; s < PARAMETER_STATES; s++)
                transfer_release(device, &p->state[s], &p->far_state[s]);
        }
    }
    trainer->crossings[unit] = (struct crossing){0};
}

// Updates this rank's share of a parameter, which can be empty.
static void update_share(struct trainer *trainer, struct parameter *p)
{
    struct model *model = trainer->model;
    struct parameter share = bucket_share(p);
    struct parameter *moved = p->bucket ? &share : p;
    if (tensor_count(share.value) == 0)
        return;
    // Counts tied embeddings once, at the first stage.
    bool measured = trainer->lost_updates && (p != model->embedding || ranks_lowest(&model->ranks));
    struct lost_update lost;
    if (measured)
        lost_update_begin(&lost, model, moved, trainer->update.age);
    trainer->optimizer->update(trainer, moved);
    if (measured)
        lost_update_end(&lost, trainer->lost_updates);
}

static void update_unit(struct trainer *trainer, size_t unit)
{
    struct model *model = trainer->model;
    event_wait(model->device, QUEUE_COMPUTE, trainer->crossings[unit].in);
    FOR_PARAMETERS (p, model, unit) {
        if (p->trains) {
            weights_acquire_one(model, p);
            update_share(trainer, p);
        }
    }
    bucket_gather(&trainer->buckets, unit);
    update_offload(trainer, unit);
}

// Updates unit by unit, while the previous one's state is offloaded and the next one's prefetched.
static void update_all(struct trainer *trainer)
{
    size_t units = unit_count(trainer->model);
    update_prefetch(trainer, 0);
    for (size_t unit = 0; unit < units; unit++) {
        if (unit > 0)
            update_settle(trainer, unit - 1);
        if (unit + 1 < units)
            update_prefetch(trainer, unit + 1);
        update_unit(trainer, unit);
    }
    update_settle(trainer, units - 1);
    for (size_t unit = 0; unit < units; unit++)
        bucket_settle(&trainer->buckets, unit);
}

static bool update_in_walk(void *updater, size_t unit)
{
    struct trainer *trainer = updater;
    if (!trainer->model->update)
        return false;
    update_prefetch(trainer, unit);
    update_unit(trainer, unit);
    update_settle(trainer, unit);
    return true;
}

// ---- the steps

void trainer_begin(struct trainer *trainer, size_t t, double rate_factor)
{
    const struct optimizer *optimizer = trainer->optimizer;
    size_t age = t;
    if (optimizer->active_layer) {
        size_t interval = optimizer_interval(optimizer, trainer->optimizer_options), number = (t - 1) / interval;
        activate(trainer, number,
                 optimizer->active_layer(trainer->optimizer_options, &trainer->model->config, number));
        age = (t - 1) % interval + 1;
    }
    trainer->model->update = t;
    trainer->update = (struct update){.age = age, .rate_factor = rate_factor};
}

void trainer_begin_again(struct trainer *trainer, size_t t, double rate_factor)
{
    trainer->model->update = t;
    trainer->update = (struct update){.age = t, .rate_factor = rate_factor};
}

void trainer_zero(struct trainer *trainer)
{
    struct model *model = trainer->model;
    model->micro_batch = 0;
    for (size_t i = 0; i < model->parameter_count;
         i++) { // frees changed gradients before allocating their replacements
        struct parameter *p = &model->parameters[i];
        bool before = p->projected;
        p->projected = projects(trainer, p, model->update);
        if (p->projected != before)
            tensor_free(model->device, &p->grad);
    }
    gradients_zero(&trainer->gradients);
    router_bias_zero(model);
}

void trainer_expect_more(struct trainer *trainer, bool more)
{
    trainer->buckets.adds_more = more;
}

void trainer_update(struct trainer *trainer)
{
    if (!trainer->buckets.in_backward)
        update_all(trainer);
    router_bias_move(trainer->model);
    trainer_cancel(trainer);
}

void trainer_cancel(struct trainer *trainer)
{
    trainer->model->update = 0;
    trainer->update = (struct update){0};
}

// ---- the model's keeper

static struct trainer *trainer_of(struct unit_keeper *keeper)
{
    return (struct trainer *)((char *)keeper - offsetof(struct trainer, keeper));
}

static void keeper_prefetch(struct unit_keeper *keeper, size_t unit)
{
    weights_prefetch(&trainer_of(keeper)->weights, unit);
}

static void keeper_acquire(struct unit_keeper *keeper, size_t unit)
{
    weights_acquire(&trainer_of(keeper)->weights, unit);
}

static void keeper_add(struct unit_keeper *keeper, size_t unit)
{
    gradients_acquire(&trainer_of(keeper)->gradients, unit);
}

static void keeper_release(struct unit_keeper *keeper, size_t unit)
{
    weights_release(&trainer_of(keeper)->weights, unit);
}

static void keeper_done(struct unit_keeper *keeper, size_t unit)
{
    gradients_release(&trainer_of(keeper)->gradients, unit);
}

static void keeper_settle(struct unit_keeper *keeper)
{
    gradients_settle(&trainer_of(keeper)->gradients);
    weights_settle(&trainer_of(keeper)->weights);
}

static void keeper_sum_ends(struct unit_keeper *keeper)
{
    gradients_sum_ends(&trainer_of(keeper)->gradients);
}

// ---- opened and closed

void trainer_open(struct trainer *trainer, struct model *model, const struct config *config,
                  const struct trainer_options *options, struct device *device)
{
    const struct optimizer *optimizer = options->optimizer;
    model_open(model, config, &options->lora, options->ranks, device);
    model->lora_beside = options->lora_beside || (optimizer && optimizer->lora == LORA_BESIDE);
    model->latent_block = options->latent_block;
    model->router_losses = options->router_losses;
    if (model->router_losses.bias_update > 0)
        model->router_counts =
            calloc(config->layers * config->experts.routing.experts, sizeof *model->router_counts);
    CHECK(model->router_counts || model->router_losses.bias_update == 0);
    model->kv_gradient_dtype = options->kv_gradient_dtype;
    model->gradient_dtype = options->gradient_dtype;
    model->kv_gradient_stochastic = options->kv_gradient_stochastic && options->kv_gradient_dtype == DTYPE_BF16;
    model->seed = options->seed;
    bool far = options->weights_place || options->gradients_place || options->optimizer_place;
    CHECK(!options->quantisation || (model->lora.rank && !model->lora_beside));
    CHECK(model->ranks.replicas.size == 1 || !far);
    *trainer = (struct trainer){.model = model,
                                .optimizer_place = options->optimizer_place,
                                .optimizer = optimizer,
                                .optimizer_options = options->optimizer_options,
                                .keeps_gradients =
                                    !optimizer || optimizer_keeps_gradients(optimizer, options->optimizer_options)};
    trainer->seen = calloc(config->layers, sizeof *trainer->seen);
    trainer->crossings = calloc(unit_count(model), sizeof *trainer->crossings);
    bool in_backward = optimizer && optimizer_updates_in_backward(optimizer, options->optimizer_options);
    trainer->buckets = (struct buckets){.quantisation = options->quantisation, .in_backward = in_backward};
    weights_quantise(model, options->quantisation, options->dequantised);
    buckets_open(&trainer->buckets, model);
    weights_open(&trainer->weights, model, &trainer->buckets, options->weights_place);
    gradients_open(&trainer->gradients, model, &trainer->buckets, options->gradients_place);
    trainer->gradients.update = update_in_walk;
    trainer->gradients.updater = trainer;
    trainer->keeper =
        (struct unit_keeper){.prefetch = keeper_prefetch,
                             .acquire = keeper_acquire,
                             .add = keeper_add,
                             .release = keeper_release,
                             .done = keeper_done,
                             .settle = keeper_settle,
                             .sum_ends = keeper_sum_ends,
                             .gradients_stay = options->gradients_place == PLACE_DEVICE && !in_backward};
    model->keeper = &trainer->keeper;
    if (optimizer && optimizer->active_layer)
        trainer_activate_block(trainer, optimizer->active_layer(options->optimizer_options, config, 0));
    else
        choose_trained(trainer);
}

void trainer_close(struct trainer *trainer)
{
    struct model *model = trainer->model;
    if (!model)
        return;
    for (size_t unit = 0; unit < unit_count(model); unit++)
        unit_free(trainer, unit, false);
    gradients_close(&trainer->gradients);
    weights_close(&trainer->weights);
    buckets_close(&trainer->buckets);
    free(model->router_counts);
    free(trainer->seen);
    free(trainer->crossings);
    model_close(model);
    *trainer = (struct trainer){0};
}
