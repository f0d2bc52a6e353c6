// Deferred: SeCO with chunks that run backward at once, in the first pass, so that they need no rebuild. Every
// chunk has its own loss, and each is run backward once: at once, without the gradient that chunks to its right
// would hand to its keys and values; or, with probability p, deferred to the second pass, with that gradient times
// 1 / p. A chain of chunks c1 > c2 > ... > cn (methods/README.md, Estimators) arrives if c2 to cn are deferred, so
// that the mean over independent draws is the exact gradient. Below backward_share r < 1 some chunks are skipped: a
// chunk's loss then counts 1 / r times. deferral 0 drops all gradients of keys and values, which is biased;
// deferral 1 is SeCO. Cost: at most 3 F + A / 2, and for each deferred chunk its share of F. Memory per token: L 2
// G D (e + a p), plus one chunk's activations. All of it is this project's.
#include "methods/method.h"
#include "methods/sampler.h"
#include "methods/schedule/chunk_schedule.h"

#define SEED 1

enum shape { SHAPE_FLAT, SHAPE_RAMP };
enum draw_kind { DRAW_RANDOM, DRAW_FIXED };

struct deferred_options {
    struct chunk_options common;
    double deferral, backward_share;
    enum shape shape;
    enum draw_kind draw;
    size_t sampler_seed;
    struct index_list later_chunks, skipped_chunks; // of a fixed draw
};

static const struct option option_rows[] = {
    OPTION_CHUNK(struct chunk_options, false),
    {OPTION("deferral", NUMBER, struct deferred_options, deferral), .maximum = 1, .initial = 0.5,
     .help = "mean probability that a chunk but the last runs backward in a second pass, with the gradient of its "
             "keys and values; 0: none does, which is biased"},
    {OPTION("deferral_shape", CHOICE, struct deferred_options, shape), .initial = SHAPE_RAMP,
     .choices = OPTION_CHOICES("flat", "ramp"),
     .help = "probability of deferral by chunk: the same for all, or in proportion to the chunks to the right"},
    {OPTION("backward_share", NUMBER, struct deferred_options, backward_share), .maximum = 1, .initial = 1,
     .help = "probability that a chunk runs backward at all; its loss then counts the inverse times"},
    {OPTION("draw", CHOICE, struct deferred_options, draw), .initial = DRAW_RANDOM,
     .choices = OPTION_CHOICES("random", "fixed"),
     .help = "random by sampler_seed, or the given later_chunks and skipped_chunks, with the same factors"},
    {OPTION("later_chunks", LIST, struct deferred_options, later_chunks), .maximum = DRAWN_CHUNKS_MAX - 1,
     .help = "chunks of draw fixed that run backward in the second pass, from 0"},
    {OPTION("skipped_chunks", LIST, struct deferred_options, skipped_chunks), .maximum = DRAWN_CHUNKS_MAX - 1,
     .help = "chunks of draw fixed that do not run backward, from 0"},
    {OPTION("sampler_seed", COUNT, struct deferred_options, sampler_seed), .maximum = OPTION_COUNT_MAX,
     .initial = SEED, .help = "seed of the draw; later steps derive theirs from it"},
    OPTION_HEAD_CHUNK(struct chunk_options),
    OPTION_KEEP(struct chunk_options),
    OPTION_INNER(struct chunk_options),
    OPTION_OFFLOAD(struct chunk_options, "kv"),
    {0}};

enum fate { AT_ONCE, LATER, SKIPPED, FATES };

// Tells whether every chunk but the last is deferred, always: SeCO.
static bool is_whole(const struct deferred_options *options)
{
    return options->draw == DRAW_RANDOM && options->deferral == 1 && options->backward_share == 1;
}

// The probability of each of `count` chunks to be deferred, to be freed. 0 for the last, to which nothing comes. A
// ramp's is at most that of running at all; the other chunks then have more, so that the mean stays.
static double *probabilities(const struct deferred_options *options, size_t count)
{
    double *later = calloc(count, sizeof *later), left = options->deferral * (double)(count - 1), slope = 0;
    bool ramp = options->shape == SHAPE_RAMP && options->deferral < options->backward_share;
    CHECK(later);
    for (size_t n = count - 1; ramp && n > 0; n--, left -= options->backward_share) {
        slope = 2 * left / ((double)n * (double)(n + 1));
        if (slope * (double)n <= options->backward_share)
            break;
    }
    for (size_t c = 0; c + 1 < count; c++) {
        double p = slope * (double)(count - 1 - c);
        later[c] = !ramp ? options->deferral : p < options->backward_share ? p : options->backward_share;
    }
    return later;
}

static double probability_of(const struct deferred_options *options, double later, enum fate fate)
{
    return fate == LATER ? later : fate == SKIPPED ? 1 - options->backward_share : options->backward_share - later;
}

static void set_fate(enum fate *fates, size_t count, const struct index_list *chunks, enum fate fate)
{
    for (size_t i = 0; i < chunks->count; i++)
        if (chunks->items[i] < count)
            fates[chunks->items[i]] = fate;
}

// Every chunk's fate, to be freed. later: as from probabilities.
static enum fate *fates_of(const struct deferred_options *options, size_t count, const double *later)
{
    struct random random = random_named(options->sampler_seed, "later chunks");
    enum fate *fates = calloc(count, sizeof *fates);
    CHECK(fates);
    for (size_t c = 0; options->draw == DRAW_RANDOM && c < count; c++) {
        double u = random_uniform(&random, c);
        fates[c] = u < later[c] ? LATER : u < options->backward_share ? AT_ONCE : SKIPPED;
    }
    set_fate(fates, count, &options->later_chunks, LATER);
    set_fate(fates, count, &options->skipped_chunks, SKIPPED);
    return fates;
}

static struct index_list list_of(const enum fate *fates, size_t count, enum fate fate)
{
    struct index_list list = {0};
    size_t found = 0;
    index_list_resize(&list, count);
    for (size_t c = 0; c < count; c++)
        if (fates[c] == fate)
            list.items[found++] = (uint32_t)c;
    index_list_resize(&list, found);
    return list;
}

// A draw and its schedule, which borrows from it.
struct drawn {
    struct index_list later, skipped, second_pass, at_once;
    double *loss_factor, *kv_factor; // [second_pass.count]
    struct chunk_schedule schedule;
};

static struct drawn drawn_of(const struct deferred_options *options, size_t context)
{
    struct chunks chunks = chunks_of(context, options->common.chunk);
    size_t count = chunks.count, end = count;
    double *later = probabilities(options, count), factor = 1 / options->backward_share;
    enum fate *fates = fates_of(options, count, later);
    struct drawn d = {.later = list_of(fates, count, LATER), .skipped = list_of(fates, count, SKIPPED)};
    // The last chunk that runs, to which nothing comes, begins the second pass, and has no first.
    while (end > 0 && fates[end - 1] == SKIPPED)
        end--;
    if (end > 0)
        fates[end - 1] = LATER;
    d.second_pass = list_of(fates, count, LATER);
    d.at_once = list_of(fates, count, AT_ONCE);
    d.loss_factor = calloc(d.second_pass.count + 1, sizeof *d.loss_factor);
    d.kv_factor = calloc(d.second_pass.count + 1, sizeof *d.kv_factor);
    CHECK(d.loss_factor && d.kv_factor);
    for (size_t j = 0; j < d.second_pass.count; j++) {
        size_t c = d.second_pass.items[j];
        d.loss_factor[j] = factor;
        d.kv_factor[j] = c + 1 < end ? 1 / later[c] : 1;
    }
    d.schedule = (struct chunk_schedule){.chunks = chunks,
                                         .drawn = d.second_pass,
                                         .loss_factor = d.loss_factor,
                                         .kv_factor = d.kv_factor,
                                         .at_once = d.at_once,
                                         .at_once_factor = factor,
                                         .share = options->deferral};
    free(fates);
    free(later);
    return d;
}

static void drawn_free(struct drawn *d)
{
    index_list_free(&d->later);
    index_list_free(&d->skipped);
    index_list_free(&d->second_pass);
    index_list_free(&d->at_once);
    free(d->loss_factor);
    free(d->kv_factor);
}

static void run(struct step *step)
{
    struct drawn d = drawn_of(step->options, step->batch->context);
    step->report->drawn_chunks = index_list_copy(&d.later);
    step->report->skipped_chunks = index_list_copy(&d.skipped);
    chunk_schedule_run(step, &d.schedule);
    drawn_free(&d);
}

// As spaco's.
static const char *effectless(const struct deferred_options *options)
{
    bool fixed = options->draw == DRAW_FIXED;
    if (!fixed && (options->later_chunks.count || options->skipped_chunks.count))
        return "a list of chunks goes with draw \"fixed\" alone";
    if (fixed && options->sampler_seed != SEED)
        return "draw \"fixed\" draws nothing, and takes no sampler_seed";
    bool even = options->deferral == 0 || options->deferral == options->backward_share;
    return options->shape != SHAPE_RAMP && even
               ? "deferral_shape has no effect with deferral 0, or one as large as backward_share"
               : NULL;
}

// The chunks of a fixed draw are those of some draw.
static bool check_fixed(const struct deferred_options *options, struct chunks chunks, struct status *status)
{
    const struct index_list *later = &options->later_chunks, *skipped = &options->skipped_chunks;
    if (!sampler_check_chunks(later, chunks, status) || !sampler_check_chunks(skipped, chunks, status))
        return false;
    if (skipped->count && options->backward_share == 1)
        return status_set(status, STATUS_BAD_INPUT,
                          "with backward_share 1 no chunk is skipped; give another, or leave skipped_chunks out");
    double *possible = probabilities(options, chunks.count);
    bool fits = true;
    for (size_t j = 0; fits && j < later->count; j++) {
        uint32_t c = later->items[j];
        if (possible[c] == 0)
            fits =
                status_set(status, STATUS_BAD_INPUT, "later_chunks: chunk %u is never deferred, %s; leave it out",
                           c, c + 1 == chunks.count ? "because nothing comes to the last one" : "with deferral 0");
        for (size_t i = 0; fits && i < skipped->count; i++)
            if (skipped->items[i] == c)
                fits = status_set(status, STATUS_BAD_INPUT,
                                  "chunk %u is among later_chunks and skipped_chunks; leave it out of one", c);
    }
    free(possible);
    return fits;
}

static bool check(const void *given, const struct config *config, size_t context, struct status *status)
{
    const struct deferred_options *options = given;
    struct chunks chunks = chunks_of(context, options->common.chunk);
    const char *goes_with = effectless(options);
    if (goes_with)
        return status_set(status, STATUS_BAD_INPUT, "%s; leave it out", goes_with);
    if (options->backward_share == 0)
        return status_set(status, STATUS_BAD_INPUT,
                          "with backward_share 0 no chunk would run backward; give one above 0, at most 1");
    if (options->deferral > options->backward_share)
        return status_set(status, STATUS_BAD_INPUT,
                          "deferral %g is larger than backward_share %g, of which it is a part; give at most that",
                          options->deferral, options->backward_share);
    for (size_t l = 0; l < config->layers; l++)
        if (config_mixer(config, l)->at_borders)
            return status_set(
                status, STATUS_UNSUPPORTED,
                "layer %zu, %s, passes a state on from chunk to chunk, and its gradient the other way; chunks at "
                "once have none to pass on: use seco or spaco",
                l, config_mixer(config, l)->kind.name);
    return sampler_check_count(chunks, status) && check_fixed(options, chunks, status);
}

static bool check_sums(const void *given, struct status *status)
{
    return is_whole(given) ||
           status_set(status, STATUS_BAD_INPUT,
                      "slopes need the log-probs of all chunks, but chunks run backward at once, before those to "
                      "their right; use seco, or spaco with loss \"all\"");
}

static bool redraw(void *given, size_t index)
{
    struct deferred_options *options = given;
    options->sampler_seed = sampler_seed_of(options->sampler_seed, index);
    return options->draw == DRAW_RANDOM;
}

// Sets a fixed draw, of as many chunks as the fates.
static void fix(struct deferred_options *options, const enum fate *fates, size_t count)
{
    options->draw = DRAW_FIXED;
    options->sampler_seed = SEED;
    index_list_free(&options->later_chunks);
    index_list_free(&options->skipped_chunks);
    options->later_chunks = list_of(fates, count, LATER);
    options->skipped_chunks = list_of(fates, count, SKIPPED);
}

static double odds_of(const void *of, size_t count, size_t i, size_t taken)
{
    const double *later = of;
    (void)count, (void)taken;
    return later[i];
}

// No chunk is skipped, and the first chunks are deferred: every other one then has all of their keys' gradients to
// add to. If the last is shorter, also those before it, which run with the most keys of those that are as long as
// chunk says.
static bool largest_draw(void *given, const struct config *config, size_t context, size_t index)
{
    struct deferred_options *options = given;
    (void)config;
    if (options->draw == DRAW_FIXED)
        return index == 0;
    size_t count = chunks_of(context, options->common.chunk).count;
    if (index >= (context % options->common.chunk > 0 ? 2 : 1))
        return false;
    double *later = probabilities(options, count);
    size_t most = sampler_rarely_exceeded(count, odds_of, later);
    enum fate *fates = calloc(count, sizeof *fates);
    CHECK(fates);
    for (size_t j = 0; j < most; j++)
        fates[index ? count - 2 - j : j] = LATER;
    fix(options, fates, count);
    free(fates);
    free(later);
    return true;
}

// All draws from chunk c on, whose left ones have their fates and this probability.
struct visit {
    const struct deferred_options *options;
    size_t count;
    const double *later;
    enum fate *fates;
    struct deferred_options fixed;
    draw_visit *visit;
    void *visitor;
};

static bool visit_from(struct visit *v, size_t c, double probability)
{
    if (c == v->count) {
        fix(&v->fixed, v->fates, v->count);
        return v->visit(v->visitor, &v->fixed, probability);
    }
    bool going = true;
    for (v->fates[c] = AT_ONCE; going && v->fates[c] < FATES; v->fates[c]++) {
        double p = probability_of(v->options, v->later[c], v->fates[c]);
        going = p == 0 || visit_from(v, c + 1, probability * p);
    }
    return going;
}

static bool each_draw(const void *given, size_t context, size_t max, draw_visit *visit, void *visitor,
                      struct status *status)
{
    const struct deferred_options *options = given;
    size_t count = chunks_of(context, options->common.chunk).count, draws = 1;
    if (options->draw == DRAW_FIXED) {
        visit(visitor, options, 1);
        return true;
    }
    double *later = probabilities(options, count);
    for (size_t c = 0; draws <= max && c < count; c++) {
        size_t possible = 0;
        for (enum fate fate = AT_ONCE; fate < FATES; fate++)
            possible += probability_of(options, later[c], fate) > 0;
        draws *= possible;
    }
    struct visit v = {.options = options,
                      .count = count,
                      .later = later,
                      .fates = calloc(count, sizeof *v.fates),
                      .fixed = *options,
                      .visit = visit,
                      .visitor = visitor};
    CHECK(v.fates);
    bool few = draws <= max;
    if (few)
        visit_from(&v, 0, 1);
    else
        status_set(status, STATUS_UNSUPPORTED, "there are more than %zu draws of %zu chunks; use a larger chunk",
                   max, count);
    index_list_free(&v.fixed.later_chunks);
    index_list_free(&v.fixed.skipped_chunks);
    free(v.fates);
    free(later);
    return few;
}

// Defers every chunk.
static void make_exact(void *given, size_t context)
{
    struct deferred_options *options = given;
    (void)context;
    options->deferral = options->backward_share = 1;
    options->shape = SHAPE_RAMP;
    options->draw = DRAW_RANDOM;
    index_list_free(&options->later_chunks);
    index_list_free(&options->skipped_chunks);
}

// For the draw of sampler_seed.
static double lower_bound_bytes(const struct model *model, const void *given, size_t context)
{
    const struct deferred_options *options = given;
    struct drawn d = drawn_of(options, context);
    double kept = chunk_schedule_kept(model, &options->common, &d.schedule);
    drawn_free(&d);
    return kept;
}

const struct method method_deferred = {
    .name = "deferred",
    .summary = "seco over a random part of the chunks, the others run backward at once: a gradient estimate",
    .source = "longbp",
    .options = {option_rows, sizeof(struct deferred_options)},
    .estimates = "seco",
    .check = check,
    .check_sums = check_sums,
    .parallel = PARALLEL_DATA,
    .run = run,
    .draw = redraw,
    .largest_draw = largest_draw,
    .each_draw = each_draw,
    .make_exact = make_exact,
    .lower_bound_bytes_per_token = lower_bound_bytes,
};
