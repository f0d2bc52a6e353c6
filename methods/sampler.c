#include "methods/sampler.h"
#include "kernels/base/random.h"
#include <string.h>

// t. The budget of a fixed set defaults to its size.
static double budget(const struct spaco_options *options)
{
    if (options->sampler == SAMPLER_FIXED && options->budget == 0) {
        return options->columns.count ? options->columns.count : 1;
    }
    return options->budget;
}

// Probability of column i when `taken` columns to its right were taken.
static double sequential_probability(const struct spaco_options *options, size_t count, size_t i, size_t taken)
{
    double t = budget(options), minimum = options->minimum > 0 ? options->minimum : t / count / 2;
    double p = (t - taken) / (i + 1);
    return p > 1 ? 1 : p < minimum ? minimum : p;
}

static bool contains(const struct index_list *columns, size_t column)
{
    for (size_t i = 0; i < columns->count; i++) {
        if (columns->items[i] == column) {
            return true;
        }
    }
    return false;
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
    bool taken[COLUMNS_MAX] = {false};
    double factor[COLUMNS_MAX];
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
            taken[i] = contains(&options->columns, i);
            break;
        }
        factor[i] = 1 / p;
        drawn += taken[i];
    }
    struct draw draw = {.loss_factor = calloc(drawn + 1, sizeof *draw.loss_factor),
                        .kv_factor = calloc(drawn + 1, sizeof *draw.kv_factor)};
    CHECK(draw.loss_factor && draw.kv_factor);
    index_list_resize(&draw.columns, drawn);
    for (size_t i = 0, j = 0; i < count; i++) {
        if (taken[i]) {
            draw.columns.items[j] = (uint32_t)i;
            draw.loss_factor[j] = factor[i];
            draw.kv_factor[j] = kv_factor(options, factor[i]);
            j++;
        }
    }
    return draw;
}

void draw_free(struct draw *draw)
{
    index_list_free(&draw->columns);
    free(draw->loss_factor);
    free(draw->kv_factor);
    *draw = (struct draw){0};
}

// Of a draw: that it has so many columns. What is left out at either end is nothing beside one in a million.
#define RARE    1e-6
#define NOTHING 1e-15

size_t sampler_most_drawn(const struct spaco_options *options, size_t count)
{
    double t = budget(options), beyond = 0;
    if (options->sampler == SAMPLER_FIXED) {
        return options->columns.count;
    }
    if (options->sampler == SAMPLER_UNIFORM) {
        return options->budget < count ? options->budget : count;
    }
    bool sequential = options->sampler == SAMPLER_SEQUENTIAL;
    double *mass = calloc(count + 2, sizeof *mass); // of as many columns, from those that were passed
    size_t least = 0, most = 0;
    CHECK(mass);
    mass[0] = 1;
    for (size_t i = count; i-- > 0;) {
        most++;
        for (size_t n = most + 1; n-- > least;) {
            double before = n > least ? mass[n - 1] : 0;
            double p = sequential ? sequential_probability(options, count, i, n) : t / count;
            double from = n > least && sequential ? sequential_probability(options, count, i, n - 1) : p;
            mass[n] = mass[n] * (1 - p) + before * from;
        }
        while (most > least && mass[most] < NOTHING) {
            mass[most--] = 0;
        }
        while (least < most && mass[least] < NOTHING) {
            mass[least++] = 0;
        }
    }
    while (most > 0 && beyond + mass[most] <= RARE) {
        beyond += mass[most--];
    }
    free(mass);
    return most;
}

double sampler_probability(const struct spaco_options *options, size_t count, const struct index_list *columns)
{
    double t = budget(options), probability = 1;
    size_t taken = 0;
    if (options->sampler == SAMPLER_FIXED) {
        return index_list_equal(columns, &options->columns);
    }
    for (size_t i = count; i-- > 0;) {
        bool hit = contains(columns, i);
        double p = options->sampler == SAMPLER_UNIFORM     ? (t - taken) / (i + 1)
                   : options->sampler == SAMPLER_BERNOULLI ? t / count
                                                           : sequential_probability(options, count, i, taken);
        probability *= hit ? p : 1 - p;
        taken += hit;
    }
    return probability > 0 ? probability : 0;
}
