// Forward: computes the loss without a gradient, layer by layer over the whole context: the cost of inference on
// the same tokens, and the reference for steps that skip most of their backward. Cost: F. Memory per token: d e,
// and 2 G D e for one layer; one cell.
#include "methods/method.h"
#include "methods/schedule/cost.h"
#include "methods/schedule/forward_pass.h"

struct forward_options {
    size_t chunk, head_chunk;
    unsigned offload;
};

static const struct option option_rows[] = {OPTION_CHUNK(struct forward_options, true),
                                            OPTION_HEAD_CHUNK(struct forward_options),
                                            OPTION_OFFLOAD(struct forward_options),
                                            {0}};

static void run(struct step *step)
{
    const struct forward_options *options = step->options;
    forward_pass(step->model, step->batch, options->chunk, options->head_chunk, step->loss);
    unit_done_all(step->model);
}

static double lower_bound_bytes(const struct model *model, const void *of_method, size_t context)
{
    const struct forward_options *options = of_method;
    (void)context;
    return cost_hidden(model) + cost_layer_carry(model, options->chunk, 0);
}

const struct method method_forward = {
    .name = "forward",
    .summary = "the loss without a gradient: the cost of inference on the same tokens",
    .source = "longbp",
    .options = {option_rows, sizeof(struct forward_options)},
    .no_gradient = true,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
