#include "harness/run/step_logprobs.h"
#include "harness/files/adapter.h"
#include "harness/files/folder.h"
#include "harness/run/ranks_possible.h"
#include "methods/log_probs.h"

#define CHUNK      512
#define HEAD_CHUNK 256

static struct log_prob_options usual(bool without_adapter)
{
    return (struct log_prob_options){.chunk = CHUNK, .head_chunk = HEAD_CHUNK, .without_adapter = without_adapter};
}

void step_logprobs(struct tensor log_prob, struct model *model, const struct batch *batch, bool without_adapter)
{
    log_prob_pass(model, batch, log_prob, usual(without_adapter));
}

// Within the step of a training run cells and blocks no larger than its own, so that its peak is the walk's.
static struct log_prob_options adapter_off(const struct trial *trial)
{
    struct log_prob_options options = usual(true);
    const struct option_table *table = &trial->method->options;
    if (trial->train.steps) {
        options.chunk = options_count(table, trial->options, "chunk", CHUNK);
        options.head_chunk = options_count(table, trial->options, "head_chunk", HEAD_CHUNK);
    }
    return options;
}

// [batch, context], sequence-major, 0 where this rank does not have them; to be freed.
static double *forward(struct model *model, const struct batch *batch, struct log_prob_options options)
{
    struct device *device = model->device;
    size_t rows = batch->context * batch->batch, T = batch->pieces.context, B = batch->batch;
    struct tensor log_prob = tensor_new(device, rows, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    double *values = calloc(rows, sizeof *values), *turned = calloc(T * B, sizeof *turned);
    CHECK(values && turned);
    log_prob_pass(model, batch, log_prob, options);
    if (device->status.code == STATUS_OK && !device->ops->dataless && ranks_highest(&model->ranks)) {
        tensor_read(device, log_prob, values);
        struct token_run runs[PIECES];
        size_t count = pieces_runs(&batch->pieces, (struct span){0, batch->context}, runs);
        for (const struct token_run *run = runs; run < runs + count; run++)
            for (size_t i = 0; i < run->count * B; i++)
                turned[i % B * T + run->start + i / B] = values[run->first * B + i];
    }
    tensor_free(device, &log_prob);
    free(values);
    return turned;
}

// The second model with its own adapter, if it has one.
static struct log_prob_options of_folder(const struct trial *trial)
{
    return usual(!adapter_is_in(trial->reference.folder));
}

// The second model with the first micro-batch as its batch.
static bool open_folder(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                        struct status *status)
{
    struct setup_options own = *options;
    struct trial reference = *trial; // what it points to is borrowed
    own.optimizer = NULL;            // and of the same sequences, though its own objective may group them otherwise
    *setup = (struct setup){0};
    reference.model_folder = trial->reference.folder;
    reference.quantisation = QUANTISATION_NONE;
    reference.reference = (struct reference_model){0};
    reference.objective = objectives[0];
    reference.objective_options = NULL;
    // Factors, its own or some that are left out: all else is frozen.
    bool adapted = adapter_is_in(reference.model_folder);
    reference.adapter_folder = adapted ? reference.model_folder : NULL;
    reference.lora = (struct lora){.rank = 1, .alpha = 1, .targets = LORA_Q};
    return folder_read_config(reference.model_folder, &reference.config, status) &&
           (!adapted || adapter_read(reference.model_folder, &reference.config, &reference.lora, status)) &&
           (!options->ranks || ranks_fit(&reference, status)) && setup_open(setup, &reference, &own, status);
}

bool step_logprobs_of_folder(struct batch_data *data, const struct trial *trial,
                             const struct setup_options *options, struct status *status)
{
    struct setup setup;
    if (trial->reference.kind != REFERENCE_FOLDER)
        return true;
    if (open_folder(&setup, trial, options, status)) {
        data->reference_logprobs = forward(&setup.model, &setup.batch, of_folder(trial));
        *status = setup.device->status;
    }
    setup_close(&setup);
    return status->code == STATUS_OK;
}

bool step_logprobs_open(struct setup *setup, const struct trial *trial, const char *device, struct status *status)
{
    struct setup_options options = setup_options_of(trial);
    options.device = device;
    options.apart = true;
    return open_folder(setup, trial, &options, status);
}

double *step_logprobs_by(struct setup *setup, const struct trial *trial, const struct batch_data *data,
                         struct status *status)
{
    setup_close_batch(setup);
    setup_open_tokens(&setup->batch, setup->device, data);
    double *log_probs = forward(&setup->model, &setup->batch, of_folder(trial));
    *status = setup->device->status;
    return log_probs;
}

bool step_logprobs_asked(const struct trial *trial, bool dataless)
{
    bool adapter_off = trial->reference.kind == REFERENCE_ADAPTER_OFF;
    return dataless ? adapter_off && trial->train.steps : adapter_off || step_data_noise(trial);
}

static void add(double *noise, const double *log_probs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        noise[i] += log_probs[i];
}

void step_logprobs_of_model(struct batch_data *data, const struct trial *trial, struct model *model,
                            const struct batch *batch)
{
    unsigned noise = model->device->ops->dataless ? 0 : step_data_noise(trial);
    size_t rows = data->context * data->batch;
    if (noise) {
        double *own = forward(model, batch, usual(false));
        if (noise & BATCH_OLD)
            add(data->old_logprobs, own, rows);
        if (noise & BATCH_REFERENCE)
            add(data->reference_logprobs, own, rows);
        free(own);
    }
    if (trial->reference.kind == REFERENCE_ADAPTER_OFF) {
        free(data->reference_logprobs);
        data->reference_logprobs = forward(model, batch, adapter_off(trial));
    }
}
