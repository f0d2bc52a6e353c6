// Gradient error: one pass over two arrays computes the sums for every measure. NaN propagates to every measure.
#include "harness/step/gradient_error.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

struct sums {
    double difference_squared, value_squared, reference_squared, product;
    double absolute, relative, max_abs;
    size_t count, relative_count;
};

static void add(struct sums *sums, const double *g, const double *r, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double difference = fabs(g[i] - r[i]);
        sums->difference_squared += difference * difference;
        sums->value_squared += g[i] * g[i];
        sums->reference_squared += r[i] * r[i];
        sums->product += g[i] * r[i];
        sums->absolute += difference;
        // fmax would drop a NaN.
        if (!(difference <= sums->max_abs))
            sums->max_abs = isnan(sums->max_abs) ? sums->max_abs : difference;
        if (r[i] != 0) {
            sums->relative += difference / fabs(r[i]);
            sums->relative_count++;
        }
    }
    sums->count += count;
}

bool gradient_vanishes(const struct gradient_error *error)
{
    return error->reference_l2 <= 1e-12 * error->share_l2;
}

double gradient_scale(const struct gradient_error *error)
{
    return gradient_vanishes(error) ? error->share_l2 : error->reference_l2;
}

static struct gradient_error error_of(const struct sums *sums, double share_l2)
{
    double l2 = sqrt(sums->difference_squared), reference_l2 = sqrt(sums->reference_squared);
    double norms = sqrt(sums->value_squared) * sqrt(sums->reference_squared);
    bool both_zero = sums->value_squared == 0 && sums->reference_squared == 0;
    struct gradient_error error = {
        .l2 = l2,
        .reference_l2 = reference_l2,
        .share_l2 = share_l2,
        .max_abs = sums->max_abs,
        .cosine = norms == 0 ? both_zero : sums->product / norms,
        .decimals = -log10(sums->max_abs),
        .mean_abs = sums->count ? sums->absolute / (double)sums->count : 0,
        .mean_relative = sums->relative_count ? sums->relative / (double)sums->relative_count : 0,
    };
    error.relative_l2 = l2 / gradient_scale(&error);
    return error;
}

void gradient_set_hash(struct gradient_set *set)
{
    size_t line_max = sizeof set->tensors->name + 20, length = 0;
    char *text = calloc(set->count + 1, line_max);
    for (size_t i = 0; i < set->count; i++)
        length += (size_t)snprintf(text + length, line_max, "%s %016" PRIx64 "\n", set->tensors[i].name,
                                   set->tensors[i].hash);
    set->hash = XXH3_64bits(text, length);
    free(text);
}

void gradient_set_add(struct gradient_set *set, const struct parameter *parameter, enum dtype dtype,
                      const void *bytes)
{
    struct gradient_tensor *tensor = &set->tensors[set->count++];
    memcpy(tensor->name, parameter->name, sizeof tensor->name);
    tensor->size = parameter->size;
    tensor->hash = XXH3_64bits(bytes, tensor->size * dtype_bytes(dtype));
    tensor->values = malloc((tensor->size + 1) * sizeof(double));
    for (size_t i = 0; i < tensor->size; i++)
        tensor->values[i] = dtype_value(bytes, dtype, i);
}

void gradient_set_take(struct gradient_set *set, const struct model *model)
{
    *set = (struct gradient_set){0};
    set->tensors = calloc(model->parameter_count + 1, sizeof *set->tensors);
    for (size_t i = 0; i < model->parameter_count; i++) {
        struct tensor grad = model->parameters[i].grad;
        if (!grad.data)
            continue;
        void *bytes = calloc(tensor_bytes(grad) + 1, 1);
        op_download(model->device, bytes, grad);
        gradient_set_add(set, &model->parameters[i], grad.dtype, bytes);
        free(bytes);
    }
    gradient_set_hash(set);
}

void gradient_set_free(struct gradient_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->tensors[i].values);
    free(set->tensors);
    *set = (struct gradient_set){0};
}

void gradient_compare(struct gradient_report *report, const struct gradient_set *set,
                      const struct gradient_set *reference)
{
    *report = (struct gradient_report){.hash = set->hash, .count = set->count};
    report->tensors = calloc(set->count + 1, sizeof *report->tensors);
    struct sums overall = {0}, *sums = calloc(set->count + 1, sizeof *sums);
    for (size_t i = 0, j = 0; i < set->count; i++, j++) {
        while (j < reference->count && strcmp(set->tensors[i].name, reference->tensors[j].name) != 0)
            j++;
        CHECK(j < reference->count);
        const struct gradient_tensor *g = &set->tensors[i], *r = &reference->tensors[j];
        CHECK(g->size == r->size);
        add(&sums[i], g->values, r->values, g->size);
        add(&overall, g->values, r->values, g->size);
        memcpy(report->tensors[i].name, g->name, sizeof g->name);
        report->tensors[i].hash = g->hash;
    }
    report->overall = error_of(&overall, 1);
    double whole = gradient_scale(&report->overall);
    for (size_t i = 0; i < set->count; i++) {
        double share = whole * sqrt((double)sums[i].count / (double)overall.count);
        report->tensors[i].error = error_of(&sums[i], share);
        double worst = report->tensors[report->worst].error.relative_l2;
        if (!isnan(worst) && !(report->tensors[i].error.relative_l2 <= worst))
            report->worst = i;
    }
    free(sums);
}

void gradient_report_free(struct gradient_report *report)
{
    free(report->tensors);
    *report = (struct gradient_report){0};
}

double gradient_relative_l2(const struct gradient_set *set, const struct gradient_set *reference)
{
    struct gradient_report report;
    gradient_compare(&report, set, reference);
    double relative_l2 = report.overall.relative_l2;
    gradient_report_free(&report);
    return relative_l2;
}
