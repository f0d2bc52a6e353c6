// SpaCO: SeCO's second pass over a random subset of the columns, scaled. Li et al. 2025, arXiv 2505.16710,
// Algorithm 2. Cost: F as T grows with the budget fixed; with loss `sampled` the first pass stops at the last
// sampled column, and that column needs none; attention's backward computes no gradients for keys of columns that
// were not sampled. Memory per token: L 2 G D (e + a t / K), plus one column's activations; stages and offload: see
// methods/schedule/column_walk.h. Deviations: two further samplers, both unbiased (see sampler.h); the published
// one is `uniform` with `paper`.
#include "methods/draws.h"
#include "methods/method.h"
#include "methods/sampler.h"
#include "methods/schedule/column_walk.h"

#define AT(member) offsetof(struct spaco_options, member)

// Defaults.
#define CAP  2
#define SEED 1

static const struct option option_rows[] = {
    OPTION_CHUNK(struct column_options, false),
    {.name = "budget",
     .type = OPTION_COUNT,
     .offset = AT(budget),
     .maximum = OPTION_COUNT_MAX,
     .help = "columns to backpropagate through, t of K, or a share of them such as 25%",
     .share = true,
     .draws = true,
     .telling = true},
    {.name = "sampler",
     .type = OPTION_CHOICE,
     .offset = AT(sampler),
     .initial = SAMPLER_UNIFORM,
     .choices = OPTION_CHOICES("uniform", "bernoulli", "sequential", "fixed"),
     .help = "how the columns are drawn"},
    {.name = "compensation",
     .type = OPTION_CHOICE,
     .offset = AT(compensation),
     .initial = COMPENSATION_PAPER,
     .choices = OPTION_CHOICES("none", "paper", "capped", "sequential"),
     .help = "factor of the gradient that comes in through keys and values: 1, the loss's own, that with a cap; "
             "sequential gives a fixed set the factors of that sampler"},
    {.name = "cap",
     .type = OPTION_NUMBER,
     .offset = AT(cap),
     .maximum = 1e6,
     .initial = CAP,
     .help = "largest factor under compensation capped"},
    {.name = "minimum",
     .type = OPTION_NUMBER,
     .offset = AT(minimum),
     .maximum = 1,
     .help = "least probability of a column under sampler sequential; 0: half of budget / K"},
    {.name = "loss",
     .type = OPTION_CHOICE,
     .offset = AT(loss),
     .initial = LOSS_SAMPLED,
     .choices = OPTION_CHOICES("all", "sampled"),
     .help = "report the loss of every column, or an estimate from the sampled ones"},
    {.name = "sampler_seed",
     .type = OPTION_COUNT,
     .offset = AT(sampler_seed),
     .maximum = OPTION_COUNT_MAX,
     .initial = SEED,
     .help = "seed of the draw; a run makes those of its later steps from it"},
    {.name = "columns",
     .type = OPTION_LIST,
     .offset = AT(columns),
     .maximum = COLUMNS_MAX - 1,
     .help = "the columns of sampler fixed, from 0"},
    OPTION_HEAD_CHUNK(struct column_options),
    OPTION_KEEP(struct column_options),
    OPTION_INNER(struct column_options),
    OPTION_STAGES(struct column_options),
    OPTION_STAGE_ROWS(struct column_options),
    OPTION_OFFLOAD(struct column_options, "none", "kv"),
    {0}};

// Of the columns, to be expected.
static double share_of(const struct spaco_options *options, size_t count)
{
    double budget = options->budget ? options->budget : options->columns.count;
    return budget / (double)count;
}

// Of a draw, which it reads.
static struct column_walk walk_of(const struct spaco_options *options, struct columns columns,
                                  const struct draw *draw)
{
    return (struct column_walk){.columns = columns,
                                .drawn = draw->columns,
                                .loss_factor = draw->loss_factor,
                                .kv_factor = draw->kv_factor,
                                .share = share_of(options, columns.count),
                                .all_losses = options->loss == LOSS_ALL};
}

static void walk(struct step *step)
{
    const struct spaco_options *options = step->options;
    struct columns columns = columns_of(step->batch->context, options->column.chunk);
    struct draw draw = sampler_draw(options, columns.count);
    struct column_walk walk = walk_of(options, columns, &draw);
    step->report->columns = index_list_copy(&draw.columns);
    column_walk(step, &walk);
    draw_free(&draw);
}

// Of an option that changes nothing beside the others, but is not at its default, what it goes with: its trial
// would be measured twice under two names. NULL: there is none.
static const char *effectless(const struct spaco_options *options)
{
    bool fixed = options->sampler == SAMPLER_FIXED;
    bool sequential = options->sampler == SAMPLER_SEQUENTIAL || options->compensation == COMPENSATION_SEQUENTIAL;
    if (!fixed && options->compensation == COMPENSATION_SEQUENTIAL) {
        return "compensation \"sequential\" goes with sampler \"fixed\" alone";
    }
    if (!fixed && options->columns.count) {
        return "columns go with sampler \"fixed\" alone";
    }
    if (fixed && options->sampler_seed != SEED) {
        return "sampler_seed is of a draw, and sampler \"fixed\" draws nothing";
    }
    if (options->compensation != COMPENSATION_CAPPED && options->cap != CAP) {
        return "cap goes with compensation \"capped\" alone";
    }
    return !sequential && options->minimum > 0 ? "minimum goes with sampler or compensation \"sequential\" alone"
                                               : NULL;
}

static bool check(const void *given, const struct config *config, size_t context, struct status *status)
{
    const struct spaco_options *options = given;
    size_t count = columns_of(context, options->column.chunk).count;
    bool fixed = options->sampler == SAMPLER_FIXED;
    if (count > COLUMNS_MAX) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "chunk %zu cuts %zu tokens into %zu columns, more than %d; "
                          "use a larger chunk",
                          options->column.chunk, context, count, COLUMNS_MAX);
    }
    const char *goes_with = effectless(options);
    if (goes_with) {
        return status_set(status, STATUS_BAD_INPUT, "%s; leave it out", goes_with);
    }
    if (options->budget > count) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "budget %zu is larger than the number of columns: %zu tokens in "
                          "chunks of %zu are %zu column%s",
                          options->budget, context, options->column.chunk, count, count == 1 ? "" : "s");
    }
    if (!fixed && options->budget == 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "spaco needs a budget: the number of columns, from 1 to %zu, to "
                          "backpropagate through",
                          count);
    }
    if (fixed && options->columns.count == 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "sampler \"fixed\" needs columns: those to backpropagate through, from 0 to %zu",
                          count - 1);
    }
    for (size_t j = 0; j < options->columns.count; j++) {
        if (options->columns.items[j] >= count) {
            return status_set(status, STATUS_UNSUPPORTED,
                              "column %u does not exist: %zu tokens in chunks of %zu are "
                              "columns 0 to %zu",
                              options->columns.items[j], context, options->column.chunk, count - 1);
        }
    }
    return stages_check(&options->column.stages, config->layers, status);
}

static bool check_sums(const void *given, struct status *status)
{
    const struct spaco_options *options = given;
    return options->loss == LOSS_ALL ||
           status_set(
               status, STATUS_BAD_INPUT,
               "the objective's slopes are of sums over all tokens, and of sums over the sampled columns alone "
               "they would be biased; use loss \"all\"");
}

static bool redraw(void *given, size_t index)
{
    struct spaco_options *options = given;
    options->sampler_seed = sampler_seed_of(options->sampler_seed, index);
    return options->sampler != SAMPLER_FIXED;
}

// The last columns: the cache then reaches to the end, and no column attends to more keys than the last one. If
// that is a shorter one, also those before it, of which more gradients are kept.
static bool largest_draw(void *given, size_t context, size_t index)
{
    struct spaco_options *options = given;
    if (options->sampler == SAMPLER_FIXED) {
        return index == 0;
    }
    size_t count = columns_of(context, options->column.chunk).count;
    size_t drawn = sampler_most_drawn(options, count);
    options->sampler = SAMPLER_FIXED;
    bool shorter = context % options->column.chunk > 0 && drawn < count;
    if (index > shorter) {
        return false;
    }
    count -= index;
    index_list_resize(&options->columns, drawn);
    for (size_t j = 0; j < drawn; j++) {
        options->columns.items[j] = (uint32_t)(count - drawn + j);
    }
    return true;
}

static void fit(void *given, size_t context)
{
    struct spaco_options *options = given;
    size_t count = columns_of(context, options->column.chunk).count;
    options->budget = options->budget < count ? options->budget : count;
}

static size_t whole(const void *given, size_t context)
{
    const struct spaco_options *options = given;
    return columns_of(context, options->column.chunk).count;
}

// Every column is drawn.
static void make_exact(void *given, size_t context)
{
    struct spaco_options *options = given;
    options->budget = columns_of(context, options->column.chunk).count;
}

// Of the draw that sampler_seed names.
static double floor_bytes(const struct model *model, const void *given, size_t context)
{
    const struct spaco_options *options = given;
    struct columns columns = columns_of(context, options->column.chunk);
    struct draw draw = sampler_draw(options, columns.count);
    struct column_walk walk = walk_of(options, columns, &draw);
    double kept = column_walk_kept(model, &options->column, &walk);
    draw_free(&draw);
    return kept;
}

const struct method method_spaco = {
    .name = "spaco",
    .summary = "seco over a random subset of the chunks, scaled: an estimate",
    .source = "Li et al. 2025, arXiv 2505.16710, Algorithm 2",
    .options = {option_rows, sizeof(struct spaco_options)},
    .estimates = "seco",
    .check = check,
    .check_sums = check_sums,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE,
    .walk = walk,
    .draw = redraw,
    .largest_draw = largest_draw,
    .each_draw = draws_each,
    .fit = fit,
    .whole = whole,
    .make_exact = make_exact,
    .floor_bytes_per_token = floor_bytes,
};
