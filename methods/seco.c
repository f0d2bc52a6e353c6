// SeCO: the forward keeps only keys and values; the chunks are recomputed and run backward right to left. Li et al.
// 2025, arXiv 2505.16710, Algorithm 1. Cost: at most 4 F + A / 2: the last chunk needs no first pass, in the first
// pass the top layer stops after its keys and values, and second passes do not project them again (except normed
// keys). With inner checkpoint at most 5 F + A / 2. Memory per token: L 2 G D (e + a), a layer with a window w
// having gradients of w - 1 + C tokens alone, plus one chunk's activations; segments and offload: see
// methods/schedule/chunk_schedule.h. first_chunk widens the chunks of the first pass, which keep nothing: the
// weights are read fewer times, which a mixture of experts gains from. Deviations: the published code does not use
// these savings and concatenates the prefix; the gradient is the same.
#include "methods/method.h"
#include "methods/schedule/chunk_schedule.h"

static const struct option option_rows[] = {
    OPTION_CHUNK(struct chunk_options, true),
    OPTION_HEAD_CHUNK(struct chunk_options),
    OPTION_KEEP(struct chunk_options),
    OPTION_INNER(struct chunk_options),
    OPTION_SEGMENTS(struct chunk_options),
    OPTION_SEGMENT_STARTS(struct chunk_options),
    OPTION_OFFLOAD(struct chunk_options, "kv"),
    {.name = "first_chunk",
     .type = OPTION_COUNT,
     .offset = offsetof(struct chunk_options, first_chunk),
     .maximum = OPTION_COUNT_MAX,
     .tokens = true,
     .unsaid = true,
     .help = "tokens per chunk of the first pass, rounded up to whole chunks; 0: chunk"},
    {0}};

// Its list of chunks must be freed.
static struct chunk_schedule schedule_of(const struct chunk_options *options, size_t context)
{
    struct chunk_schedule schedule = {.chunks = chunks_of(context, options->chunk), .share = 1, .whole = true};
    schedule.drawn = index_list_range(schedule.chunks.count);
    return schedule;
}

static void run(struct step *step)
{
    struct chunk_schedule schedule = schedule_of(step->options, step->batch->context);
    chunk_schedule_run(step, &schedule);
    index_list_free(&schedule.drawn);
}

static bool check(const void *of_method, const struct config *config, size_t context, struct status *status)
{
    const struct chunk_options *options = of_method;
    (void)context;
    for (size_t l = 0; options->first_chunk > options->chunk && l < config->layers; l++)
        if (config_mixer(config, l)->at_borders)
            return status_set(
                status, STATUS_UNSUPPORTED,
                "layer %zu, %s, keeps a state where each chunk begins, so the first pass has the chunks of "
                "the second: leave first_chunk out",
                l, config_mixer(config, l)->kind.name);
    return segments_check(&options->segments, config->layers, status);
}

static double lower_bound_bytes(const struct model *model, const void *of_method, size_t context)
{
    struct chunk_schedule schedule = schedule_of(of_method, context);
    double kept = chunk_schedule_kept(model, of_method, &schedule);
    index_list_free(&schedule.drawn);
    return kept;
}

const struct method method_seco = {
    .name = "seco",
    .summary = "keep keys and values, recompute one chunk of all layers at a time from the right",
    .source = "Li et al. 2025, arXiv 2505.16710, Algorithm 1",
    .options = {option_rows, sizeof(struct chunk_options)},
    .exact = true,
    .check = check,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE,
    .run = run,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
