// Setup: opened in the order device, model, weights, tokens; closed in the opposite one.
#include "harness/run/setup.h"
#include "harness/files/folder.h"
#include "harness/files/tokens.h"

struct setup_options setup_options_of(const struct cell *cell)
{
    return (struct setup_options){
        .device = cell->device,
        .dtype = cell->dtype,
        .kv_gradient_dtype = cell->kv_gradient_dtype,
        .gradient_dtype = cell->gradient_dtype,
        .optimizer = cell->optimizer,
        .deterministic = cell->deterministic,
        .tf32 = cell->tf32,
        .whole_attention = cell->whole_attention,
        .memory_limit_bytes = cell->memory_limit_bytes,
    };
}

struct setup_options setup_options_reference(void)
{
    return (struct setup_options){
        .device = "cpu",
        .dtype = DTYPE_F64,
        .kv_gradient_dtype = DTYPE_F64,
        .gradient_dtype = DTYPE_F64,
    };
}

bool setup_open(struct setup *setup, const struct cell *cell, const struct setup_options *options,
                struct status *status)
{
    *setup = (struct setup){0};
    setup->device = device_open(options->device, options->dtype, options->memory_limit_bytes, status);
    if (!setup->device)
        return false;
    setup->device->deterministic = options->deterministic;
    setup->device->tf32 = options->tf32;
    setup->device->whole_attention = options->whole_attention;
    if (setup->device->ops->dataless && cell->profile)
        setup->device->multiprocessors = (size_t)cell->profile->multiprocessors.value;
    struct model_options model_options = {.lora = cell->lora,
                                          .kv_gradient_dtype = options->kv_gradient_dtype,
                                          .gradient_dtype = options->gradient_dtype,
                                          .optimizer = options->optimizer};
    model_open(&setup->model, &cell->config, &model_options, setup->device);
    int32_t *ids = NULL, *labels = NULL;
    if (setup->device->status.code != STATUS_OK)
        goto cleanup;
    if (setup->device->ops->dataless) { // weights and tokens would go nowhere
        batch_open(&setup->batch, setup->device, NULL, NULL, cell->context, cell->batch);
        goto cleanup;
    }
    if (!cell->model_folder)
        model_randomize(&setup->model, cell->seed, cell->dtype);
    else if (!folder_read_weights(cell->model_folder, &setup->model, cell->seed, cell->dtype, status))
        goto cleanup;
    ids = tokens_read(&cell->data, cell->context, cell->batch, cell->config.vocab, cell->seed, status);
    if (!ids)
        goto cleanup;
    if (cell->labels) {
        labels = tokens_read_labels(cell->labels, cell->context, cell->batch, cell->config.vocab, status);
        if (!labels)
            goto cleanup;
    }
    batch_open(&setup->batch, setup->device, ids, labels, cell->context, cell->batch);
cleanup:
    free(labels);
    free(ids);
    if (setup->device->status.code != STATUS_OK)
        status_set(status, setup->device->status.code, "%s", setup->device->status.message);
    return status->code == STATUS_OK;
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
