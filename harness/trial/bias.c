// Bias: the estimate depends only on the drawn set, so its moments are finite sums over the sets.
#include "harness/trial/bias.h"
#include <math.h>
#include <string.h>

#define BIAS_SUBSETS_MAX 4096

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

struct expectation {
    struct run *run;
    struct gradient_set mean;
    double squared, flops, total; // E ||g - r||^2, E FLOPs, and the sum of probabilities
    size_t subsets;
};

static bool add_draw(void *context, const void *options, double probability)
{
    struct expectation *e = context;
    struct gradient_set estimate = {0};
    struct step_report report = {0};
    struct training_step step = setup_step(&e->run->setup, e->run->trial);
    double flops = e->run->setup.device->counters.flops;
    step.options = options;
    training_step_take(&step, &report);
    e->flops += probability * (e->run->setup.device->counters.flops - flops);
    gradient_set_take(&estimate, &e->run->setup.model);
    e->squared += probability * add_estimate(&e->mean, &estimate, &e->run->reference.gradients, probability);
    gradient_set_free(&estimate);
    step_report_free(&report);
    e->total += probability;
    e->subsets++;
    return e->run->setup.device->status.code == STATUS_OK;
}

bool bias_measure(struct run *run)
{
    const struct trial *trial = run->trial;
    const struct gradient_set *reference = &run->reference.gradients;
    struct expectation e = {.run = run};
    struct status why = {0};
    gradient_set_take(&e.mean, &run->setup.model); // for its shape
    set_zero(&e.mean);
    bool able =
        trial->method->each_draw(trial->options, run->setup.batch.context, BIAS_SUBSETS_MAX, add_draw, &e, &why);
    double norm_squared = squared_norm(reference);
    struct record_bias bias = {.given = true,
                               .subsets = (double)e.subsets,
                               .flops = e.flops,
                               .relative_l2 = gradient_relative_l2(&e.mean, reference)};
    bias.rms_error = norm_squared > 0 ? sqrt(e.squared / norm_squared) : e.squared > 0 ? INFINITY : 0;
    gradient_set_free(&e.mean);
    if (!able)
        return status_set(&run->status, why.code, "measure.bias runs every draw: %.900s", why.message);
    if (!run_fine(run))
        return false;
    CHECK(fabs(e.total - 1) < 1e-9); // otherwise draws are missing
    run->record.bias = bias;
    return true;
}
