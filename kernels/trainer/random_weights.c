#include "kernels/trainer/random_weights.h"
#include "kernels/base/random.h"
#include "kernels/trainer/weights.h"
#include <math.h>
#include <string.h>

// Distribution of a parameter's values.
struct distribution {
    struct random random;
    double mean, deviation;
};

static struct distribution distribution_of(const struct parameter *parameter, uint64_t seed)
{
    const char *name = parameter->copy_of ? parameter->copy_of : parameter->name;
    size_t cols = parameter->vector ? parameter->size : parameter->value.cols;
    struct distribution d = {
        .random = random_named(seed, name), .mean = parameter->mean, .deviation = 1 / sqrt((double)cols)};
    if (strstr(name, "norm.weight"))
        d.deviation = 0.1;
    else if (strstr(name, "lora_embedding_B"))
        d.deviation = 1; // as in PEFT, where the embedding's A starts as 0
    else if (strstr(name, ".bias") || parameter->factor == FACTOR_B || parameter->transposed)
        d.deviation = 0.02;
    if (parameter->deviation > 0)
        d.deviation = parameter->deviation;
    return d;
}

void random_weights_values(const struct parameter *parameter, uint64_t seed, enum dtype rounding, size_t first,
                           size_t count, double *values)
{
    enum { TOGETHER = 1024 };
    struct distribution d = distribution_of(parameter, seed);
#pragma omp parallel for schedule(static)
    for (size_t begin = 0; begin < count; begin += TOGETHER) {
        size_t end = count - begin < TOGETHER ? count : begin + TOGETHER;
        random_normals(&d.random, first + begin, end - begin, d.mean, d.deviation, values + begin);
        for (size_t i = begin; i < end; i++)
            values[i] = dtype_round(values[i], parameter_dtype(parameter, rounding));
    }
}

void random_weights_set_one(struct model *model, struct parameter *parameter, uint64_t seed, enum dtype rounding)
{
    enum { TOGETHER = 1 << 19 }; // a few MiB
    struct distribution d = distribution_of(parameter, seed);
    if (parameter->value.data && !parameter->quantisation && !parameter_is_part(parameter)) {
        op_random_normal(model->device, parameter->value, d.random, d.mean, d.deviation,
                         parameter_dtype(parameter, rounding));
        return;
    }
    size_t end = parameter->first + tensor_count(parameter->value);
    double *values = malloc(TOGETHER * sizeof *values);
    for (size_t first = parameter->first; first < end; first += TOGETHER) {
        size_t count = end - first < TOGETHER ? end - first : TOGETHER;
        random_weights_values(parameter, seed, rounding, first, count, values);
        weights_write(model, parameter, first, count, values, rounding);
    }
    free(values);
}

void random_weights_set(struct model *model, uint64_t seed, enum dtype rounding)
{
    for (size_t i = 0; i < model->parameter_count; i++)
        if (model_has(model, &model->parameters[i]))
            random_weights_set_one(model, &model->parameters[i], seed, rounding);
}
