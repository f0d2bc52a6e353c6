#include "kernels/trainer/weight_options.h"

#define UPDATES_MAX ((uint64_t)1 << 27) // of a run, whose groups of eight weights of a parameter are below 2^37

bool state_check(int state, enum dtype dtype, struct status *status)
{
    return state != STATE_BF16 || dtype == DTYPE_BF16 ||
           status_set(status, STATUS_BAD_INPUT,
                      "state \"bf16\" requires a model in bf16; leave it out, or \"f32\"");
}

struct tensor state_shape(size_t rows, size_t cols, enum dtype dtype)
{
    return (struct tensor){.rows = rows, .cols = cols, .dtype = dtype};
}

enum dtype master_dtype(const struct model *model)
{
    return dtype_accumulator(model->device->ops->dtype);
}

enum dtype state_dtype(const struct model *model, int state)
{
    return state == STATE_BF16 ? DTYPE_BF16 : state == STATE_WIDE ? master_dtype(model) : model->gradient_dtype;
}

struct tensor weight_master(const struct parameter *parameter)
{
    struct tensor kept = parameter->state[MASTER_STATE];
    return kept.data ? kept : parameter->unrounded;
}

bool weight_master_begins(const struct parameter *parameter, size_t age)
{
    return age == 1 || !parameter->state[MASTER_STATE].data;
}

struct bf16_rounding weight_rounding(const struct model *model, const struct parameter *parameter,
                                     const struct weight_options *options)
{
    CHECK(model->update < UPDATES_MAX);
    return (struct bf16_rounding){.stochastic = options->round == ROUND_STOCHASTIC,
                                  .random = random_named(options->seed, parameter->name),
                                  .first = ((uint64_t)model->update << 37) + parameter->first / 8};
}
