#include "harness/step/step_batch.h"
#include "harness/step/step_data.h"

void step_batch_open(struct batch *batch, struct device *device, const struct batch_data *data)
{
    bool dataless = device->ops->dataless;
    batch_open(batch, device, dataless ? NULL : data->ids, dataless ? NULL : data->labels, data->context,
               data->batch);
    if (data->documents)
        batch_set_documents(batch, device, data->documents);
    if (data->of)
        batch_set_branches(batch, device, data->of, data->sequences);
}

void step_batch_set_objective(struct batch *batch, struct device *device, const struct trial *trial,
                              const struct batch_data *data)
{
    static const double drawn; // stands for the noise on a device without data
    bool dataless = device->ops->dataless, draws = dataless && step_data_noise(trial) & BATCH_OLD;
    batch_set_objective(batch, device, trial->objective, trial->objective_options,
                        &(struct batch_values){.weights = data->weights,
                                               .old_logprobs = draws ? &drawn : data->old_logprobs,
                                               .reference_logprobs = data->reference_logprobs,
                                               .sampling_logprobs = data->sampling_logprobs,
                                               .advantages = data->advantages,
                                               .token_advantages = data->token_advantages,
                                               .desirable = data->desirable});
    bool counts = router_losses_any(&trial->router_losses) || trial->router_losses.bias_update > 0;
    if (counts && (trial->group > 1 || trial->data.kind == DATA_BATCH))
        batch_count_repeats(batch, device, dataless ? NULL : data->lengths, trial->group > 1);
}

void step_batch_share(struct batch *batch, const struct model *model)
{
    const struct comm *ranks = &model->ranks.sequence;
    batch_set_chunks(batch, model->device, config_chunk(&model->config));
    batch_block_keys(batch, model->device, model_latent_block(model));
    if (ranks->size > 1)
        batch_share(batch, model->device, ranks->size, ranks->rank);
    if (ranks->size > 1 && model->ranks.exchange == EXCHANGE_RING)
        batch_shift_documents(batch, model->device);
}
