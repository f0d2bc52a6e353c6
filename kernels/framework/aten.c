#include "kernels/framework/aten.h"
#include "kernels/device/device.h"
#include <stdlib.h>

#define BACKWARD(name)                                                                                             \
    static void name(struct tape *tape, struct node *node, struct value grad, struct value given[NODE_INPUTS])

// A new tensor of the gradient of input i.
static struct value new_gradient(struct tape *tape, const char *name, const struct node *node, size_t i,
                                 struct value like)
{
    const struct value *of = &node->inputs[i];
    return tape_new(tape, name, of->rows, of->cols, of->dtype, like.storage->category);
}

static size_t count(struct value x)
{
    return x.rows * x.cols;
}

static struct value result(struct value y, struct node *node)
{
    y.node = node;
    return y;
}

// ---- element by element

BACKWARD(to_backward)
{
    given[0] = new_gradient(tape, "to", node, 0, grad);
}

struct value aten_to(struct tape *tape, struct value x, enum dtype dtype, enum category category)
{
    if (x.dtype == dtype)
        return tape_share(x);
    struct node *node = tape_record(tape, "to", to_backward, 1, &x);
    return result(tape_new(tape, "to", x.rows, x.cols, dtype, category), node);
}

static enum dtype wider(enum dtype a, enum dtype b)
{
    return dtype_bytes(a) < dtype_bytes(b) ? b : a;
}

// Autograd hands an input's gradient on in the input's dtype.
static void in_own_dtype(struct tape *tape, const struct node *node, size_t i, struct value *grad)
{
    if (grad->storage && grad->dtype != node->inputs[i].dtype)
        tape_rebind(tape, grad, new_gradient(tape, "to", node, i, *grad));
}

static struct value activation(struct tape *tape, const char *name, struct value x)
{
    return tape_new(tape, name, x.rows, x.cols, x.dtype, CATEGORY_ACTIVATIONS);
}

// A tensor in x's place, which logits stay logits by.
static struct value in_place_of(struct tape *tape, const char *name, struct value x)
{
    return tape_new(tape, name, x.rows, x.cols, x.dtype, x.storage ? x.storage->category : CATEGORY_ACTIVATIONS);
}

// grad * (2 * x.pow(1))
BACKWARD(pow_backward)
{
    struct value power = new_gradient(tape, "pow", node, 0, grad);
    struct value slope = new_gradient(tape, "mul", node, 0, grad);
    given[0] = new_gradient(tape, "mul", node, 0, grad);
    tape_drop(tape, &slope);
    tape_drop(tape, &power);
}

struct value aten_pow(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "pow", pow_backward, 1, &x);
    tape_save(tape, node, x);
    return result(activation(tape, "pow", x), node);
}

BACKWARD(mean_backward)
{
    given[0] = new_gradient(tape, "div", node, 0, grad);
}

struct value aten_mean(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "mean", mean_backward, 1, &x);
    return result(tape_new(tape, "mean", x.rows, 1, x.dtype, CATEGORY_ACTIVATIONS), node);
}

BACKWARD(pass_backward)
{
    (void)tape;
    for (size_t i = 0; i < NODE_INPUTS; i++)
        if (node_needs(node, i))
            given[i] = tape_share(grad);
}

struct value aten_add_scalar(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "add", pass_backward, 1, &x);
    return result(activation(tape, "add", x), node);
}

// -0.5 * grad * result.pow(3)
BACKWARD(rsqrt_backward)
{
    struct value cube = new_gradient(tape, "pow", node, 0, grad);
    struct value half = new_gradient(tape, "mul", node, 0, grad);
    given[0] = new_gradient(tape, "mul", node, 0, grad);
    tape_drop(tape, &half);
    tape_drop(tape, &cube);
}

struct value aten_rsqrt(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "rsqrt", rsqrt_backward, 1, &x);
    struct value y = activation(tape, "rsqrt", x);
    tape_save(tape, node, y);
    return result(y, node);
}

BACKWARD(scale_backward)
{
    given[0] = new_gradient(tape, "mul", node, 0, grad);
}

struct value aten_mul_scalar(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "mul", scale_backward, 1, &x);
    return result(in_place_of(tape, "mul", x), node);
}

// The gradient of a factor: of the product's shape, then summed to its own.
BACKWARD(mul_backward)
{
    for (size_t i = 2; i-- > 0;)
        if (node_needs(node, i))
            given[i] = tape_new(tape, "mul", grad.rows, grad.cols, grad.dtype, grad.storage->category);
    for (size_t i = 0; i < 2; i++)
        if (given[i].storage) {
            const struct value *of = &node->inputs[i];
            if (count(*of) < count(grad))
                tape_rebind(tape, &given[i],
                            tape_new(tape, "sum", of->rows, of->cols, grad.dtype, grad.storage->category));
            in_own_dtype(tape, node, i, &given[i]);
        }
}

// A node of a product: the gradient of each factor needs the other one.
static struct node *record_product(struct tape *tape, const char *name, node_backward *backward, struct value a,
                                   struct value b)
{
    struct value inputs[] = {a, b};
    struct node *node = tape_record(tape, name, backward, 2, inputs);
    if (a.node)
        tape_save(tape, node, b);
    if (b.node)
        tape_save(tape, node, a);
    return node;
}

struct value aten_mul(struct tape *tape, struct value a, struct value b)
{
    struct node *node = record_product(tape, "mul", mul_backward, a, b);
    struct value shape = count(a) < count(b) ? b : a;
    shape.dtype = wider(a.dtype, b.dtype);
    return result(activation(tape, "mul", shape), node);
}

// Each side's share of the sum's gradient, in its own dtype.
BACKWARD(add_backward)
{
    for (size_t i = 0; i < 2; i++)
        if (node_needs(node, i))
            given[i] =
                node->inputs[i].dtype == grad.dtype ? tape_share(grad) : new_gradient(tape, "to", node, i, grad);
}

struct value aten_add(struct tape *tape, struct value a, struct value b, enum category category)
{
    struct value inputs[] = {a, b};
    struct node *node = tape_record(tape, "add", add_backward, 2, inputs);
    return result(tape_new(tape, "add", a.rows, a.cols, wider(a.dtype, b.dtype), category), node);
}

BACKWARD(activation_backward)
{
    given[0] = new_gradient(tape, "activation_backward", node, 0, grad);
}

struct value aten_activation(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "activation", activation_backward, 1, &x);
    tape_save(tape, node, x);
    return result(activation(tape, "activation", x), node);
}

// ---- products

// inputs: x, weight, bias
BACKWARD(linear_backward)
{
    double flops = 2.0 * (double)count(node->inputs[0]) * (double)grad.cols;
    if (node_needs(node, 1)) {
        const struct value *weight = &node->inputs[1];
        given[1] = tape_new(tape, "mm", weight->rows, weight->cols, weight->dtype, CATEGORY_GRADIENTS);
        tape->device->counters.flops += flops;
    }
    if (node_needs(node, 0)) {
        given[0] = tape_new(tape, "mm", node->inputs[0].rows, node->inputs[0].cols, node->inputs[0].dtype,
                            CATEGORY_ACTIVATIONS);
        tape->device->counters.flops += flops;
    }
    if (node_needs(node, 2))
        given[2] = tape_new(tape, "sum", 1, grad.cols, grad.dtype, CATEGORY_GRADIENTS);
}

struct value aten_linear(struct tape *tape, struct value x, struct value weight, struct value bias,
                         enum category category)
{
    struct value inputs[] = {x, weight, bias};
    struct node *node = tape_record(tape, "mm", linear_backward, 3, inputs);
    if (weight.node)
        tape_save(tape, node, x);
    if (x.node)
        tape_save(tape, node, weight);
    struct value y = tape_new(tape, "mm", x.rows, weight.rows, x.dtype, category);
    if (y.storage)
        tape->device->counters.flops += 2.0 * (double)count(x) * (double)weight.rows;
    return result(y, node);
}

BACKWARD(embedding_backward)
{
    const struct value *weight = &node->inputs[0];
    (void)grad;
    given[0] =
        tape_new(tape, "embedding_dense_backward", weight->rows, weight->cols, weight->dtype, CATEGORY_GRADIENTS);
}

struct value aten_embedding(struct tape *tape, struct value weight, struct value ids, enum category category)
{
    struct node *node = tape_record(tape, "embedding", embedding_backward, 1, &weight);
    tape_save(tape, node, ids);
    return result(tape_new(tape, "embedding", ids.rows, weight.cols, weight.dtype, category), node);
}

// ---- attention

BACKWARD(heads_backward)
{
    given[0] = new_gradient(tape, "clone", node, 0, grad);
}

static struct value by_heads(struct tape *tape, struct value x, size_t head_dim)
{
    struct node *node = tape_record(tape, "view", heads_backward, 1, &x);
    struct value heads = result(tape_share(x), node);
    heads.rows = x.rows * (x.cols / head_dim);
    heads.cols = head_dim;
    return heads;
}

struct value aten_heads(struct tape *tape, struct value x, size_t head_dim)
{
    if (x.cols == head_dim)
        return tape_share(x);
    return by_heads(tape, x, head_dim);
}

BACKWARD(turn_backward)
{
    given[0] = tape_new(tape, "mul", grad.rows, grad.cols, grad.dtype, grad.storage->category);
    in_own_dtype(tape, node, 0, &given[0]);
}

// A product with a constant, cos or sin.
static struct value turn(struct tape *tape, struct value x, struct value by)
{
    struct node *node = tape_record(tape, "mul", turn_backward, 1, &x);
    tape_save(tape, node, by);
    x.dtype = wider(x.dtype, by.dtype);
    return result(activation(tape, "mul", x), node);
}

// cat((-x2, x1)): the gradient of each half is set into zeros of x's shape.
BACKWARD(half_backward)
{
    struct value negated = tape_new(tape, "neg", grad.rows, grad.cols / 2, grad.dtype, grad.storage->category);
    given[0] = new_gradient(tape, "slice_backward", node, 0, grad);
    tape_drop(tape, &negated);
    given[1] = new_gradient(tape, "slice_backward", node, 1, grad);
}

struct value aten_rotate(struct tape *tape, struct value x, struct value cos, struct value sin)
{
    struct value straight = turn(tape, x, cos);
    struct value halves[] = {x, x};
    struct node *node = tape_record(tape, "rotate_half", half_backward, 2, halves);
    struct value negated = tape_new(tape, "neg", x.rows, x.cols / 2, x.dtype, CATEGORY_ACTIVATIONS);
    struct value half = result(activation(tape, "cat", x), node);
    tape_drop(tape, &negated);
    struct value across = turn(tape, half, sin);
    tape_drop(tape, &half);
    struct value y = aten_add(tape, straight, across, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &straight);
    tape_drop(tape, &across);
    return y;
}

BACKWARD(repeat_backward)
{
    given[0] = new_gradient(tape, "sum", node, 0, grad);
}

struct value aten_repeat(struct tape *tape, struct value x, size_t times, bool copied)
{
    if (times == 1)
        return tape_share(x);
    struct node *node = tape_record(tape, "expand", repeat_backward, 1, &x);
    if (!copied) {
        struct value view = result(tape_share(x), node);
        view.rows *= times;
        return view;
    }
    return result(tape_new(tape, "clone", x.rows * times, x.cols, x.dtype, CATEGORY_ACTIVATIONS), node);
}

struct value aten_contiguous(struct tape *tape, struct value x)
{
    struct node *node = tape_record(tape, "clone", pass_backward, 1, &x);
    return result(activation(tape, "clone", x), node);
}

static size_t up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

// Bytes that the kernels ask for besides their results: dq in f32 and softmax's sums, and flash's with fewer key
// heads dk and dv of all heads.
static size_t attention_workspace(const struct aten_attention *how, struct value k)
{
    size_t dim = up(how->head_dim, how->head_dim <= 128 ? 32 : 64);
    size_t bytes = how->batch * how->heads * up(how->tokens, 128) * (dim + 1) * sizeof(float);
    if (how->heads != how->kv_heads)
        bytes += 2 * how->batch * how->tokens * how->heads * up(how->head_dim, 8) * dtype_bytes(k.dtype);
    return bytes;
}

// Two products of causal heads, each of which sees half of the pairs.
static double attention_flops(const struct aten_attention *how)
{
    double tokens = (double)how->tokens;
    return 4 * (double)(how->batch * how->heads * how->head_dim) * tokens * (tokens + 1) / 2;
}

// One operation makes all three gradients, needed or not.
BACKWARD(attention_backward)
{
    for (size_t i = 0; i < 3; i++)
        given[i] = new_gradient(tape, "attention_backward", node, i, grad);
    tape_within(tape, "attention_backward", node->workspace);
    for (size_t i = 0; i < 3; i++)
        if (!node_needs(node, i))
            tape_drop(tape, &given[i]);
    tape->device->counters.flops += 2.5 * node->flops;
}

struct value aten_attention(struct tape *tape, struct value q, struct value k, struct value v, struct value mask,
                            struct aten_attention how)
{
    struct value inputs[] = {q, k, v};
    struct node *node = tape_record(tape, "attention", attention_backward, 3, inputs);
    size_t padded = how.kind == ATEN_EFFICIENT ? up(how.tokens, 32) : how.tokens;
    tape_save(tape, node, q);
    tape_save(tape, node, k);
    tape_save(tape, node, v);
    if (mask.storage)
        tape_save(tape, node, mask);
    struct value out = tape_new(tape, "attention", how.batch * how.tokens, how.heads * how.head_dim, q.dtype,
                                CATEGORY_ACTIVATIONS);
    struct value kept[] = {
        tape_new(tape, "logsumexp", how.batch * how.heads, padded, DTYPE_F32, CATEGORY_ACTIVATIONS),
        tape_new(tape, "philox_seed", 1, 1, DTYPE_I64, CATEGORY_ACTIVATIONS),
        tape_new(tape, "philox_offset", 1, 1, DTYPE_I64, CATEGORY_ACTIVATIONS)};
    tape_save(tape, node, out);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        tape_save(tape, node, kept[i]);
        tape_drop(tape, &kept[i]);
    }
    if (node) {
        node->workspace = attention_workspace(&how, k);
        node->flops = attention_flops(&how);
    }
    if (out.storage)
        tape->device->counters.flops += attention_flops(&how);
    return result(out, node);
}

// ---- eager attention

BACKWARD(bmm_backward)
{
    double flops = 2.0 * (double)count(node->inputs[0]) * (double)grad.cols;
    for (size_t i = 2; i-- > 0;)
        if (node_needs(node, i)) {
            given[i] = new_gradient(tape, "bmm", node, i, grad);
            tape->device->counters.flops += flops;
        }
}

struct value aten_bmm(struct tape *tape, struct value a, struct value b, size_t cols)
{
    struct node *node = record_product(tape, "bmm", bmm_backward, a, b);
    struct value y = tape_new(tape, "bmm", a.rows, cols, a.dtype, CATEGORY_ACTIVATIONS);
    if (y.storage)
        tape->device->counters.flops += 2.0 * (double)count(a) * (double)cols;
    return result(y, node);
}

// An operation whose gradient needs its result alone.
static struct value by_result(struct tape *tape, const char *name, struct value x)
{
    struct node *node = tape_record(tape, name, activation_backward, 1, &x);
    struct value y = in_place_of(tape, name, x);
    tape_save(tape, node, y);
    return result(y, node);
}

struct value aten_softmax(struct tape *tape, struct value x)
{
    return by_result(tape, "softmax", x);
}

void aten_cap(struct tape *tape, struct value *x)
{
    tape_rebind(tape, x, aten_mul_scalar(tape, *x));
    tape_rebind(tape, x, by_result(tape, "tanh", *x));
    tape_rebind(tape, x, aten_mul_scalar(tape, *x));
}

struct value aten_batched(struct tape *tape, struct value x, size_t batch)
{
    return batch > 1 ? aten_contiguous(tape, x) : tape_share(x);
}

struct value aten_by_heads(struct tape *tape, struct value x, size_t batch)
{
    return batch > 1 ? by_heads(tape, x, x.cols) : tape_share(x);
}

// ---- rows

BACKWARD(split_backward)
{
    given[0] = new_gradient(tape, "cat", node, 0, node->parts[0]);
    (void)grad;
    for (size_t i = 0; i < node->part_count; i++)
        tape_drop(tape, &node->parts[i]);
}

// Leaves the gradient with the split, which joins it with those of the other parts.
BACKWARD(part_backward)
{
    (void)tape, (void)given;
    node->inputs[0].node->parts[node->call.index] = tape_share(grad);
}

// Views of x, whose shapes the caller sets.
static void split_into(struct tape *tape, struct value x, size_t part_count, struct value *parts)
{
    struct node *node = tape_record(tape, "split", split_backward, 1, &x);
    if (node && !tape->rebuilding) {
        node->parts = calloc(part_count, sizeof *node->parts);
        node->part_count = part_count;
        CHECK(node->parts);
    }
    struct value joined = result(x, node);
    for (size_t i = 0; i < part_count; i++) {
        struct node *part = tape_record(tape, "part", part_backward, 1, &joined);
        if (part)
            part->call.index = i;
        parts[i] = result(tape_share(x), part);
    }
}

size_t aten_split(struct tape *tape, struct value x, size_t rows, struct value *parts)
{
    size_t part_count = (x.rows + rows - 1) / rows;
    split_into(tape, x, part_count, parts);
    for (size_t i = 0; i < part_count; i++)
        parts[i].rows = i + 1 < part_count ? rows : x.rows - i * rows;
    return part_count;
}

BACKWARD(rows_backward)
{
    given[0] = new_gradient(tape, "slice_backward", node, 0, grad);
}

struct value aten_rows(struct tape *tape, struct value x, size_t rows)
{
    struct node *node = tape_record(tape, "slice", rows_backward, 1, &x);
    struct value y = result(tape_share(x), node);
    y.rows = rows;
    return y;
}

void aten_halves(struct tape *tape, struct value x, struct value parts[2])
{
    split_into(tape, x, 2, parts);
    for (size_t i = 0; i < 2; i++)
        parts[i].cols = x.cols / 2;
}

// ---- mixtures of experts

// Zeros, into which the gradient is put.
BACKWARD(put_backward)
{
    given[0] = new_gradient(tape, "new_zeros", node, 0, grad);
}

struct value aten_topk(struct tape *tape, struct value x, size_t k, struct value *numbers)
{
    struct node *node = tape_record(tape, "topk", put_backward, 1, &x);
    struct value y = tape_new(tape, "topk", x.rows, k, x.dtype, CATEGORY_ACTIVATIONS);
    *numbers = tape_new(tape, "topk", x.rows, k, DTYPE_I64, CATEGORY_ACTIVATIONS);
    tape_save(tape, node, *numbers);
    return result(y, node);
}

BACKWARD(sum_backward)
{
    given[0] = new_gradient(tape, "clone", node, 0, grad);
}

// A sum of each row, whose gradient is a view.
BACKWARD(row_sum_backward)
{
    given[0] = tape_share(grad);
    given[0].cols = node->inputs[0].cols;
    (void)tape;
}

// inputs: what is divided, and the divisor of each row: grad / b, and the sum of -grad ((a / b) / b).
BACKWARD(divide_backward)
{
    struct value over = new_gradient(tape, "div", node, 0, grad), twice = new_gradient(tape, "div", node, 0, grad);
    struct value negated = new_gradient(tape, "neg", node, 0, grad),
                 product = new_gradient(tape, "mul", node, 0, grad);
    tape_drop(tape, &negated);
    tape_drop(tape, &twice);
    tape_drop(tape, &over);
    given[0] = new_gradient(tape, "div", node, 0, grad);
    given[1] = new_gradient(tape, "sum", node, 1, grad);
    tape_drop(tape, &product);
}

struct value aten_normalise(struct tape *tape, struct value x)
{
    struct node *sums = tape_record(tape, "sum", row_sum_backward, 1, &x);
    struct value sum = result(tape_new(tape, "sum", x.rows, 1, x.dtype, CATEGORY_ACTIVATIONS), sums);
    struct value inputs[] = {x, sum};
    struct node *node = tape_record(tape, "div", divide_backward, 2, inputs);
    if (node) {
        struct value before = tape_new(tape, "clone", x.rows, x.cols, x.dtype, CATEGORY_ACTIVATIONS);
        tape_save(tape, node, before);
        tape_drop(tape, &before);
    }
    tape_save(tape, node, sum);
    tape_drop(tape, &sum);
    return result(tape_share(x), node);
}

struct value aten_index(struct tape *tape, struct value x, struct value numbers, size_t rows)
{
    struct node *node = tape_record(tape, "index", put_backward, 1, &x);
    tape_save(tape, node, numbers);
    return result(tape_new(tape, "index", rows, x.cols, x.dtype, CATEGORY_ACTIVATIONS), node);
}

struct value aten_sum_rows(struct tape *tape, struct value x, size_t count)
{
    struct node *node = tape_record(tape, "sum", sum_backward, 1, &x);
    return result(tape_new(tape, "sum", x.rows / count, x.cols, x.dtype, CATEGORY_ACTIVATIONS), node);
}

// inputs: x, weight
BACKWARD(grouped_backward)
{
    double flops = 2.0 * (double)count(node->inputs[0]) * (double)grad.cols;
    for (size_t i = 2; i-- > 0;)
        if (node_needs(node, i)) {
            const struct value *of = &node->inputs[i];
            given[i] = tape_new(tape, "grouped_mm", of->rows, of->cols, of->dtype,
                                i ? CATEGORY_GRADIENTS : CATEGORY_ACTIVATIONS);
            tape->device->counters.flops += flops;
        }
}

struct value aten_grouped_mm(struct tape *tape, struct value x, struct value weight, struct value ends, size_t cols)
{
    struct value inputs[] = {x, weight};
    struct node *node = tape_record(tape, "grouped_mm", grouped_backward, 2, inputs);
    if (weight.node)
        tape_save(tape, node, x);
    if (x.node)
        tape_save(tape, node, weight);
    tape_save(tape, node, ends);
    struct value y = tape_new(tape, "grouped_mm", x.rows, cols, x.dtype, CATEGORY_ACTIVATIONS);
    if (y.storage)
        tape->device->counters.flops += 2.0 * (double)count(x) * (double)cols;
    return result(y, node);
}

// ---- the loss

// inputs: the logits
BACKWARD(log_softmax_backward)
{
    given[0] = new_gradient(tape, "log_softmax_backward", node, 0, grad);
}

BACKWARD(nll_backward)
{
    const struct value *logits = &node->inputs[0];
    (void)grad;
    given[0] = tape_new(tape, "nll_loss_backward", logits->rows, logits->cols, logits->dtype, CATEGORY_LOGITS);
}

struct value aten_cross_entropy(struct tape *tape, struct value logits, struct value targets)
{
    struct node *softmax = tape_record(tape, "log_softmax", log_softmax_backward, 1, &logits);
    struct value log_probs =
        result(tape_new(tape, "log_softmax", logits.rows, logits.cols, logits.dtype, CATEGORY_LOGITS), softmax);
    tape_save(tape, softmax, log_probs);
    struct node *node = tape_record(tape, "nll_loss", nll_backward, 1, &log_probs);
    tape_save(tape, node, log_probs);
    tape_save(tape, node, targets);
    struct value loss = tape_new(tape, "nll_loss", 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct value weight = tape_new(tape, "nll_loss", 1, 1, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_save(tape, node, weight);
    tape_drop(tape, &weight);
    tape_drop(tape, &log_probs);
    return result(loss, node);
}
