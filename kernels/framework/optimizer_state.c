#include "kernels/framework/optimizer_state.h"
#include "kernels/framework/shares.h"
#include <stdlib.h>

// bitsandbytes: blocks with a scale each, weights that are too few for 8 bits, and those whose states are paged.
#define BLOCK          256
#define SMALLEST_8BIT  4096
#define SMALLEST_PAGED 100000
#define CODE_VALUES    256 // of a table of 8-bit values

static bool is_vector(const struct framework_run *run, size_t i)
{
    return run->weights[i].rows == 1 && !parameter_is_factor(&run->model->parameters[i]);
}

static bool is_8bit(const struct framework_run *run)
{
    return run->framework.optim == OPTIM_ADAMW_8BIT || run->framework.optim == OPTIM_PAGED_ADAMW_8BIT;
}

static bool is_paged(const struct framework_run *run)
{
    return run->framework.optim == OPTIM_PAGED_ADAMW_8BIT || run->framework.optim == OPTIM_PAGED_ADAMW_32BIT;
}

static void add(struct framework_run *run, size_t i, struct value state)
{
    struct value *states = &run->state[FRAMEWORK_STATES * i];
    size_t s = 0;
    while (states[s].storage)
        s++;
    CHECK(s < FRAMEWORK_STATES);
    states[s] = state;
}

static struct value state_new(struct framework_run *run, size_t rows, size_t cols, enum dtype dtype)
{
    return shares_new(run, SHARDS_STATES, "state", rows, cols, dtype, CATEGORY_OPTIMIZER);
}

// bytes: of an element of both moments, whose pages a managed allocation moves between host and card.
static void open_moments(struct framework_run *run, size_t i, enum dtype dtype)
{
    const struct value *weight = &run->weights[i];
    bool paged = is_paged(run) && weight->rows * weight->cols >= SMALLEST_PAGED;
    for (size_t moment = 0; moment < 2; moment++)
        add(run, i,
            paged ? tape_new_on_host(&run->tape, "state", weight->rows, weight->cols, dtype, CATEGORY_OPTIMIZER)
                  : state_new(run, weight->rows, weight->cols, dtype));
}

// Trainer keeps the states of embeddings in f32, and bitsandbytes those of small weights.
static void open_bitsandbytes(struct framework_run *run, size_t i)
{
    const struct parameter *parameter = &run->model->parameters[i];
    size_t elements = run->weights[i].rows * run->weights[i].cols, blocks = (elements + BLOCK - 1) / BLOCK;
    bool overridden = parameter == run->model->embedding && run->framework.trainer != TRAINER_PLAIN;
    if (!is_8bit(run) || overridden || elements < SMALLEST_8BIT) {
        open_moments(run, i, DTYPE_F32);
        return;
    }
    for (size_t table = 1; table < 3; table++)
        if (!run->codes[table].storage)
            run->codes[table] = state_new(run, CODE_VALUES, 1, DTYPE_F32);
    open_moments(run, i, DTYPE_U8);
    for (size_t moment = 0; moment < 2; moment++)
        add(run, i, state_new(run, blocks, 1, DTYPE_F32));
}

// A mean of squares for each row and each column, or one for each element of a vector; and the weight's size.
static void open_adafactor(struct framework_run *run, size_t i)
{
    const struct value *weight = &run->weights[i];
    add(run, i, state_new(run, is_vector(run, i) ? weight->cols : weight->rows, 1, DTYPE_F32));
    if (!is_vector(run, i))
        add(run, i, state_new(run, weight->cols, 1, DTYPE_F32));
    add(run, i, state_new(run, 1, 1, DTYPE_F32));
}

// The fused form counts its steps on the card.
static void open_adamw(struct framework_run *run, size_t i)
{
    open_moments(run, i, run->weights[i].dtype);
    if (run->framework.optimizer_form == OPTIMIZER_FUSED)
        add(run, i, state_new(run, 1, 1, DTYPE_F32));
}

void optimizer_state_open(struct framework_run *run, size_t i)
{
    switch ((enum framework_optim)run->framework.optim) {
    case OPTIM_ADAMW:
        open_adamw(run, i);
        break;
    case OPTIM_ADAMW_8BIT:
    case OPTIM_PAGED_ADAMW_8BIT:
    case OPTIM_PAGED_ADAMW_32BIT:
        open_bitsandbytes(run, i);
        break;
    case OPTIM_ADAFACTOR:
        open_adafactor(run, i);
        break;
    case OPTIM_SGD:
        break;
    }
}

// ---- updates

// Trainer has two groups: vectors, which do not decay, are the second.
static size_t group_of(const struct framework_run *run, size_t i)
{
    return run->framework.trainer != TRAINER_PLAIN && is_vector(run, i);
}

// The foreach form makes a list of roots of a group at a time.
static void update_foreach(struct framework_run *run, size_t group)
{
    struct tape *tape = &run->tape;
    struct value *roots = calloc(run->model->parameter_count, sizeof *roots);
    CHECK(roots);
    for (size_t i = 0; i < run->model->parameter_count; i++) {
        const struct value *weight = &run->weights[i];
        if (weight->node && group_of(run, i) == group)
            roots[i] = shares_new(run, SHARDS_STATES, "foreach_sqrt", weight->rows, weight->cols, weight->dtype,
                                  CATEGORY_OPTIMIZER);
    }
    for (size_t i = 0; i < run->model->parameter_count; i++)
        tape_drop(tape, &roots[i]);
    free(roots);
}

// The names of Adafactor's loop, which keep the values of the last weight until the next one's are there.
struct adafactor {
    struct value gradient, weight, update;
};

static struct value in_f32(struct framework_run *run, struct value x)
{
    struct value plain = x;
    plain.node = NULL;
    return aten_to(&run->tape, plain, DTYPE_F32, CATEGORY_OPTIMIZER);
}

static void update_adafactor(struct framework_run *run, size_t i, struct adafactor *names)
{
    struct tape *tape = &run->tape;
    struct value weight = run->weights[i], squares, above;
    tape_drop(tape, &names->gradient);
    names->gradient = in_f32(run, weight.node->kept);
    tape_drop(tape, &names->weight);
    names->weight = in_f32(run, weight);
    squares = tape_new(tape, "pow", weight.rows, weight.cols, DTYPE_F32, CATEGORY_OPTIMIZER);
    above = tape_new(tape, "add", weight.rows, weight.cols, DTYPE_F32, CATEGORY_OPTIMIZER);
    tape_drop(tape, &squares);
    tape_rebind(tape, &names->update, above);
    struct value factors[] = {{0}, {0}};
    for (size_t factor = 0; factor < 2 && !is_vector(run, i); factor++)
        factors[factor] =
            tape_new(tape, "rsqrt", factor ? weight.cols : weight.rows, 1, DTYPE_F32, CATEGORY_OPTIMIZER);
    tape_rebind(tape, &names->update,
                tape_new(tape, "mul", weight.rows, weight.cols, DTYPE_F32, CATEGORY_OPTIMIZER));
    for (size_t factor = 0; factor < 2; factor++)
        tape_drop(tape, &factors[factor]);
    tape_within(tape, "neg", names->update.storage->bytes);
}

void optimizer_state_update(struct framework_run *run)
{
    struct adafactor names = {0};
    bool foreach = run->framework.optim == OPTIM_ADAMW && run->framework.optimizer_form == OPTIMIZER_FOREACH;
    for (size_t group = 0; group < 2; group++) {
        if (foreach)
            update_foreach(run, group);
        for (size_t i = 0; run->framework.optim == OPTIM_ADAFACTOR && i < run->model->parameter_count; i++)
            if (run->weights[i].node && group_of(run, i) == group)
                update_adafactor(run, i, &names);
    }
    tape_drop(&run->tape, &names.gradient);
    tape_drop(&run->tape, &names.weight);
    tape_drop(&run->tape, &names.update);
}
