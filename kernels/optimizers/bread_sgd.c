// BREAD-SGD: block coordinate descent, and stateless SGD on the other layers, each updated when its gradient is
// complete, which is then freed: a layer-by-layer schedule keeps one layer's gradients at a time. Section 4.2,
// algorithm II. Deviation: updates a whole layer at once instead of matrix by matrix. With when = end all gradients
// are kept, with the same bits.
#include "kernels/model/unit_parameters.h"
#include "kernels/optimizers/bread.h"

struct bread_sgd_options {
    struct bread_options bread;
    double ratio;
};

static const struct option rows[] = {OPTIONS_BREAD,
                                     {OPTION("ratio", NUMBER, struct bread_sgd_options, ratio), .maximum = 1e9,
                                      .initial = 5,
                                      .help = "ratio of the rates of the other layers' SGD and the active layer"},
                                     {OPTION_WHEN(struct adamw_options, UPDATE_IN_BACKWARD)},
                                     {0}};

static struct role role(const struct trainer *trainer, const struct parameter *p)
{
    const struct bread_sgd_options *options = trainer->optimizer_options;
    size_t unit = unit_of(trainer->model, p), active = trainer->active.layer;
    bool layer = unit >= unit_of_layer(0) && unit < unit_of_head(trainer->model);
    return (struct role){.trains = layer && (unit == unit_of_layer(active) ||
                                             bread_expands(&options->bread, unit - unit_of_layer(0), active))};
}

static bool is_active(const struct trainer *trainer, const struct parameter *p)
{
    return unit_of(trainer->model, p) == unit_of_layer(trainer->active.layer);
}

static void state(const struct trainer *trainer, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    if (is_active(trainer, p))
        adamw_state(trainer, p, state);
}

static void update(struct trainer *trainer, struct parameter *p)
{
    const struct bread_sgd_options *options = trainer->optimizer_options;
    const struct adamw_options *adamw = &options->bread.blocks.adamw;
    const struct sgd_step step = {.rate = adamw->rate * options->ratio * trainer->update.rate_factor,
                                  .rounding = weight_rounding(trainer->model, p, &adamw->weights)};
    if (is_active(trainer, p))
        adamw_update(trainer, p);
    else
        op_sgd(trainer->model->device, p->value, tensor_none(), p->grad, tensor_none(), &step);
}

const struct optimizer optimizer_bread_sgd = {
    .name = "bread-sgd",
    .summary = "block coordinate descent, with SGD on the other layers within the backward pass",
    .source = "Luo et al. 2025 (BREAD), NeurIPS 2025",
    .options = {rows, sizeof(struct bread_sgd_options)},
    .lora = LORA_NEVER,
    .uneven = true,
    .check = active_block_check,
    .active_layer = active_block_layer,
    .role = role,
    .state = state,
    .update = update,
};
