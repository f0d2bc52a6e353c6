// Layer-level gradient checkpointing: the forward keeps rows' inputs; the backward rebuilds a row, then walks it.
// Chen et al. 2016, arXiv 1604.06174, with one segment per layer. Cost: at most 4 F + A / 2; a rebuilt row stops
// before its down-projection, whose output its own backward does not need. Memory per token: L d e, plus one row's
// activations and one gradient of width d. In S stages, the highest of m rows: L - S - (m - 1) rows' forward more,
// and fewer inputs (methods/schedule/row.h). With offload = inputs what is kept is kept on the host, and goes over
// the link once each way (a stage's input, which is read for its rows' forward, too, comes twice); the device holds
// two rows' inputs, for the next one comes back while a row is walked. With attention = kept so is what attention
// gave, H D e and H statistics more per token and row, and attention is not computed again: at most 4 F - A / 2
// (LightSeq: Li et al. 2024, arXiv 2310.03294, whose checkpoints are at attention's output).
#include "methods/method.h"
#include "methods/schedule/cost.h"
#include "methods/schedule/row.h"

struct checkpoint_options {
    size_t head_chunk;
    enum keep keep;
    struct stage_options stages;
    enum row_offload offload;
    enum row_attention attention;
};

static const struct option option_rows[] = {OPTION_HEAD_CHUNK(struct checkpoint_options),
                                            OPTION_KEEP(struct checkpoint_options),
                                            OPTION_STAGES(struct checkpoint_options),
                                            OPTION_STAGE_ROWS(struct checkpoint_options),
                                            OPTION_OFFLOAD(struct checkpoint_options, "none", "inputs"),
                                            OPTION_ATTENTION(struct checkpoint_options),
                                            {0}};

static void backward(struct step *step, size_t l, struct stream *of_x, struct kept_attention attention,
                     struct stream *of_grad, size_t next)
{
    struct tensor x = of_x->whole, grad = of_grad->whole;
    const struct checkpoint_options *options = step->options;
    struct model *model = step->model;
    struct span all = {0, step->batch->context};
    struct activations rebuilt = row_cell(attention, all, step->batch->batch, ATTENTION_WRITTEN);
    struct kv kv = kv_new(model, x.rows, x.dtype, CATEGORY_KV_CACHE);
    unit_acquire(model, unit_of_layer(l));
    kv_project(model, step->batch, l, all, x, kv, &rebuilt, options->keep);
    kv = kv_gather_take(model, step->batch, kv);
    cell_forward(model, step->batch, l, all, x, kv, tensor_none(), &rebuilt, options->keep);
    unit_prefetch(model, next);
    cell_backward_mlp(model, l, all, &rebuilt, grad);
    struct kv grad_kv = kv_gradients_new(model, step->batch);
    struct key_segment keys = kv_segment(step->batch, grad_kv);
    cell_backward_attention(model, step->batch, l, all, &rebuilt, kv, &keys, 1, grad);
    kv_free(model, &kv);
    if (kv_gradients_sum(model, step->batch, &grad_kv)) {
        kv_project_backward(model, step->batch, l, all, x, grad_kv, grad);
    }
    unit_release(model, unit_of_layer(l));
    kv_free(model, &grad_kv);
}

static void walk(struct step *step)
{
    const struct checkpoint_options *options = step->options;
    row_walk(step, &(struct row_walk){.chunk = step->batch->context,
                                      .head_chunk = options->head_chunk,
                                      .kept = options->offload == ROW_OFFLOAD_INPUTS ? PLACE_HOST : PLACE_DEVICE,
                                      .attention = options->attention,
                                      .stages = &options->stages,
                                      .backward = backward});
}

static bool check(const void *of_method, const struct config *config, size_t context, struct status *status)
{
    const struct checkpoint_options *options = of_method;
    (void)context;
    return stages_check(&options->stages, config->layers, status);
}

static double floor_bytes(const struct model *model, const void *of_method, size_t context)
{
    const struct checkpoint_options *options = of_method;
    (void)context;
    // Of the row that is walked the cell has what attention gave; of one stage that of the row below comes back.
    double attention = options->attention == ROW_ATTENTION_KEPT ? cost_attention(model) : 0;
    double kept = row_walk_kept(model, &options->stages, options->attention);
    bool one = options->stages.count <= 1 && options->stages.rows.count <= 1;
    double few = 3 * cost_hidden(model) + (one ? 2 : 1) * attention;
    if (options->offload == ROW_OFFLOAD_INPUTS && kept > few) {
        kept = few;
    }
    return kept + cost_row_kv(model) + cost_cell(model) - attention;
}

const struct method method_checkpoint = {
    .name = "checkpoint",
    .summary = "keep each layer's input, rebuild a layer at a time",
    .source = "Chen et al. 2016, arXiv 1604.06174",
    .options = {option_rows, sizeof(struct checkpoint_options)},
    .exact = true,
    .rows = true,
    .parallel = PARALLEL_DATA | PARALLEL_SEQUENCE,
    .check = check,
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
