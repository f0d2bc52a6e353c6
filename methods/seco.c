// SeCO: the forward keeps keys and values alone; the columns are walked right to left, each rebuilt on its own.
// Li et al. 2025, arXiv 2505.16710, Algorithm 1.
// Cost: at most 4 F + A / 2: the last column needs no first pass, in the first pass the top layer stops after its
// keys and values, and no second pass projects them again (but keys that are normed). With inner checkpoint at most
// 5 F + A / 2. Memory per token: L 2 G D (e + a), plus one column's activations. Deviations: the published code
// runs the savings above in full and concatenates the prefix; the gradient is the same.
#include "methods/column_walk.h"
#include "methods/cost.h"

static const struct option option_rows[] = {OPTION_CHUNK(struct column_options),
                                            OPTION_HEAD_CHUNK(struct column_options),
                                            OPTION_KEEP(struct column_options),
                                            OPTION_INNER(struct column_options),
                                            {0}};

static void walk(struct step *step)
{
    const struct column_options *options = step->options;
    struct column_walk walk = {.columns = columns_of(step->batch->context, options->chunk), .whole = true};
    walk.drawn = index_list_range(walk.columns.count);
    column_walk(step, &walk);
    index_list_free(&walk.drawn);
}

static double floor_bytes(const struct model *model, const void *options, size_t context)
{
    (void)options, (void)context;
    return model->config.layers * (cost_kv(model) + cost_kv_gradients(model));
}

const struct method method_seco = {
    .name = "seco",
    .summary = "keep keys and values, rebuild a chunk of all layers at a time from the right",
    .source = "Li et al. 2025, arXiv 2505.16710, Algorithm 1",
    .options = {option_rows, sizeof(struct column_options)},
    .exact = true,
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
