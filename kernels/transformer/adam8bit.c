// Adam with both moments in 8 bits, in blocks of 256 with a scale each; of tensors of less than 4,096 elements in
// f32. 2.03 bytes of state per element.
#include "kernels/base/dynamic_map.h"
#include "kernels/transformer/weight_options.h"

#define CODED_MIN 4096 // elements

struct adam8bit_options {
    double rate, decay, beta1, beta2, epsilon;
    int form;
    struct weight_options weights;
};

static const struct option rows[] = {
    OPTION_RATE(struct adam8bit_options, 1e-4), OPTION_DECAY(struct adam8bit_options, 0.01),
    OPTION_BETA1(struct adam8bit_options),      OPTION_BETA2(struct adam8bit_options),
    OPTION_EPSILON(struct adam8bit_options),    OPTION_FORM(struct adam8bit_options, ADAM_BITSANDBYTES),
    OPTION_ROUND(struct adam8bit_options),      OPTION_SEED(struct adam8bit_options),
    OPTION_WHEN(struct adam8bit_options),       {0}};

enum { FIRST_MOMENT, SECOND_MOMENT, FIRST_SCALE, SECOND_SCALE };

static void state(const struct model *model, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    size_t count = tensor_count(p->value);
    if (count < CODED_MIN) {
        state[FIRST_MOMENT] = state[SECOND_MOMENT] = state_shape(p->value.rows, p->value.cols, master_dtype(model));
        return;
    }
    state[FIRST_MOMENT] = state[SECOND_MOMENT] = state_shape((count + 3) / 4, 1, DTYPE_I32);
    state[FIRST_SCALE] = state[SECOND_SCALE] = state_shape((count + MAP_BLOCK - 1) / MAP_BLOCK, 1, DTYPE_F32);
}

static void update(struct model *model, struct parameter *p)
{
    const struct adam8bit_options *options = model->optimizer_options;
    const struct adam_step step = {.rate = options->rate * model->update.rate_factor,
                                   .beta1 = options->beta1,
                                   .beta2 = options->beta2,
                                   .epsilon = options->epsilon,
                                   .decay = p->vector ? 0 : options->decay,
                                   .t = model->update.age,
                                   .form = (enum adam_form)options->form,
                                   .rounding = weight_rounding(model, p, &options->weights)};
    struct tensor m = p->state[FIRST_MOMENT], v = p->state[SECOND_MOMENT];
    if (p->state[FIRST_SCALE].data) {
        const struct coded_moments moments = {m, v, p->state[FIRST_SCALE], p->state[SECOND_SCALE]};
        op_adamw_coded(model->device, p->value, p->grad, moments, &step);
    } else {
        op_adamw(model->device, p->value, tensor_none(), p->grad, m, v, &step);
    }
}

const struct optimizer optimizer_adam8bit = {
    .name = "adam8bit",
    .summary = "AdamW with moments in 8 bits, in blocks",
    .source = "Dettmers et al. 2022, arXiv 2110.02861, as bitsandbytes has it",
    .options = {rows, sizeof(struct adam8bit_options)},
    .state = state,
    .update = update,
};
