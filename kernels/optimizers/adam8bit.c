// Adam with both moments in 8 bits, in blocks of 256 with a scale each; f32 for tensors of less than 4,096 elements
// and, by default, the embedding. 2.03 bytes of state per element, otherwise 8.
#include "kernels/optimizers/adam8bit.h"
#include "kernels/device/dynamic_map.h"
#include "kernels/optimizers/adamw.h"

#define CODED_MIN 4096 // elements

// In the order of the names below.
enum { EMBEDDING_WIDE, EMBEDDING_CODED };

struct adam8bit_options {
    struct adamw_options adamw;
    int embedding_state;
};

static const struct option rows[] = {
    {OPTION_RATE(struct adamw_options, 1e-4)},
    {OPTION_DECAY(struct adamw_options, 0.01)},
    {OPTION_BETA1(struct adamw_options)},
    {OPTION_BETA2(struct adamw_options)},
    {OPTION_EPSILON(struct adamw_options)},
    {OPTION_FORM(struct adamw_options, ADAM_BITSANDBYTES)},
    {OPTION("embedding_state", CHOICE, struct adam8bit_options, embedding_state),
     .choices = OPTION_CHOICES("f32", "8bit"),
     .help = "dtype of the moments of the embedding and a tied head: f32 (f64 in f64), as with bitsandbytes in "
             "transformers' Trainer, or 8 bits, as for all other matrices"},
    {OPTION_ROUND(struct adamw_options)},
    {OPTION_SEED(struct adamw_options)},
    {OPTION_WHEN(struct adamw_options, UPDATE_AT_END)},
    {0}};

enum { FIRST_SCALE = SECOND_MOMENT + 1, SECOND_SCALE };

static void wide_shape(const struct trainer *trainer, struct tensor of, struct tensor state[ADAM8BIT_STATES])
{
    state[FIRST_MOMENT] = state[SECOND_MOMENT] = state_shape(of.rows, of.cols, master_dtype(trainer->model));
}

void adam8bit_shape(const struct trainer *trainer, struct tensor of, size_t whole,
                    struct tensor state[ADAM8BIT_STATES])
{
    size_t count = tensor_count(of);
    if (whole < CODED_MIN) {
        wide_shape(trainer, of, state);
        return;
    }
    state[FIRST_MOMENT] = state[SECOND_MOMENT] = state_shape((count + 3) / 4, 1, DTYPE_I32);
    state[FIRST_SCALE] = state[SECOND_SCALE] = state_shape((count + MAP_BLOCK - 1) / MAP_BLOCK, 1, DTYPE_F32);
}

void adam8bit_move(struct device *device, struct tensor w, struct tensor grad,
                   const struct tensor state[ADAM8BIT_STATES], const struct adam_step *step)
{
    struct tensor m = state[FIRST_MOMENT], v = state[SECOND_MOMENT];
    if (state[FIRST_SCALE].data) {
        op_adamw_coded(device, w, grad, (struct coded_moments){m, v, state[FIRST_SCALE], state[SECOND_SCALE]},
                       step);
    } else {
        op_adamw(device, w, tensor_none(), grad, m, v, step);
    }
}

static void state(const struct trainer *trainer, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    const struct adam8bit_options *options = trainer->optimizer_options;
    if (p == trainer->model->embedding && options->embedding_state == EMBEDDING_WIDE)
        wide_shape(trainer, p->value, state);
    else
        adam8bit_shape(trainer, p->value, p->size, state);
}

static void update(struct trainer *trainer, struct parameter *p)
{
    struct adam_step step = adamw_step(trainer, p);
    adam8bit_move(trainer->model->device, p->value, p->grad, p->state, &step);
}

const struct optimizer optimizer_adam8bit = {
    .name = "adam8bit",
    .summary = "AdamW with 8-bit moments, in blocks",
    .source = "Dettmers et al. 2022, arXiv 2110.02861, as in bitsandbytes",
    .options = {rows, sizeof(struct adam8bit_options)},
    .by_element = true,
    .state = state,
    .update = update,
};
