// Setup: opened in the order data, device, model, weights, batch; closed in reverse. A reference model is opened
// and closed before the device.
#include "harness/step/setup.h"
#include "harness/step/loaded_model.h"
#include "harness/step/reference_model.h"
#include "harness/step/step_batch.h"
#include "harness/step/step_data.h"
#include "harness/step/step_logprobs.h"
#include "kernels/device/memo.h"
#include "kernels/model/flops.h"

// Totals over all ranks' sequences, computed by each rank.
struct whole_step {
    struct normaliser normaliser;
    double model_flops;
};

static struct whole_step part_of(const struct trial *trial, const struct batch *batch)
{
    return (struct whole_step){batch->normaliser, model_flops(&trial->config, &trial->lora, batch)};
}

static void add(struct whole_step *whole, const struct whole_step *part)
{
    normaliser_add(&whole->normaliser, &part->normaliser);
    whole->model_flops += part->model_flops;
}

static void set_longest(const struct setup *setup, struct batch *batch)
{
    if (setup->longest)
        batch->normaliser.longest = setup->longest;
}

// Adds log-probs from a forward pass, before the objective reads them.
static void add_logprobs(struct setup *setup, const struct trial *trial, struct batch_data *data)
{
    struct batch tokens;
    step_batch_open(&tokens, setup->device, data);
    set_longest(setup, &tokens);
    step_batch_share(&tokens, &setup->model);
    step_logprobs_of_model(data, trial, &setup->model, &tokens);
    batch_close(&tokens, setup->device);
}

// A device without data has only documents; a training run also counts the reference's pass there, which is part of
// each step.
void setup_open_batch(struct setup *setup, const struct trial *trial, struct batch_data *data,
                      const struct normaliser *whole)
{
    if (step_logprobs_asked(trial, setup->device->ops->dataless))
        add_logprobs(setup, trial, data);
    step_batch_open(&setup->batch, setup->device, data);
    step_batch_set_objective(&setup->batch, setup->device, trial, data);
    if (whole)
        setup->batch.normaliser = *whole;
    set_longest(setup, &setup->batch);
}

void setup_share_batch(struct setup *setup)
{
    step_batch_share(&setup->batch, &setup->model);
}

void setup_close_batch(struct setup *setup)
{
    batch_close(&setup->batch, setup->device);
    setup->batch = (struct batch){0};
}

// Opens the batch with the objective's inputs; the model has its weights.
static bool open_batch(struct setup *setup, const struct trial *trial, const struct whole_step *whole,
                       struct batch_data *data, struct status *status)
{
    setup->longest = whole ? whole->normaliser.longest : 0;
    setup_open_batch(setup, trial, data, whole ? &whole->normaliser : NULL);
    setup->model_flops = whole ? whole->model_flops : model_flops(&trial->config, &trial->lora, &setup->batch);
    setup->forward_flops = model_forward_flops(&trial->config, &trial->lora, &setup->batch);
    setup_share_batch(setup);
    *status = setup->device->status;
    return status->code == STATUS_OK;
}

// Reads some of the step's sequences, one per row or a group per row; *hash: of all the step's data.
static bool read_data(struct batch_data *data, const struct trial *trial, const struct setup_options *options,
                      struct row_range sequences, uint64_t *hash, struct status *status)
{
    bool (*read)(struct batch_data *, const struct trial *, struct status *) =
        trial_plans_on(options->device) ? step_data_read_shape : step_data_read;
    if (!read(data, trial, status))
        return false;
    *hash = trial_plans_on(options->device) ? 0 : step_data_hash(data, trial);
    batch_data_keep(data, sequences.start, sequences.count);
    return options->apart || step_data_pack(data, trial, status);
}

static bool count_part(struct whole_step *part, const struct trial *trial, const struct setup_options *options,
                       struct device *device, struct row_range sequences, struct status *status)
{
    struct batch_data data = {0};
    struct batch batch;
    uint64_t hash;
    bool done = read_data(&data, trial, options, sequences, &hash, status);
    if (done) {
        step_batch_open(&batch, device, &data);
        step_batch_set_objective(&batch, device, trial, &data);
        *part = part_of(trial, &batch);
        batch_close(&batch, device);
    }
    batch_data_free(&data);
    return done;
}

bool setup_sequences_alike(const struct trial *trial, const char *device)
{
    return trial_plans_on(device) && !trial->packing.count && !trial->packing.mean && trial->group <= 1 &&
           trial->data.kind != DATA_BATCH;
}

// Counts the sequences of all ranks, rank by rank, on a device without a model.
static bool count_all(struct whole_step *whole, const struct trial *trial, const struct setup_options *options,
                      struct status *status)
{
    struct device *device = device_open(trial_plans_on(options->device) ? "plan-cpu" : "cpu", DTYPE_F32, 0, status);
    bool done = device != NULL, alike = setup_sequences_alike(trial, options->device);
    struct whole_step part = {0};
    size_t counted = 0; // sequences of the part
    *whole = (struct whole_step){0};
    for (size_t replica = 0; done && replica < trial->parallel.data; replica++) {
        struct row_range sequences = trial_sequences(trial, replica);
        if (!alike || sequences.count != counted)
            done = count_part(&part, trial, options, device, sequences, status);
        if (done)
            add(whole, &part);
        counted = sequences.count;
    }
    done = done && status_take(status, &device->status);
    if (device)
        device_close(device);
    return done;
}

// FLOPs of the batch, on a device without a model.
static bool count_flops(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                        struct status *status)
{
    struct device *device = device_open("plan-cpu", DTYPE_F32, 0, status);
    struct batch_data data = {0};
    struct batch batch;
    uint64_t hash;
    bool done = device && read_data(&data, trial, options, options->sequences, &hash, status);
    if (done) {
        step_batch_open(&batch, device, &data);
        setup->model_flops = model_flops(&trial->config, &trial->lora, &batch);
        setup->forward_flops = model_forward_flops(&trial->config, &trial->lora, &batch);
        setup->batch = (struct batch){.context = batch.context, .batch = batch.batch};
        batch_close(&batch, device);
    }
    batch_data_free(&data);
    if (device)
        device_close(device);
    return done;
}

// Opens another framework's model, which keeps its own weights and tokens.
static bool open_framework(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                           struct status *status)
{
    if (!count_flops(setup, trial, options, status))
        return false;
    setup->device = device_open(options->device, options->dtype, options->memory_limit_bytes, status);
    if (!setup->device)
        return false;
    planned_card(setup->device, trial);
    model_list(&setup->model, &trial->config, &trial->lora);
    setup->model.device = setup->device;
    CHECK(setup->framework = calloc(1, sizeof *setup->framework));
    framework_run_open(setup->framework, &setup->model,
                       &(struct framework_run_options){.framework = *trial->framework,
                                                       .walk = trial->method->elsewhere,
                                                       .context = setup->batch.context,
                                                       .batch = setup->batch.batch,
                                                       .has_optimizer = trial->optimizer});
    return status_take(status, &setup->device->status);
}

bool setup_open(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                struct status *status)
{
    struct batch_data data = {0};
    struct whole_step whole;
    struct setup_options own = *options;
    size_t replicas = options->ranks ? trial->parallel.data : 1;
    bool dataless = trial_plans_on(options->device);
    *setup = (struct setup){0};
    if (own.sequences.count == 0)
        own.sequences = replicas > 1 ? trial_sequences(trial, split_data(trial_split(trial), options->ranks->rank))
                                     : (struct row_range){0, trial->batch};
    setup->sequences = own.sequences;
    if (trial->framework)
        return open_framework(setup, trial, &own, status);
    uint64_t hash = 0;
    bool open = read_data(&data, trial, &own, own.sequences, &hash, status) &&
                (replicas == 1 || count_all(&whole, trial, &own, status)) &&
                (dataless ||
                 reference_model_tell(&data, trial, &own, replicas > 1 ? whole.normaliser.longest : 0, status)) &&
                loaded_model_open(&setup->device, &setup->trainer, &setup->model, trial, &own, status) &&
                open_batch(setup, trial, replicas > 1 ? &whole : NULL, &data, status);
    batch_data_free(&data);
    setup->data_hash = hash;
    return open;
}

bool setup_check_targets(const struct setup *setup, const struct trial *trial, struct status *status)
{
    if (setup->batch.normaliser.rows)
        return true;
    if (trial->labels)
        return status_set(status, STATUS_UNSUPPORTED,
                          "%s: all labels are -100, so the loss has no tokens; label the positions to predict",
                          trial->labels);
    return status_set(status, STATUS_UNSUPPORTED, "no token has a next one to predict, so there is no loss: %s",
                      trial->context < 2 ? "the context is 1; give 2 or more" : "no document has two tokens");
}

struct training_step setup_step(struct setup *setup, const struct trial *trial)
{
    return (struct training_step){.trainer = &setup->trainer,
                                  .method = trial->method,
                                  .batch = &setup->batch,
                                  .options = trial->options,
                                  .framework = setup->framework};
}

struct training_step setup_update(struct setup *setup, const struct trial *trial, size_t update)
{
    struct training_step step = setup_step(setup, trial);
    step.update = trial->optimizer ? update : 0;
    step.rate_factor = 1;
    step.again = true;
    return step;
}

void setup_remember(struct setup *setup)
{
    setup->device->memo = setup->memo = memo_new();
}

void setup_close(struct setup *setup)
{
    if (!setup->device)
        return;
    memo_free(setup->memo);
    if (setup->framework) {
        framework_run_close(setup->framework);
        free(setup->framework);
        model_close(&setup->model);
        device_close(setup->device);
        *setup = (struct setup){0};
        return;
    }
    batch_close(&setup->batch, setup->device);
    loaded_model_close(&setup->device, &setup->trainer);
    *setup = (struct setup){0};
}
