#include "kernels/framework/quantised.h"
#include "kernels/device/device.h"
#include "kernels/framework/aten.h"

// Values of a block, the scales of a block of scales, and the tables of the values of both.
#define BLOCK        64
#define SCALE_BLOCK  256
#define VALUES       16
#define SCALE_VALUES 256

static size_t blocks_of(size_t count, size_t block)
{
    return (count + block - 1) / block;
}

bool quantised_is(const struct framework_run *run, size_t i)
{
    const struct model *model = run->model;
    const struct parameter *parameter = &model->parameters[i];
    return run->framework.quantised != QUANTISED_NONE && parameter != model->embedding &&
           parameter != model->head && parameter->value.rows > 1 && !parameter_is_factor(parameter);
}

static bool is_double(const struct framework_run *run)
{
    return run->framework.quantised == QUANTISED_NF4_DOUBLE;
}

static struct value state_new(struct framework_run *run, size_t count, enum dtype dtype)
{
    return tape_new(&run->tape, "quant_state", count, 1, dtype, CATEGORY_WEIGHTS);
}

void quantised_open(struct framework_run *run, size_t i)
{
    const struct tensor *shape = &run->model->parameters[i].value;
    struct value *state = &run->state[FRAMEWORK_STATES * i];
    size_t scales = blocks_of(shape->rows * shape->cols, BLOCK);
    run->weights[i] =
        tape_new(&run->tape, "weight", shape->rows, blocks_of(shape->cols, 2), DTYPE_U8, CATEGORY_WEIGHTS);
    state[0] = state_new(run, VALUES, DTYPE_F32);
    state[1] = state_new(run, scales, is_double(run) ? DTYPE_U8 : DTYPE_F32);
    if (!is_double(run))
        return;
    state[2] = state_new(run, blocks_of(scales, SCALE_BLOCK), DTYPE_F32);
    state[3] = state_new(run, 1, DTYPE_F32);
    if (!run->codes[0].storage)
        run->codes[0] = state_new(run, SCALE_VALUES, DTYPE_F32);
}

// The weight in bf16, after its scales in f32 where they are quantised, too.
struct dequantised {
    struct value scales, weight;
};

static struct dequantised copy_of(struct tape *tape, size_t rows, size_t cols, bool both)
{
    struct dequantised copy = {{0}, {0}};
    if (both)
        copy.scales =
            tape_new(tape, "dequantize_blockwise", blocks_of(rows * cols, BLOCK), 1, DTYPE_F32, CATEGORY_WORKSPACE);
    copy.weight = tape_new(tape, "dequantize_4bit", rows, cols, DTYPE_BF16, CATEGORY_WORKSPACE);
    return copy;
}

static void drop(struct tape *tape, struct dequantised *copy)
{
    tape_drop(tape, &copy->weight);
    tape_drop(tape, &copy->scales);
}

// The node holds the weight itself, not a saved tensor. call.index: whether scales are quantised.
static void matmul_backward(struct tape *tape, struct node *node, struct value grad,
                            struct value given[NODE_INPUTS])
{
    const struct value *x = &node->inputs[0];
    struct dequantised copy = copy_of(tape, grad.cols, x->cols, node->call.index);
    given[0] = tape_new(tape, "mm", x->rows, x->cols, x->dtype, CATEGORY_ACTIVATIONS);
    tape->device->counters.flops += node->flops;
    drop(tape, &copy);
}

struct value quantised_linear(struct framework_run *run, struct value x, struct value weight, struct value bias)
{
    struct tape *tape = &run->tape;
    struct value input = aten_to(tape, x, DTYPE_BF16, CATEGORY_ACTIVATIONS);
    struct value own_bias = bias.storage ? aten_to(tape, bias, DTYPE_BF16, CATEGORY_WEIGHTS) : bias;
    struct node *node = tape_record(tape, "matmul_4bit", matmul_backward, 1, &input);
    struct dequantised copy = copy_of(tape, weight.rows, x.cols, is_double(run));
    struct value y = tape_new(tape, "mm", x.rows, weight.rows, DTYPE_BF16, CATEGORY_ACTIVATIONS);
    drop(tape, &copy);
    if (node) {
        node->call.index = is_double(run);
        node->flops = 2.0 * (double)x.rows * (double)x.cols * (double)weight.rows;
    }
    if (y.storage)
        tape->device->counters.flops += 2.0 * (double)x.rows * (double)x.cols * (double)weight.rows;
    y.node = node;
    tape_drop(tape, &own_bias);
    tape_drop(tape, &input);
    tape_rebind(tape, &y, aten_to(tape, y, x.dtype, CATEGORY_ACTIVATIONS));
    return y;
}
