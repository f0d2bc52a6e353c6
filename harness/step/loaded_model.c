#include "harness/step/loaded_model.h"
#include "harness/folder/folder.h"
#include "kernels/trainer/random_weights.h"
#include "kernels/trainer/trainer.h"
#include <string.h>

// Initialises LoRA's factors for training, as PEFT does: B, or the embedding's A, is 0, so the model is unchanged.
// Measured steps use random ones (random_weights_set), so that no gradient is zero.
static void begin_factors(struct model *model)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        bool zero = p == model->input.lora_a || (p->factor == FACTOR_B && p != model->input.lora_b);
        if (!model_has(model, p) || !zero)
            continue;
        size_t count = tensor_count(p->value);
        double *zeros = calloc(count + 1, sizeof *zeros);
        weights_write(model, p, p->first, count, zeros, DTYPE_F64);
        free(zeros);
    }
}

static bool read_weights(struct model *model, const struct trial *trial, struct status *status)
{
    if (!trial->model_folder)
        random_weights_set(model, trial->seed, trial->dtype);
    else if (!folder_read_weights(trial->model_folder, model, trial->seed, trial->dtype, status))
        return false;
    if (trial->train.steps)
        begin_factors(model);
    return !trial->adapter_folder || folder_read_adapter(trial->adapter_folder, model, trial->dtype, status);
}

void planned_card(struct device *device, const struct trial *trial)
{
    if (!device->ops->dataless || !trial->profile)
        return;
    device->multiprocessors = (size_t)trial->profile->multiprocessors.value;
    device->compute_capability = (size_t)(10 * trial->profile->compute_capability.value + 0.5);
}

bool loaded_model_open(struct device **opened, struct trainer *trainer, struct model *model,
                       const struct trial *trial, const struct setup_options *options, struct status *status)
{
    struct device *device = *opened =
        device_open(options->device, options->dtype, options->memory_limit_bytes, status);
    *trainer = (struct trainer){0};
    *model = (struct model){0};
    if (!device)
        return false;
    if (options->host_memory_limit_bytes ||
        options->host_folder) { // a folder's disk reports itself when it is full
        arena_limit(&device->host, options->host_memory_limit_bytes, NULL);
        device->host.shared_bytes = 0;
    }
    if (options->host_folder)
        device->arena.shared_bytes = 0;
    device->host_folder = options->host_folder;
    device->deterministic = options->deterministic;
    device->tf32 = options->tf32;
    device->reverse_sums = options->reverse_sums;
    device->whole_attention = options->whole_attention;
    device->attention_queries = options->attention_queries;
    device->whole_keys = options->whole_keys;
    device->unfused = options->unfused;
    device->gemm_algorithms = options->gemm_algorithms;
    planned_card(device, trial);
    struct trainer_options trainer_options = {.lora = trial->lora,
                                              .quantisation = trial->quantisation,
                                              .dequantised = options->dequantised,
                                              .lora_beside = options->lora_beside,
                                              .weights_place = options->weights_place,
                                              .gradients_place = options->gradients_place,
                                              .optimizer_place = options->optimizer_place,
                                              .kv_gradient_dtype = options->kv_gradient_dtype,
                                              .kv_gradient_stochastic = options->kv_gradient_stochastic,
                                              .latent_block = options->latent_block,
                                              .router_losses = trial->router_losses,
                                              .seed = trial->seed,
                                              .gradient_dtype = options->gradient_dtype,
                                              .optimizer = options->optimizer,
                                              .optimizer_options = options->optimizer_options};
    struct ranks ranks;
    if (options->ranks) {
        ranks = ranks_of(options->ranks, trial_split(trial), &trial->config, trial->context);
        trainer_options.ranks = &ranks;
    }
    trainer_open(trainer, model, &trial->config, &trainer_options, device);
    // Weights are not read on a device without data.
    bool loaded = device->status.code == STATUS_OK && (device->ops->dataless || read_weights(model, trial, status));
    return status_take(status, &device->status) && loaded && status->code == STATUS_OK;
}

void loaded_model_close(struct device **device, struct trainer *trainer)
{
    if (!*device)
        return;
    trainer_close(trainer);
    device_close(*device);
    *device = NULL;
}
