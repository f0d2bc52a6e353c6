// Bias: the estimate is a function of the set drawn alone, so its moments are finite sums over the sets.
#include "harness/run/bias.h"
#include "methods/columns.h"
#include "methods/sampler.h"
#include <math.h>
#include <string.h>

// The subsets of K columns as bit masks: all of them, or for `uniform` those with t bits, in rising order.
struct subsets {
    size_t columns, count; // count is cut short at BIAS_SUBSETS_MAX + 1
    uint64_t mask, end;
    bool same_size;
};

static size_t choose(size_t n, size_t k)
{
    size_t result = k <= n;
    k = k > n - k ? n - k : k;
    for (size_t i = 1; i <= k && result && result <= BIAS_SUBSETS_MAX; i++)
        result = result * (n - k + i) / i;
    return result <= BIAS_SUBSETS_MAX ? result : BIAS_SUBSETS_MAX + 1;
}

static struct subsets subsets_of(size_t columns, const struct method_options *options)
{
    struct subsets s = {.columns = columns, .same_size = options->sampler == SAMPLER_UNIFORM};
    if (columns >= 64) {
        s.count = BIAS_SUBSETS_MAX + 1;
        return s;
    }
    s.end = (uint64_t)1 << columns;
    if (s.same_size) {
        s.count = choose(columns, options->budget);
        s.mask = ((uint64_t)1 << options->budget) - 1;
    } else if (options->sampler == SAMPLER_FIXED) {
        s.count = 1;
        for (size_t i = 0; i < options->columns.count; i++)
            s.mask |= (uint64_t)1 << options->columns.items[i];
        s.end = s.mask + 1;
    } else {
        s.count = s.end <= BIAS_SUBSETS_MAX ? s.end : BIAS_SUBSETS_MAX + 1;
    }
    return s;
}

static void advance(struct subsets *s)
{
    if (!s->same_size || s->mask == 0) {
        s->mask = s->mask == 0 && s->same_size ? s->end : s->mask + 1;
        return;
    }
    // The next number with as many bits (Gosper; HAKMEM item 175).
    uint64_t lowest = s->mask & -s->mask, ripple = s->mask + lowest;
    s->mask = ripple | ((ripple ^ s->mask) >> 2) / lowest;
}

// Makes `fixed` give the estimate that the sampler of `options` would give for the subset; returns the subset's
// probability.
static double fix(struct method_options *fixed, const struct method_options *options, const struct subsets *s)
{
    size_t count = 0;
    index_list_resize(&fixed->columns, s->columns);
    for (size_t i = 0; i < s->columns; i++)
        if (s->mask >> i & 1)
            fixed->columns.items[count++] = (uint32_t)i;
    index_list_resize(&fixed->columns, count);
    fixed->sampler = SAMPLER_FIXED;
    if (options->sampler == SAMPLER_SEQUENTIAL)
        fixed->compensation = COMPENSATION_SEQUENTIAL;
    return sampler_probability(options, s->columns, &fixed->columns);
}

// Adds the estimate's share to the expectation; returns ||g - r||^2.
static double add_estimate(struct gradient_set *expectation, const struct gradient_set *estimate,
                           const struct gradient_set *reference, double probability)
{
    double squared = 0;
    for (size_t i = 0; i < reference->count; i++)
        for (size_t j = 0; j < reference->tensors[i].size; j++) {
            double g = estimate->tensors[i].values[j], difference = g - reference->tensors[i].values[j];
            expectation->tensors[i].values[j] += probability * g;
            squared += difference * difference;
        }
    return squared;
}

static void set_zero(struct gradient_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        memset(set->tensors[i].values, 0, set->tensors[i].size * sizeof(double));
}

static double squared_norm(const struct gradient_set *set)
{
    double squared = 0;
    for (size_t i = 0; i < set->count; i++)
        for (size_t j = 0; j < set->tensors[i].size; j++)
            squared += set->tensors[i].values[j] * set->tensors[i].values[j];
    return squared;
}

bool bias_measure(struct bias *bias, const struct method *method, struct model *model, const struct batch *batch,
                  const struct method_options *options, const struct gradient_set *reference, struct status *status)
{
    *bias = (struct bias){0};
    struct subsets s = subsets_of(columns_of(batch->context, options->chunk).count, options);
    if (s.count > BIAS_SUBSETS_MAX)
        return status_set(status, STATUS_UNSUPPORTED,
                          "measure.bias enumerates every set of columns, and sampler and budget allow more than %d "
                          "sets of %zu columns; use a larger chunk",
                          BIAS_SUBSETS_MAX, s.columns);
    if (options->sampler == SAMPLER_SEQUENTIAL && options->compensation != COMPENSATION_PAPER &&
        options->compensation != COMPENSATION_SEQUENTIAL)
        return status_set(status, STATUS_UNSUPPORTED,
                          "measure.bias knows sampler sequential only with its own factors (compensation paper)");
    struct gradient_set expectation = {0}, estimate = {0};
    struct method_options fixed = options_copy(options);
    struct step_report report = {0};
    gradient_set_take(&expectation, model); // for its shape
    set_zero(&expectation);

    double squared = 0, total = 0;
    for (; s.mask < s.end && model->device->status.code == STATUS_OK; advance(&s)) {
        double probability = fix(&fixed, options, &s);
        if (probability == 0)
            continue;
        method_step(method, model, batch, &fixed, &report);
        gradient_set_take(&estimate, model);
        squared += probability * add_estimate(&expectation, &estimate, reference, probability);
        gradient_set_free(&estimate);
        total += probability;
        bias->subsets++;
    }
    double norm_squared = squared_norm(reference);
    bias->relative_l2 = gradient_relative_l2(&expectation, reference);
    bias->rms_error = norm_squared > 0 ? sqrt(squared / norm_squared) : squared > 0 ? INFINITY : 0;
    gradient_set_free(&expectation);
    step_report_free(&report);
    options_free(&fixed);
    if (model->device->status.code != STATUS_OK)
        return status_set(status, model->device->status.code, "%s", model->device->status.message);
    CHECK(fabs(total - 1) < 1e-9); // or sets are missing
    return true;
}
