#include "methods/sampler.h"
#include "kernels/base/random.h"
#include <string.h>

// t. A fixed set's budget defaults to its size.
static double budget(const struct spaco_options *options)
{
    if (options->sampler == SAMPLER_FIXED && options->budget == 0)
        return options->drawn_chunks.count ? options->drawn_chunks.count : 1;
    return options->budget;
}

// Probability of chunk i if `taken` chunks to its right were drawn.
static double sequential_probability(const struct spaco_options *options, size_t count, size_t i, size_t taken)
{
    double t = budget(options), minimum = options->minimum > 0 ? options->minimum : t / count / 2;
    double p = (t - taken) / (i + 1);
    return p > 1 ? 1 : p < minimum ? minimum : p;
}

static bool contains(const struct index_list *chunks, size_t chunk)
{
    for (size_t i = 0; i < chunks->count; i++)
        if (chunks->items[i] == chunk)
            return true;
    return false;
}

bool sampler_check_count(struct chunks chunks, struct status *status)
{
    return chunks.count <= DRAWN_CHUNKS_MAX ||
           status_set(status, STATUS_UNSUPPORTED,
                      "chunk %zu cuts %zu tokens into %zu chunks, more than %d; use a larger chunk", chunks.chunk,
                      chunks.context, chunks.count, DRAWN_CHUNKS_MAX);
}

bool sampler_check_chunks(const struct index_list *list, struct chunks chunks, struct status *status)
{
    for (size_t j = 0; j < list->count; j++)
        if (list->items[j] >= chunks.count)
            return status_set(status, STATUS_UNSUPPORTED,
                              "chunk %u does not exist: %zu tokens in chunks of %zu are chunks 0 to %zu",
                              list->items[j], chunks.context, chunks.chunk, chunks.count - 1);
    return true;
}

static double kv_factor(const struct spaco_options *options, double factor)
{
    switch (options->compensation) {
    case COMPENSATION_NONE:
        return 1;
    case COMPENSATION_CAPPED:
        return factor < options->cap ? factor : options->cap;
    default:
        return factor;
    }
}

size_t sampler_seed_of(size_t sampler_seed, size_t index)
{
    struct random random = random_named(sampler_seed, "spaco draws");
    return index == 0 ? sampler_seed : (size_t)(random_bits(&random, index) >> 11);
}

struct draw sampler_draw(const struct spaco_options *options, size_t count)
{
    struct random random = random_named(options->sampler_seed, "spaco columns");
    bool taken[DRAWN_CHUNKS_MAX] = {false};
    double factor[DRAWN_CHUNKS_MAX];
    bool sequential = options->sampler == SAMPLER_SEQUENTIAL || options->compensation == COMPENSATION_SEQUENTIAL;
    double t = budget(options);
    size_t drawn = 0;
    for (size_t i = count; i-- > 0;) {
        double p = sequential ? sequential_probability(options, count, i, drawn) : t / count;
        double u = random_uniform(&random, i);
        switch (options->sampler) {
        case SAMPLER_UNIFORM:
            taken[i] = u * (i + 1) < t - drawn;
            break; // selection sampling, Knuth 3.4.2 S
        case SAMPLER_BERNOULLI:
        case SAMPLER_SEQUENTIAL:
            taken[i] = u < p;
            break;
        case SAMPLER_FIXED:
            taken[i] = contains(&options->drawn_chunks, i);
            break;
        }
        factor[i] = 1 / p;
        drawn += taken[i];
    }
    struct draw draw = {.loss_factor = calloc(drawn + 1, sizeof *draw.loss_factor),
                        .kv_factor = calloc(drawn + 1, sizeof *draw.kv_factor)};
    CHECK(draw.loss_factor && draw.kv_factor);
    index_list_resize(&draw.chunks, drawn);
    for (size_t i = 0, j = 0; i < count; i++) {
        if (taken[i]) {
            draw.chunks.items[j] = (uint32_t)i;
            draw.loss_factor[j] = factor[i];
            draw.kv_factor[j] = kv_factor(options, factor[i]);
            j++;
        }
    }
    return draw;
}

void draw_free(struct draw *draw)
{
    index_list_free(&draw->chunks);
    free(draw->loss_factor);
    free(draw->kv_factor);
    *draw = (struct draw){0};
}

// Probability of a draw that exceeds the reported count. Neglected tails are tiny compared with one in a million.
#define RARE    1e-6
#define NOTHING 1e-15

size_t sampler_rarely_exceeded(size_t count, sampler_odds *odds, const void *of)
{
    double *mass = calloc(count + 2, sizeof *mass), beyond = 0; // probability of each count so far
    size_t min = 0, max = 0;
    CHECK(mass);
    mass[0] = 1;
    for (size_t i = count; i-- > 0;) {
        max++;
        for (size_t n = max + 1; n-- > min;) {
            double before = n > min ? mass[n - 1] * odds(of, count, i, n - 1) : 0;
            mass[n] = mass[n] * (1 - odds(of, count, i, n)) + before;
        }
        while (max > min && mass[max] < NOTHING)
            mass[max--] = 0;
        while (min < max && mass[min] < NOTHING)
            mass[min++] = 0;
    }
    while (max > 0 && beyond + mass[max] <= RARE)
        beyond += mass[max--];
    free(mass);
    return max;
}

static double odds_of(const void *of, size_t count, size_t i, size_t taken)
{
    const struct spaco_options *options = of;
    return options->sampler == SAMPLER_SEQUENTIAL ? sequential_probability(options, count, i, taken)
                                                  : budget(options) / count;
}

size_t sampler_max_drawn(const struct spaco_options *options, size_t count)
{
    if (options->sampler == SAMPLER_FIXED)
        return options->drawn_chunks.count;
    if (options->sampler == SAMPLER_UNIFORM)
        return options->budget < count ? options->budget : count;
    return sampler_rarely_exceeded(count, odds_of, options);
}

double sampler_probability(const struct spaco_options *options, size_t count, const struct index_list *chunks)
{
    double t = budget(options), probability = 1;
    size_t taken = 0;
    if (options->sampler == SAMPLER_FIXED)
        return index_list_equal(chunks, &options->drawn_chunks);
    for (size_t i = count; i-- > 0;) {
        bool hit = contains(chunks, i);
        double p = options->sampler == SAMPLER_UNIFORM     ? (t - taken) / (i + 1)
                   : options->sampler == SAMPLER_BERNOULLI ? t / count
                                                           : sequential_probability(options, count, i, taken);
        probability *= hit ? p : 1 - p;
        taken += hit;
    }
    return probability > 0 ? probability : 0;
}
