// Setup: opened in the order data, device, model, weights, batch; closed in the opposite one. A second model, the
// reference, comes and goes before the device.
#include "harness/run/setup.h"
#include "harness/files/folder.h"
#include "harness/run/step_data.h"
#include "harness/run/step_logprobs.h"

struct setup_options setup_options_of(const struct trial *trial)
{
    return (struct setup_options){
        .device = trial->device,
        .dtype = trial->dtype,
        .kv_gradient_dtype = trial->kv_gradient_dtype,
        .gradient_dtype = trial->gradient_dtype,
        .weights_place = trial->weights_place,
        .gradients_place = trial->gradients_place,
        .optimizer_place = trial->optimizer_place,
        .optimizer = trial->optimizer,
        .optimizer_options = trial->optimizer_options,
        .deterministic = trial->deterministic,
        .tf32 = trial->tf32,
        .whole_attention = trial->whole_attention,
        .memory_limit_bytes = trial->memory_limit_bytes,
        .host_memory_limit_bytes = trial->host_memory_limit_bytes,
        .host_folder = trial->host_folder,
    };
}

struct setup_options setup_options_reference(void)
{
    return (struct setup_options){
        .device = "cpu",
        .dtype = DTYPE_F64,
        .kv_gradient_dtype = DTYPE_F64,
        .gradient_dtype = DTYPE_F64,
        .dequantised = true,
    };
}

// The batch, and what its objective reads besides; the model has its weights. On a device without data there is
// nothing but the documents.
static void open_batch(struct setup *setup, const struct trial *trial, struct batch_data *data)
{
    bool dataless = setup->device->ops->dataless;
    batch_open(&setup->batch, setup->device, dataless ? NULL : data->ids, dataless ? NULL : data->labels,
               trial->context, trial->batch);
    if (data->documents)
        batch_set_documents(&setup->batch, setup->device, data->documents);
    if (!dataless)
        step_logprobs_of_model(data, trial, &setup->model, &setup->batch);
    batch_set_objective(&setup->batch, setup->device, trial->objective, trial->objective_options,
                        &(struct batch_values){.weights = data->weights,
                                               .old_logprobs = data->old_logprobs,
                                               .reference_logprobs = data->reference_logprobs,
                                               .advantages = data->advantages});
}

static bool read_weights(struct setup *setup, const struct trial *trial, struct status *status)
{
    if (trial->model_folder)
        return folder_read_weights(trial->model_folder, &setup->model, trial->seed, trial->dtype, status);
    model_randomize(&setup->model, trial->seed, trial->dtype);
    return true;
}

static bool open_with(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                      struct batch_data *data, struct status *status)
{
    setup->device = device_open(options->device, options->dtype, options->memory_limit_bytes, status);
    if (!setup->device)
        return false;
    if (options->host_memory_limit_bytes || options->host_folder) { // whose disk says itself that it is full
        setup->device->host.limit_bytes = options->host_memory_limit_bytes;
        setup->device->host.shared_bytes = 0;
    }
    if (options->host_folder)
        setup->device->arena.shared_bytes = 0;
    setup->device->host_folder = options->host_folder;
    setup->device->deterministic = options->deterministic;
    setup->device->tf32 = options->tf32;
    setup->device->whole_attention = options->whole_attention;
    if (setup->device->ops->dataless && trial->profile)
        setup->device->multiprocessors = (size_t)trial->profile->multiprocessors.value;
    struct model_options model_options = {.lora = trial->lora,
                                          .quantisation = trial->quantisation,
                                          .dequantised = options->dequantised,
                                          .weights_place = options->weights_place,
                                          .gradients_place = options->gradients_place,
                                          .optimizer_place = options->optimizer_place,
                                          .kv_gradient_dtype = options->kv_gradient_dtype,
                                          .gradient_dtype = options->gradient_dtype,
                                          .optimizer = options->optimizer,
                                          .optimizer_options = options->optimizer_options};
    struct ranks ranks;
    if (options->pipeline) {
        ranks = ranks_in_pipeline(options->pipeline, &trial->config, trial->context);
        model_options.ranks = &ranks;
    }
    model_open(&setup->model, &trial->config, &model_options, setup->device);
    // On a device without data weights would go nowhere.
    if (setup->device->status.code == STATUS_OK &&
        (setup->device->ops->dataless || read_weights(setup, trial, status)))
        open_batch(setup, trial, data);
    if (setup->device->status.code != STATUS_OK)
        status_set(status, setup->device->status.code, "%s", setup->device->status.message);
    return status->code == STATUS_OK;
}

bool setup_open(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                struct status *status)
{
    struct batch_data data = {0};
    bool dataless = trial_plans_on(options->device);
    *setup = (struct setup){0};
    bool open = (dataless ? step_data_read_documents(&data, trial, status)
                          : step_data_read(&data, trial, status) &&
                                step_logprobs_of_folder(&data, trial, options, status)) &&
                open_with(setup, trial, options, &data, status);
    batch_data_free(&data);
    return open;
}

void setup_close(struct setup *setup)
{
    if (!setup->device)
        return;
    batch_close(&setup->batch, setup->device);
    model_close(&setup->model);
    device_close(setup->device);
    *setup = (struct setup){0};
}
