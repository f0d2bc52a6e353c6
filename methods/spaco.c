// SpaCO: SeCO's second pass over a random subset of the chunks, scaled. Li et al. 2025, arXiv 2505.16710,
// Algorithm 2. Cost: F as T grows with the budget fixed; with loss `sampled` the first pass stops at the last
// sampled chunk, and that chunk needs none; attention's backward computes no gradients for keys of chunks that
// were not sampled. Memory per token: L 2 G D (e + a t / K), plus one chunk's activations; segments and offload:
// see methods/schedule/chunk_schedule.h. Deviations: two further samplers, both unbiased (see sampler.h); the
// published one is `uniform` with `paper`.
#include "methods/draws.h"
#include "methods/method.h"
#include "methods/sampler.h"
#include "methods/schedule/chunk_schedule.h"

// Defaults.
#define CAP  2
#define SEED 1

static const struct option option_rows[] = {
    OPTION_CHUNK(struct chunk_options, false),
    {OPTION("budget", COUNT, struct spaco_options, budget), .maximum = OPTION_COUNT_MAX,
     .help = "chunks to backpropagate through, t of K, or a share of them such as 25%", .share = true,
     .draws = true, .telling = true},
    {OPTION("sampler", CHOICE, struct spaco_options, sampler), .initial = SAMPLER_UNIFORM,
     .choices = OPTION_CHOICES("uniform", "bernoulli", "sequential", "fixed"), .help = "sampler of the chunks"},
    {OPTION("compensation", CHOICE, struct spaco_options, compensation), .initial = COMPENSATION_PAPER,
     .choices = OPTION_CHOICES("none", "paper", "capped", "sequential"),
     .help = "factor of the gradient that arrives through keys and values: 1, the loss's factor, or that with a "
             "cap; sequential gives a fixed set that sampler's factors"},
    {OPTION("cap", NUMBER, struct spaco_options, cap), .maximum = 1e6, .initial = CAP,
     .help = "largest factor with compensation capped"},
    {OPTION("minimum", NUMBER, struct spaco_options, minimum), .maximum = 1,
     .help = "minimum probability of a chunk with sampler sequential; 0: half of budget / K"},
    {OPTION("state", CHOICE, struct spaco_options, state), .initial = STATE_CARRY,
     .choices = OPTION_CHOICES("carry", "cut", "in-place"),
     .help =
         "gradient of a layer's state: carry passes all chunks as the state does, and takes the factor where it "
         "enters a sampled one; cut ends at chunks that are not sampled; in-place passes all, but multiplied "
         "again by each sampled one, which is biased"},
    {OPTION("loss", CHOICE, struct spaco_options, loss), .initial = LOSS_SAMPLED,
     .choices = OPTION_CHOICES("all", "sampled"),
     .help = "report the loss of every chunk, or an estimate from the sampled ones"},
    {OPTION("sampler_seed", COUNT, struct spaco_options, sampler_seed), .maximum = OPTION_COUNT_MAX,
     .initial = SEED, .help = "seed of the draw; later steps derive theirs from it"},
    {OPTION("drawn_chunks", LIST, struct spaco_options, drawn_chunks), .maximum = DRAWN_CHUNKS_MAX - 1,
     .help = "chunks of sampler fixed, from 0"},
    OPTION_HEAD_CHUNK(struct chunk_options),
    OPTION_KEEP(struct chunk_options),
    OPTION_INNER(struct chunk_options),
    OPTION_SEGMENTS(struct chunk_options),
    OPTION_SEGMENT_STARTS(struct chunk_options),
    OPTION_OFFLOAD(struct chunk_options, "kv"),
    {0}};

// Expected share of drawn chunks.
static double share_of(const struct spaco_options *options, size_t count)
{
    double budget = options->budget ? options->budget : options->drawn_chunks.count;
    return budget / (double)count;
}

// Schedule of a draw, from which it borrows.
static struct chunk_schedule schedule_of(const struct spaco_options *options, struct chunks chunks,
                                         const struct draw *draw)
{
    return (struct chunk_schedule){.chunks = chunks,
                                   .drawn = draw->chunks,
                                   .loss_factor = draw->loss_factor,
                                   .kv_factor = draw->kv_factor,
                                   .passage = options->state,
                                   .share = share_of(options, chunks.count),
                                   .all_losses = options->loss == LOSS_ALL};
}

static void run(struct step *step)
{
    const struct spaco_options *options = step->options;
    struct chunks chunks = chunks_of(step->batch->context, options->common.chunk);
    struct draw draw = sampler_draw(options, chunks.count);
    struct chunk_schedule schedule = schedule_of(options, chunks, &draw);
    step->report->drawn_chunks = index_list_copy(&draw.chunks);
    chunk_schedule_run(step, &schedule);
    draw_free(&draw);
}

// Finds an option with no effect beside the others that is not at its default, and says what it needs; otherwise
// equal trials would have two names. NULL: none.
static const char *effectless(const struct spaco_options *options)
{
    bool fixed = options->sampler == SAMPLER_FIXED;
    bool sequential = options->sampler == SAMPLER_SEQUENTIAL || options->compensation == COMPENSATION_SEQUENTIAL;
    if (!fixed && options->compensation == COMPENSATION_SEQUENTIAL)
        return "compensation \"sequential\" requires sampler \"fixed\"";
    if (!fixed && options->drawn_chunks.count)
        return "drawn_chunks go with sampler \"fixed\" alone";
    if (fixed && options->sampler_seed != SEED)
        return "sampler \"fixed\" draws nothing; leave sampler_seed out";
    if (options->compensation != COMPENSATION_CAPPED && options->cap != CAP)
        return "cap requires compensation \"capped\"";
    if (options->compensation == COMPENSATION_NONE && options->state == STATE_IN_PLACE)
        return "state \"in-place\" scales by a compensation, and there is none";
    return !sequential && options->minimum > 0 ? "minimum requires sampler or compensation \"sequential\"" : NULL;
}

static bool check(const void *given, const struct config *config, size_t context, struct status *status)
{
    const struct spaco_options *options = given;
    struct chunks chunks = chunks_of(context, options->common.chunk);
    size_t count = chunks.count;
    bool fixed = options->sampler == SAMPLER_FIXED;
    if (!sampler_check_count(chunks, status))
        return false;
    const char *goes_with = effectless(options);
    if (goes_with)
        return status_set(status, STATUS_BAD_INPUT, "%s; leave it out", goes_with);
    if (options->budget > count) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "budget %zu is larger than the number of chunks: %zu tokens in "
                          "chunks of %zu are %zu chunk%s",
                          options->budget, context, options->common.chunk, count, count == 1 ? "" : "s");
    }
    if (!fixed && options->budget == 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "spaco requires a budget, the number of chunks to backpropagate through, from 1 to %zu",
                          count);
    }
    if (fixed && options->drawn_chunks.count == 0) {
        return status_set(status, STATUS_BAD_INPUT,
                          "sampler \"fixed\" needs drawn_chunks: those to backpropagate through, from 0 to %zu",
                          count - 1);
    }
    if (!sampler_check_chunks(&options->drawn_chunks, chunks, status))
        return false;
    if (options->state != STATE_CARRY && !config_has_states(config))
        return status_set(status, STATUS_BAD_INPUT,
                          "state requires layers that carry a state (Gated DeltaNet), and this model has none; "
                          "leave it out");
    return segments_check(&options->common.segments, config->layers, status);
}

static bool check_sums(const void *given, struct status *status)
{
    const struct spaco_options *options = given;
    return options->loss == LOSS_ALL ||
           status_set(status, STATUS_BAD_INPUT,
                      "slopes from sums over the sampled chunks alone would be biased; use loss \"all\"");
}

static bool redraw(void *given, size_t index)
{
    struct spaco_options *options = given;
    options->sampler_seed = sampler_seed_of(options->sampler_seed, index);
    return options->sampler != SAMPLER_FIXED;
}

// Draws chunks before `end`, from the last, with one left out between each two as far as `gaps` go; or the first
// chunk in place of the last of these.
static void draw_last(struct index_list *chunks, size_t drawn, size_t end, size_t gaps, bool first)
{
    index_list_resize(chunks, drawn);
    for (size_t j = drawn; j-- > 0; gaps -= gaps > 0) {
        chunks->items[j] = j == 0 && first ? 0 : (uint32_t)--end;
        end -= gaps > 0;
    }
}

// The last chunks: the cache then covers all chunks, and the last chunk attends to the most keys. If the last is
// shorter, also the chunks before it, which keep more gradients. Where layers have states, which pass gaps by
// transitions, also with as many gaps as there can be, without the first chunk, to whose left there is no state,
// and with it, whose backward makes one; and, where the first pass goes on, up to the chunk before the last.
static bool largest_draw(void *given, const struct config *config, size_t context, size_t index)
{
    struct spaco_options *options = given;
    if (options->sampler == SAMPLER_FIXED)
        return index == 0;
    size_t count = chunks_of(context, options->common.chunk).count, drawn = sampler_max_drawn(options, count);
    bool states = config_has_states(config), shorter = context % options->common.chunk > 0;
    size_t ends = (shorter || (states && options->loss == LOSS_ALL)) && drawn < count ? 2 : 1;
    if (index >= ends * (states ? 3 : 1))
        return false;
    options->sampler = SAMPLER_FIXED;
    size_t end = count - index % ends, left = end - drawn;
    bool gaps = index >= ends, first = index >= 2 * ends;
    draw_last(&options->drawn_chunks, drawn, end, gaps ? left - (!first && left > 0) : 0, first);
    return true;
}

static void fit(void *given, size_t context)
{
    struct spaco_options *options = given;
    size_t count = chunks_of(context, options->common.chunk).count;
    options->budget = options->budget < count ? options->budget : count;
}

static size_t whole(const void *given, size_t context)
{
    const struct spaco_options *options = given;
    return chunks_of(context, options->common.chunk).count;
}

// Draws every chunk.
static void make_exact(void *given, size_t context)
{
    struct spaco_options *options = given;
    options->budget = chunks_of(context, options->common.chunk).count;
}

// For the draw of sampler_seed.
static double lower_bound_bytes(const struct model *model, const void *given, size_t context)
{
    const struct spaco_options *options = given;
    struct chunks chunks = chunks_of(context, options->common.chunk);
    struct draw draw = sampler_draw(options, chunks.count);
    struct chunk_schedule schedule = schedule_of(options, chunks, &draw);
    double kept = chunk_schedule_kept(model, &options->common, &schedule);
    draw_free(&draw);
    return kept;
}

const struct method method_spaco = {
    .name = "spaco",
    .summary = "seco over a random subset of the chunks: a gradient estimate",
    .source = "Li et al. 2025, arXiv 2505.16710, Algorithm 2",
    .options = {option_rows, sizeof(struct spaco_options)},
    .estimates = "seco",
    .check = check,
    .check_sums = check_sums,
    .parallel = PARALLEL_DATA | PARALLEL_STAGE,
    .run = run,
    .draw = redraw,
    .largest_draw = largest_draw,
    .each_draw = draws_each,
    .fit = fit,
    .whole = whole,
    .make_exact = make_exact,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
