#include "harness/step/step_logprobs.h"
#include "harness/step/step_data.h"
#include "methods/schedule/log_probs.h"

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

// Uses cells and blocks no larger than the step's, so that the step determines the peak.
static struct log_prob_options adapter_off(const struct trial *trial)
{
    const struct option_table *table = &trial->method->options;
    return (struct log_prob_options){.chunk = options_count(table, trial->options, "chunk", CHUNK),
                                     .head_chunk = options_count(table, trial->options, "head_chunk", HEAD_CHUNK),
                                     .without_adapter = true};
}

static double *forward(struct model *model, const struct batch *batch, struct log_prob_options options)
{
    struct device *device = model->device;
    size_t rows = batch->context * batch->batch, T = batch->pieces.context, B = batch->batch;
    struct tensor log_prob = tensor_new(device, rows, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    double *values = calloc(rows, sizeof *values), *turned = calloc(T * B, sizeof *turned);
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

// Draws data outside the memory limit, which is for the step.
static double *drawn_about(struct model *model, const struct batch *batch)
{
    struct arena *arena = &model->device->arena;
    size_t limit = arena->limit_bytes;
    arena->limit_bytes = 0;
    double *values = forward(model, batch, usual(false));
    arena->limit_bytes = limit;
    return values;
}

double *step_logprobs_read(struct model *model, const struct batch *batch, bool without_adapter)
{
    return forward(model, batch, usual(without_adapter));
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
        double *own = drawn_about(model, batch);
        if (noise & BATCH_OLD)
            add(data->old_logprobs, own, rows);
        if (noise & BATCH_SAMPLING)
            add(data->sampling_logprobs, own, rows);
        if (noise & BATCH_REFERENCE)
            add(data->reference_logprobs, own, rows);
        free(own);
    }
    if (trial->reference.kind == REFERENCE_ADAPTER_OFF) {
        free(data->reference_logprobs);
        data->reference_logprobs = forward(model, batch, adapter_off(trial));
    }
}
