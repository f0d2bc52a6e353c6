#include "kernels/device/device.h"
#include "kernels/framework/attention.h"
#include "kernels/framework/decoder.h"
#include "kernels/framework/framework_run.h"
#include "kernels/framework/optimizer_state.h"
#include "kernels/framework/quantised.h"
#include "kernels/framework/shares.h"
#include "kernels/model/unit_parameters.h"
#include <stdlib.h>

// A cuBLAS workspace of each thread that multiplies, forward's and autograd's.
#define CUBLAS_BYTES      8519680
#define CUBLAS_BYTES_SM90 ((size_t)32 << 20)

static enum dtype dtype_of(const struct framework_run *run, const struct parameter *parameter)
{
    bool wide = parameter_is_factor(parameter)  ? run->framework.adapters == ADAPTERS_F32
                : parameter == run->model->head ? run->framework.head == HEAD_F32
                                                : false;
    return wide ? DTYPE_F32 : parameter_is_factor(parameter) ? DTYPE_BF16 : run->dtype;
}

static void open_parameter(struct framework_run *run, size_t i)
{
    const struct parameter *parameter = &run->model->parameters[i];
    struct value *weight = &run->weights[i];
    if (quantised_is(run, i)) {
        quantised_open(run, i);
        return;
    }
    *weight = shares_new(run, SHARDS_ALL, "weight", parameter->value.rows, parameter->value.cols,
                         dtype_of(run, parameter), CATEGORY_WEIGHTS);
    if (!model_can_train(run->model, parameter))
        return;
    tape_leaf(weight);
    if (run->framework.shards >= SHARDS_GRADIENTS)
        weight->node->ranks = run->framework.ranks;
    if (run->framework.gradients == GRADIENTS_HELD)
        weight->node->kept = shares_new(run, SHARDS_GRADIENTS, "grad", weight->rows, weight->cols, weight->dtype,
                                        CATEGORY_GRADIENTS);
    if (run->has_optimizer)
        optimizer_state_open(run, i);
}

// Repeats what fits for the caching allocator.
static void reserve(void *pool, const struct storage *storage, bool allocated)
{
    if (!storage->data || storage->place == PLACE_HOST)
        return;
    if (allocated)
        torch_pool_allocate(pool, storage->serial, storage->bytes);
    else
        torch_pool_free(pool, storage->serial);
}

void framework_run_open(struct framework_run *run, const struct model *model,
                        const struct framework_run_options *options)
{
    struct device *device = model->device;
    struct tape *tape = &run->tape;
    size_t tokens = options->context * options->batch;
    size_t library_bytes = device->compute_capability >= 90 ? CUBLAS_BYTES_SM90 : CUBLAS_BYTES;
    *run = (struct framework_run){
        .tape = {.device = device, .moment = "setup", .observe = reserve, .observer = &run->pool},
        .model = model,
        .framework = options->framework,
        .walk = options->walk,
        .autocast = {.on = options->framework.mixed_precision == MIXED_PRECISION_BF16},
        .dtype = device->ops->dtype,
        .context = options->context,
        .batch = options->batch,
        .has_optimizer = options->has_optimizer};
    run->weights = calloc(model->parameter_count, sizeof *run->weights);
    run->state = calloc(FRAMEWORK_STATES * model->parameter_count, sizeof *run->state);
    CHECK(run->weights && run->state);
    for (size_t i = 0; i < model->parameter_count; i++)
        open_parameter(run, i);
    shares_open_buckets(run);
    for (size_t kind = 0; kind < CONFIG_KINDS; kind++)
        for (size_t i = 2 * kind; attention_has_table(run, kind) && i < 2 * kind + 2; i++)
            run->frequencies[i] = tape_new(tape, "inv_freq", rope_rotary(&model->config.kinds[kind]) / 2, 1,
                                           DTYPE_F32, CATEGORY_WEIGHTS);
    for (size_t i = 0; i < 2; i++)
        run->library[i] = tape_new(tape, "cublas", library_bytes / sizeof(float), 1, DTYPE_F32, CATEGORY_WORKSPACE);
    if (model->config.embedding_scale > 0 && model->config.unit_offset)
        run->embedding_scale = tape_new(tape, "embed_scale", 1, 1, run->dtype, CATEGORY_WEIGHTS);
    run->ids = tape_new(tape, "input_ids", tokens, 1, DTYPE_I64, CATEGORY_DATA);
    run->labels = tape_new(tape, "labels", tokens, 1, DTYPE_I64, CATEGORY_DATA);
    if (run->framework.mask == MASK_PADDED)
        run->padding = tape_new(tape, "attention_mask", tokens, 1, DTYPE_I64, CATEGORY_DATA);
}

static bool is_reentrant(const struct framework_run *run)
{
    return run->walk == WALK_CHECKPOINT && run->framework.reentrant == REENTRANT_YES;
}

// Hands the outputs on to the caller: in f32 if accelerate has wrapped the model's forward.
static void hand_on(struct framework_run *run, struct value *outputs)
{
    struct tape *tape = &run->tape;
    if (run->autocast.on && outputs->storage && run->framework.trainer != TRAINER_PLAIN)
        tape_rebind(tape, outputs, aten_to(tape, *outputs, DTYPE_F32, CATEGORY_LOGITS));
    if (run->framework.outputs == OUTPUTS_RELEASED)
        tape_drop(tape, outputs);
}

void framework_run_step(struct framework_run *run)
{
    struct tape *tape = &run->tape;
    struct value outputs = {0};
    tape->moment = "forward";
    autocast_enter(&run->autocast);
    struct value hidden = decoder_forward(run);
    // Checkpoints without reentrance keep the tables that they read, until the lowest layer's is done; those with
    // reentrance are functions that end with the graph.
    if (!is_reentrant(run))
        attention_end_tables(run);
    struct value loss = decoder_loss(run, &hidden, &outputs);
    shares_release(run, unit_of_head(run->model), NULL);
    autocast_exit(&run->autocast, tape);
    hand_on(run, &outputs);
    tape->moment = "backward";
    struct value grad = tape_new(tape, "ones_like", 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS), root = tape_share(grad);
    shares_open_reduce_bucket(run);
    shares_gather(run, unit_of_head(run->model), NULL);
    tape_backward(tape, &root, 0);
    tape_drop(tape, &run->gathered);
    shares_close_reduce_bucket(run);
    tape_drop(tape, &grad);
    tape_drop(tape, &loss);
    tape_drop(tape, &outputs);
    tape_leaf_close(tape, &run->input);
    tape_drop(tape, &run->input);
    if (is_reentrant(run))
        attention_end_tables(run);
    tape->moment = "optimizer";
    if (run->has_optimizer)
        optimizer_state_update(run);
    for (size_t i = 0; i < run->model->parameter_count; i++)
        if (run->weights[i].node && run->framework.gradients == GRADIENTS_FRESH)
            tape_drop(tape, &run->weights[i].node->kept);
}

size_t framework_run_largest(struct framework_run *run, const struct storage **largest)
{
    struct tape *tape = &run->tape;
    size_t after = tape->serial;
    framework_run_step(run);
    tape->found_count = 0;
    tape->wanted_bytes = tape->peak_bytes;
    tape->wanted_after = after;
    framework_run_step(run);
    tape->wanted_bytes = 0;
    *largest = tape->found;
    return tape->found_count;
}

struct framework_reserved framework_run_reserved(const struct framework_run *run)
{
    struct framework_reserved reserved = {run->pool.reserved_bytes, run->tape.peak_bytes / 10 * 13};
    if (reserved.high_bytes < reserved.low_bytes)
        reserved.high_bytes = reserved.low_bytes;
    return reserved;
}

const char *framework_verdict(size_t peak_bytes, struct framework_reserved reserved, size_t limit_bytes)
{
    return reserved.high_bytes <= limit_bytes ? "fits" : peak_bytes <= limit_bytes ? "may fit" : "does not fit";
}

void framework_run_close(struct framework_run *run)
{
    struct tape *tape = &run->tape;
    for (size_t i = 0; run->weights && i < run->model->parameter_count; i++) {
        tape_leaf_close(tape, &run->weights[i]);
        tape_drop(tape, &run->weights[i]);
        for (size_t s = 0; s < FRAMEWORK_STATES; s++)
            tape_drop(tape, &run->state[FRAMEWORK_STATES * i + s]);
    }
    struct value *rest[] = {&run->bucket,   &run->gathered, &run->embedding_scale, &run->ids,
                            &run->labels,   &run->padding,  &run->library[0],      &run->library[1],
                            &run->codes[0], &run->codes[1], &run->codes[2]};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        tape_drop(tape, rest[i]);
    for (size_t i = 0; i < sizeof run->frequencies / sizeof *run->frequencies; i++)
        tape_drop(tape, &run->frequencies[i]);
    free(run->weights);
    free(run->state);
    autocast_close(&run->autocast);
    tape_close(tape);
    torch_pool_close(&run->pool);
    *run = (struct framework_run){0};
}
