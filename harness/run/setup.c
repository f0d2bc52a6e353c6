// Setup: opened in the order data, device, model, weights, batch; closed in the opposite one. A second model, the
// reference, comes and goes before the device.
#include "harness/run/setup.h"
#include "harness/files/folder.h"
#include "harness/run/shared_prompt.h"
#include "harness/run/step_data.h"
#include "harness/run/step_logprobs.h"
#include "kernels/transformer/weights.h"
#include <string.h>

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
        .lora_beside = trial->optimizer && trial->optimizer->lora == LORA_BESIDE,
        .deterministic = trial->deterministic,
        .tf32 = trial->tf32,
        .whole_attention = trial->whole_attention,
        .memory_limit_bytes = trial->memory_limit_bytes,
        .host_memory_limit_bytes = trial->host_memory_limit_bytes,
        .host_folder = trial->host_folder,
    };
}

struct setup_options setup_options_planned(const struct trial *trial)
{
    struct setup_options options = setup_options_of(trial);
    if (!trial->planned)
        options.device = strncmp(trial->device, "cuda", 4) == 0 ? "plan-cuda" : "plan-cpu";
    return options;
}

struct setup_options setup_options_reference(void)
{
    return (struct setup_options){
        .device = "cpu",
        .dtype = DTYPE_F64,
        .kv_gradient_dtype = DTYPE_F64,
        .gradient_dtype = DTYPE_F64,
        .dequantised = true,
        .apart = true,
    };
}

void setup_open_tokens(struct batch *batch, struct device *device, const struct batch_data *data)
{
    bool dataless = device->ops->dataless;
    batch_open(batch, device, dataless ? NULL : data->ids, dataless ? NULL : data->labels, data->context,
               data->batch);
    if (data->documents)
        batch_set_documents(batch, device, data->documents);
    if (data->of)
        batch_set_branches(batch, device, data->of, data->sequences);
}

void setup_set_objective(struct batch *batch, struct device *device, const struct trial *trial,
                         const struct batch_data *data)
{
    batch_set_objective(batch, device, trial->objective, trial->objective_options,
                        &(struct batch_values){.weights = data->weights,
                                               .old_logprobs = data->old_logprobs,
                                               .reference_logprobs = data->reference_logprobs,
                                               .advantages = data->advantages});
}

// What all ranks' sequences come to, counted by each of them.
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

// Leaves those of the batch's tokens that are this rank's.
static void share(struct batch *batch, struct setup *setup)
{
    const struct comm *ranks = &setup->model.ranks.sequence;
    if (ranks->size > 1)
        batch_share(batch, setup->device, ranks->size, ranks->rank);
}

// What a forward alone says of the tokens, before there is an objective that reads it.
static void add_logprobs(struct setup *setup, const struct trial *trial, struct batch_data *data)
{
    struct batch tokens;
    setup_open_tokens(&tokens, setup->device, data);
    share(&tokens, setup);
    step_logprobs_of_model(data, trial, &setup->model, &tokens);
    batch_close(&tokens, setup->device);
}

// On a device without data there is nothing but the documents; a training run takes the reference's pass there,
// too, for it is part of each step.
void setup_open_batch(struct setup *setup, const struct trial *trial, struct batch_data *data)
{
    if (step_logprobs_asked(trial, setup->device->ops->dataless))
        add_logprobs(setup, trial, data);
    setup_open_tokens(&setup->batch, setup->device, data);
    setup_set_objective(&setup->batch, setup->device, trial, data);
}

void setup_share_batch(struct setup *setup)
{
    share(&setup->batch, setup);
}

void setup_close_batch(struct setup *setup)
{
    batch_close(&setup->batch, setup->device);
    setup->batch = (struct batch){0};
}

// The batch, and what its objective reads besides; the model has its weights.
static void open_batch(struct setup *setup, const struct trial *trial, const struct whole_step *whole,
                       struct batch_data *data)
{
    setup_open_batch(setup, trial, data);
    struct whole_step own = part_of(trial, &setup->batch);
    setup->batch.normaliser = whole ? whole->normaliser : own.normaliser;
    setup->model_flops = whole ? whole->model_flops : own.model_flops;
    setup->forward_flops = model_forward_flops(&trial->config, &trial->lora, &setup->batch);
    setup_share_batch(setup);
}

// LoRA's new factors as a training run begins with them, and PEFT: B is 0, so the model is what it is without them.
// What measures a step has random ones (model_randomize), by which no gradient is zero.
static void begin_factors(struct model *model)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        if (!model_has(model, p) || !strstr(p->name, ".lora_B."))
            continue;
        size_t count = tensor_count(p->value);
        double *zeros = calloc(count + 1, sizeof *zeros);
        CHECK(zeros);
        weights_write(model, p, 0, count, zeros, DTYPE_F64);
        free(zeros);
    }
}

static bool read_weights(struct setup *setup, const struct trial *trial, struct status *status)
{
    struct model *model = &setup->model;
    if (!trial->model_folder)
        model_randomize(model, trial->seed, trial->dtype);
    else if (!folder_read_weights(trial->model_folder, model, trial->seed, trial->dtype, status))
        return false;
    if (trial->train.steps)
        begin_factors(model);
    return !trial->adapter_folder || folder_read_adapter(trial->adapter_folder, model, trial->dtype, status);
}

static bool open_with(struct setup *setup, const struct trial *trial, const struct setup_options *options,
                      const struct whole_step *whole, struct batch_data *data, struct status *status)
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
                                          .lora_beside = options->lora_beside,
                                          .weights_place = options->weights_place,
                                          .gradients_place = options->gradients_place,
                                          .optimizer_place = options->optimizer_place,
                                          .kv_gradient_dtype = options->kv_gradient_dtype,
                                          .gradient_dtype = options->gradient_dtype,
                                          .optimizer = options->optimizer,
                                          .optimizer_options = options->optimizer_options};
    struct ranks ranks;
    if (options->ranks) {
        ranks = ranks_of(options->ranks, trial_split(trial), &trial->config, trial->context);
        model_options.ranks = &ranks;
    }
    model_open(&setup->model, &trial->config, &model_options, setup->device);
    // On a device without data weights would go nowhere.
    if (setup->device->status.code == STATUS_OK &&
        (setup->device->ops->dataless || read_weights(setup, trial, status)))
        open_batch(setup, trial, whole, data);
    if (setup->device->status.code != STATUS_OK)
        status_set(status, setup->device->status.code, "%s", setup->device->status.message);
    return status->code == STATUS_OK;
}

// How long a row of a group is turns out here; whether the method's options go with it, too.
bool setup_pack(struct batch_data *data, const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    return trial->group <= 1 ||
           (shared_prompt_pack(data, trial->group, trial->data.path, status) &&
            (!method->check || method->check(trial->options, &trial->config, data->context, status)));
}

// Some sequences of the step, each in a row of its own or those of a group in one.
static bool read_data(struct batch_data *data, const struct trial *trial, const struct setup_options *options,
                      struct row_range sequences, struct status *status)
{
    bool (*read)(struct batch_data *, const struct trial *, struct status *) =
        trial_plans_on(options->device) ? step_data_read_shape : step_data_read;
    if (!read(data, trial, status))
        return false;
    batch_data_keep(data, sequences.start, sequences.count);
    return options->apart || setup_pack(data, trial, status);
}

static bool count_part(struct whole_step *part, const struct trial *trial, const struct setup_options *options,
                       struct device *device, struct row_range sequences, struct status *status)
{
    struct batch_data data = {0};
    struct batch batch;
    bool done = read_data(&data, trial, options, sequences, status);
    if (done) {
        setup_open_tokens(&batch, device, &data);
        setup_set_objective(&batch, device, trial, &data);
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

// The sequences of every rank, one rank's after another, on a device without a model.
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
    if (done && device->status.code != STATUS_OK)
        done = status_set(status, device->status.code, "%s", device->status.message);
    if (device)
        device_close(device);
    return done;
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
    bool open = read_data(&data, trial, &own, own.sequences, status) &&
                (replicas == 1 || count_all(&whole, trial, &own, status)) &&
                (dataless || step_logprobs_of_folder(&data, trial, &own, status)) &&
                open_with(setup, trial, &own, replicas > 1 ? &whole : NULL, &data, status);
    batch_data_free(&data);
    setup->sequences = own.sequences;
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
