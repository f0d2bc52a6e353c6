// Bias: the estimate depends only on the drawn set, so its moments are finite sums over the sets.
#include "harness/trial/bias.h"
#include <math.h>
#include <string.h>

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
    struct record_bias *bias;
    const struct method *method;
    struct trainer *trainer;
    const struct batch *batch;
    const struct gradient_set *reference;
    struct gradient_set mean;
    double squared, total; // E ||g - r||^2, and the sum of probabilities
    struct step_report report;
};

static bool add_draw(void *context, const void *options, double probability)
{
    struct expectation *e = context;
    struct gradient_set estimate = {0};
    struct training_step step = {.trainer = e->trainer, .method = e->method, .batch = e->batch, .options = options};
    training_step_take(&step, &e->report);
    gradient_set_take(&estimate, e->trainer->model);
    e->squared += probability * add_estimate(&e->mean, &estimate, e->reference, probability);
    gradient_set_free(&estimate);
    e->total += probability;
    e->bias->subsets++;
    return e->trainer->model->device->status.code == STATUS_OK;
}

bool bias_measure(struct record_bias *bias, const struct method *method, struct trainer *trainer,
                  const struct batch *batch, const void *options, const struct gradient_set *reference,
                  struct status *status)
{
    *bias = (struct record_bias){.given = true};
    struct expectation e = {
        .bias = bias, .method = method, .trainer = trainer, .batch = batch, .reference = reference};
    struct status why = {0};
    const struct status *device = &trainer->model->device->status;
    gradient_set_take(&e.mean, trainer->model); // for its shape
    set_zero(&e.mean);
    bool able = method->each_draw(options, batch->context, BIAS_SUBSETS_MAX, add_draw, &e, &why);
    double norm_squared = squared_norm(reference);
    bias->relative_l2 = gradient_relative_l2(&e.mean, reference);
    bias->rms_error = norm_squared > 0 ? sqrt(e.squared / norm_squared) : e.squared > 0 ? INFINITY : 0;
    gradient_set_free(&e.mean);
    step_report_free(&e.report);
    if (!able)
        return status_set(status, why.code, "measure.bias walks every draw: %.900s", why.message);
    if (device->code != STATUS_OK)
        return status_set(status, device->code, "%s", device->message);
    CHECK(fabs(e.total - 1) < 1e-9); // otherwise draws are missing
    return true;
}
