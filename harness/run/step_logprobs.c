#include "harness/run/step_logprobs.h"
#include "harness/files/adapter.h"
#include "harness/files/folder.h"
#include "methods/log_probs.h"

#define CHUNK      512
#define HEAD_CHUNK 256

void step_logprobs(struct tensor log_prob, struct model *model, const struct batch *batch, bool without_adapter)
{
    log_prob_pass(
        model, batch, log_prob,
        (struct log_prob_options){.chunk = CHUNK, .head_chunk = HEAD_CHUNK, .without_adapter = without_adapter});
}

// [batch, context], sequence-major, 0 where this rank does not have them; to be freed.
static double *forward(struct model *model, const struct batch *batch, bool without_adapter)
{
    struct device *device = model->device;
    size_t rows = batch->context * batch->batch;
    struct tensor log_prob = tensor_new(device, rows, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    double *values = calloc(rows, sizeof *values), *turned = calloc(rows, sizeof *turned);
    CHECK(values && turned);
    step_logprobs(log_prob, model, batch, without_adapter);
    if (device->status.code == STATUS_OK && ranks_highest(&model->ranks)) {
        tensor_read(device, log_prob, values);
        for (size_t i = 0; i < rows; i++)
            turned[i % batch->batch * batch->context + i / batch->batch] = values[i];
    }
    tensor_free(device, &log_prob);
    free(values);
    return turned;
}

bool step_logprobs_of_folder(struct batch_data *data, const struct trial *trial,
                             const struct setup_options *options, struct status *status)
{
    if (trial->reference.kind != REFERENCE_FOLDER)
        return true;
    struct setup setup;
    struct setup_options own = *options;
    struct trial reference = *trial; // what it points to is borrowed
    own.optimizer = NULL;            // and of the same sequences, though its own objective may group them otherwise
    reference.model_folder = trial->reference.folder;
    reference.quantisation = QUANTISATION_NONE;
    reference.reference = (struct reference_model){0};
    reference.objective = objectives[0];
    reference.objective_options = NULL;
    // Factors, its own or some that are left out: all else is frozen.
    bool adapted = adapter_is_in(reference.model_folder);
    reference.adapter_folder = adapted ? reference.model_folder : NULL;
    reference.lora = (struct lora){.rank = 1, .alpha = 1, .targets = LORA_Q};
    if (!folder_read_config(reference.model_folder, &reference.config, status) ||
        (adapted && !adapter_read(reference.model_folder, &reference.config, &reference.lora, status)))
        return false;
    if (setup_open(&setup, &reference, &own, status)) {
        data->reference_logprobs = forward(&setup.model, &setup.batch, !adapted);
        *status = setup.device->status;
    }
    setup_close(&setup);
    return status->code == STATUS_OK;
}

static void add(double *noise, const double *log_probs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        noise[i] += log_probs[i];
}

void step_logprobs_of_model(struct batch_data *data, const struct trial *trial, struct model *model,
                            const struct batch *batch)
{
    unsigned noise = step_data_noise(trial);
    size_t rows = data->context * data->batch;
    if (noise) {
        double *own = forward(model, batch, false);
        if (noise & BATCH_OLD)
            add(data->old_logprobs, own, rows);
        if (noise & BATCH_REFERENCE)
            add(data->reference_logprobs, own, rows);
        free(own);
    }
    if (trial->reference.kind == REFERENCE_ADAPTER_OFF) {
        free(data->reference_logprobs);
        data->reference_logprobs = forward(model, batch, true);
    }
}
