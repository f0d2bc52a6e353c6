// SeCO: the forward keeps keys and values alone; the columns are walked right to left, each rebuilt on its own.
// Li et al. 2025, arXiv 2505.16710, Algorithm 1.
// Cost: at most 4 F + A / 2: the last column needs no first pass, in the first pass the top layer stops after its
// keys and values, and no second pass projects them again (but keys that are normed). With inner checkpoint at most
// 5 F + A / 2. Memory per token: L 2 G D (e + a), plus one column's activations; stages and offload: see
// methods/schedule/column_walk.h. Deviations: the published code runs the savings above in full and concatenates
// the prefix; the gradient is the same.
#include "methods/method.h"
#include "methods/schedule/column_walk.h"

static const struct option option_rows[] = {OPTION_CHUNK(struct column_options, true),
                                            OPTION_HEAD_CHUNK(struct column_options),
                                            OPTION_KEEP(struct column_options),
                                            OPTION_INNER(struct column_options),
                                            OPTION_STAGES(struct column_options),
                                            OPTION_STAGE_ROWS(struct column_options),
                                            OPTION_OFFLOAD(struct column_options, "none", "kv"),
                                            {0}};

// Its list of columns is to be freed.
static struct column_walk walk_of(const struct column_options *options, size_t context)
{
    struct column_walk walk = {.columns = columns_of(context, options->chunk), .share = 1, .whole = true};
    walk.drawn = index_list_range(walk.columns.count);
    return walk;
}

static void walk(struct step *step)
{
    struct column_walk walk = walk_of(step->options, step->batch->context);
    column_walk(step, &walk);
    index_list_free(&walk.drawn);
}

static bool check(const void *of_method, const struct config *config, size_t context, struct status *status)
{
    const struct column_options *options = of_method;
    (void)context;
    return stages_check(&options->stages, config->layers, status);
}

static double floor_bytes(const struct model *model, const void *of_method, size_t context)
{
    struct column_walk walk = walk_of(of_method, context);
    double kept = column_walk_kept(model, of_method, &walk);
    index_list_free(&walk.drawn);
    return kept;
}

const struct method method_seco = {
    .name = "seco",
    .summary = "keep keys and values, rebuild a chunk of all layers at a time from the right",
    .source = "Li et al. 2025, arXiv 2505.16710, Algorithm 1",
    .options = {option_rows, sizeof(struct column_options)},
    .exact = true,
    .check = check,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE,
    .walk = walk,
    .floor_bytes_per_token = floor_bytes,
};
