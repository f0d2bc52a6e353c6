// Layer-level gradient checkpointing: the forward keeps layers' inputs; the backward recomputes a layer, then runs
// it backward. Chen et al. 2016, arXiv 1604.06174, with one segment per layer. Cost: at most 4 F + A / 2; a
// recomputed layer stops before its down-projection, whose output its backward does not need. Memory per token: L d
// e, plus one layer's activations and one gradient of width d. In S segments, the highest of m layers: L - S - (m -
// 1) more layer forwards, and fewer inputs (methods/schedule/layer_schedule.h). With offload = inputs they are kept
// on the host and cross the link once each way (a segment's input, which its layers' forward reads too, returns
// twice); the device holds two layers' inputs, because the next one is prefetched. With attention = kept,
// attention's output is kept too, H D e and H statistics more per token and layer, and attention is not recomputed:
// at most 4 F - A / 2 (LightSeq: Li et al. 2024, arXiv 2310.03294, with checkpoints at attention's output).
#include "methods/method.h"
#include "methods/schedule/cost.h"
#include "methods/schedule/layer_schedule.h"
#include <math.h>

struct checkpoint_options {
    size_t head_chunk;
    enum keep keep;
    struct segment_options segments;
    unsigned offload;
    enum layer_attention attention;
};

static const struct option option_rows[] = {OPTION_HEAD_CHUNK(struct checkpoint_options),
                                            OPTION_KEEP(struct checkpoint_options),
                                            OPTION_SEGMENTS(struct checkpoint_options),
                                            OPTION_SEGMENT_STARTS(struct checkpoint_options),
                                            OPTION_OFFLOAD(struct checkpoint_options, "inputs"),
                                            OPTION_ATTENTION(struct checkpoint_options),
                                            {0}};

static void backward(struct step *step, size_t l, struct stream *of_x, struct kept_outputs attention,
                     struct stream *of_grad, size_t next)
{
    struct tensor x = of_x->whole, grad = of_grad->whole;
    const struct checkpoint_options *options = step->options;
    struct model *model = step->model;
    struct span all = {0, step->batch->context};
    struct activations rebuilt = layer_cell(attention, all, step->batch->batch, OUTPUT_WRITTEN);
    struct carry kv = carry_new(model, l, PLACE_DEVICE, carry_size_of(step->batch, all.count, all.count));
    unit_acquire(model, unit_of_layer(l));
    kv_project(model, step->batch, l, all, x, kv, &rebuilt, options->keep);
    kv = carry_gather_take(model, step->batch, l, kv);
    cell_forward(model, step->batch, l, all, x, kv, tensor_none(), &rebuilt, options->keep);
    unit_prefetch(model, next);
    cell_backward_mlp(model, step->batch, l, all, &rebuilt, grad);
    struct carry grad_kv = carry_gradients_new(model, step->batch, l, all.count);
    struct carry_segment keys = carry_segment_of(grad_kv, all);
    cell_backward_mixer(model, step->batch, l, all, &rebuilt, kv, &keys, 1, grad);
    carry_free(model, &kv);
    if (carry_gradients_sum(model, step->batch, l, &grad_kv))
        kv_project_backward(model, step->batch, l, all, x, grad_kv, grad);
    unit_release(model, unit_of_layer(l));
    carry_free(model, &grad_kv);
}

static void run(struct step *step)
{
    const struct checkpoint_options *options = step->options;
    layer_schedule_run(
        step, &(struct layer_schedule){.chunk = step->batch->context,
                                       .head_chunk = options->head_chunk,
                                       .kept = options->offload & OFFLOAD_INPUTS ? PLACE_HOST : PLACE_DEVICE,
                                       .attention = options->attention,
                                       .segments = &options->segments,
                                       .backward = backward});
}

static bool check(const void *of_method, const struct config *config, size_t context, struct status *status)
{
    const struct checkpoint_options *options = of_method;
    (void)context;
    return segments_check(&options->segments, config->layers, status);
}

static double lower_bound_bytes(const struct model *model, const void *of_method, size_t context)
{
    const struct checkpoint_options *options = of_method;
    (void)context;
    // The current layer's cell includes attention's output; in one segment the layer below's is prefetched.
    double attention = INFINITY, cell = INFINITY;
    for (size_t l = model->lowest_trained; l < model->config.layers; l++) {
        double outputs = options->attention == LAYER_ATTENTION_KEPT ? cost_outputs(model, l) : 0;
        attention = fmin(attention, outputs);
        cell = fmin(cell, cost_cell(model, l) - outputs);
    }
    double kept = layer_schedule_kept(model, &options->segments, options->attention);
    bool one = options->segments.count <= 1 && options->segments.starts.count <= 1;
    double few = 3 * cost_hidden(model) + (one ? 2 : 1) * attention;
    if (options->offload & OFFLOAD_INPUTS && kept > few)
        kept = few;
    return kept + cost_choices(model) + cost_layer_carry(model, 0, 0) + cell;
}

const struct method method_checkpoint = {
    .name = "checkpoint",
    .summary = "keep each layer's input, recompute one layer at a time",
    .source = "Chen et al. 2016, arXiv 1604.06174",
    .options = {option_rows, sizeof(struct checkpoint_options)},
    .exact = true,
    .by_layer = true,
    .elsewhere = WALK_CHECKPOINT,
    .parallel = PARALLEL_DATA | PARALLEL_SEQUENCE,
    .check = check,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
