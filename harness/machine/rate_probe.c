#include "harness/machine/rate_probe.h"
#include "kernels/device/ops.h"
#include <stdlib.h>
#include <string.h>

#define NUMBERS  ((size_t)1 << 20)
#define ROWS_MAX ((size_t)256) // of an embedding's table
#define BIT(i)   (1u << (i))

// --- operands

// Shapes for attention and for row-wise operations.
static const struct widths {
    size_t heads, kv_heads, cols;
} of_cpu = {4, 2, 256}, of_card = {32, 8, 4096};

static const struct widths *widths_of(const struct device *device)
{
    return probe_on_card(device) ? &of_card : &of_cpu;
}

// Takes the first set's operand, unless steps access it late. Returns whether this set needs its own.
static bool is_own(struct probe_operands *o, size_t i)
{
    if (!o->first || o->late & BIT(i))
        return true;
    o->t[i] = o->first->t[i];
    return false;
}

// Fills t with the column of numbers, repeated.
static void repeat(struct device *device, struct tensor t, struct tensor numbers)
{
    size_t max = numbers.rows / t.cols;
    for (size_t row = 0; row < t.rows; row += max) {
        size_t count = t.rows - row < max ? t.rows - row : max;
        struct tensor some = tensor_reshape(tensor_rows(numbers, 0, count * t.cols), count, t.cols);
        op_copy(device, tensor_rows(t, row, count), some);
    }
}

// Random numbers are copied from one column, because making them takes longer than most timed operations. The few
// f64 operands of other dtypes are generated, because no device converts to f64.
static void add(struct probe_operands *o, size_t i, size_t rows, size_t cols, enum dtype dtype)
{
    if (!is_own(o, i))
        return;
    struct tensor t = o->t[i] = tensor_new(o->device, rows, cols, dtype, CATEGORY_WORKSPACE);
    size_t from = 4096 * i; // so that no two tensors begin alike
    if (o->device->status.code != STATUS_OK)
        return;
    if (o->first)
        op_copy(o->device, t, o->first->t[i]);
    else if (dtype != DTYPE_F64 || o->numbers.dtype == DTYPE_F64)
        repeat(o->device, t, tensor_rows(o->numbers, from, NUMBERS - from));
    else
        op_random_normal(o->device, t, random_named(i, "rates"), 0, 1, dtype);
}

static enum dtype dtype_of(const struct probe_operands *o)
{
    return o->device->ops->dtype;
}

static enum dtype sums_of(const struct probe_operands *o)
{
    return dtype_accumulator(dtype_of(o));
}

static void add_ids(struct probe_operands *o, size_t i, size_t rows)
{
    if (!is_own(o, i))
        return;
    double *ids = malloc(rows * sizeof *ids);
    for (size_t r = 0; r < rows; r++)
        ids[r] = (double)(r * 7 % ROWS_MAX);
    o->t[i] = tensor_new(o->device, rows, 1, DTYPE_I32, CATEGORY_WORKSPACE);
    tensor_write(o->device, o->t[i], ids);
    free(ids);
}

static void open_gemm(struct probe_operands *o, const size_t *at, bool transpose_a, bool transpose_b)
{
    size_t m = at[0], n = at[1], k = at[2];
    add(o, 0, m, n, transpose_a ? sums_of(o) : dtype_of(o));
    add(o, 1, transpose_a ? k : m, transpose_a ? m : k, dtype_of(o));
    add(o, 2, transpose_b ? n : k, transpose_b ? k : n, dtype_of(o));
}
static void open_nt(struct probe_operands *o, const size_t *at)
{
    open_gemm(o, at, false, true);
}
static void open_nn(struct probe_operands *o, const size_t *at)
{
    open_gemm(o, at, false, false);
}
static void open_tn(struct probe_operands *o, const size_t *at)
{
    open_gemm(o, at, true, false);
}
static void run_nt(struct probe_operands *o)
{
    op_gemm(o->device, o->t[0], o->t[1], NO_TRANSPOSE, o->t[2], TRANSPOSE, 1, 0);
}
static void run_nn(struct probe_operands *o)
{
    op_gemm(o->device, o->t[0], o->t[1], NO_TRANSPOSE, o->t[2], NO_TRANSPOSE, 1, 0);
}
static void run_tn(struct probe_operands *o) // adds to a weight's gradient
{
    op_gemm(o->device, o->t[0], o->t[1], TRANSPOSE, o->t[2], NO_TRANSPOSE, 1, 1);
}

// Tensors 0 to 4: q, k, v, o, logsumexp; 5 to 8: the gradients of o, q, k, v.
static void open_attention(struct probe_operands *o, const size_t *at)
{
    const struct widths *of = widths_of(o->device);
    size_t queries = at[0], keys = at[0] * at[1], dim = at[2];
    o->shape = (struct attention_shape){.queries = queries,
                                        .start = keys - queries,
                                        .batch = 1,
                                        .heads = of->heads,
                                        .kv_heads = of->kv_heads,
                                        .head_dim = dim};
    add(o, 0, queries, of->heads * dim, dtype_of(o));
    add(o, 1, keys, of->kv_heads * dim, dtype_of(o));
    add(o, 2, keys, of->kv_heads * dim, dtype_of(o));
    add(o, 3, queries, of->heads * dim, dtype_of(o));
    add(o, 4, queries, of->heads, dtype_statistic(dtype_of(o)));
    op_attention_forward(o->device, o->shape, o->t[3], o->t[4], o->t[0], o->t[1], o->t[2]);
}
static void open_attention_backward(struct probe_operands *o, const size_t *at)
{
    open_attention(o, at);
    const struct widths *of = widths_of(o->device);
    size_t queries = at[0], keys = at[0] * at[1], dim = at[2];
    add(o, 5, queries, of->heads * dim, dtype_of(o));
    add(o, 6, queries, of->heads * dim, dtype_of(o));
    add(o, 7, keys, of->kv_heads * dim, sums_of(o));
    add(o, 8, keys, of->kv_heads * dim, sums_of(o));
    o->segment = (struct key_segment){.count = keys, .grad_k = o->t[7], .grad_v = o->t[8]};
}
static void run_attention(struct probe_operands *o)
{
    op_attention_forward(o->device, o->shape, o->t[3], o->t[4], o->t[0], o->t[1], o->t[2]);
}
static void run_attention_backward(struct probe_operands *o)
{
    op_attention_backward(o->device, o->shape, o->t[6], false, &o->segment, 1, o->t[5], o->t[3], o->t[4], o->t[0],
                          o->t[1], o->t[2]);
}

// Three tensors of which an operation moves two or three, a gain vector and its gradient, a statistic per row, ids
// and a loss. The number of rows is such that an operation on all three moves about at[0] bytes.
static void open_rows(struct probe_operands *o, const size_t *at)
{
    size_t cols = widths_of(o->device)->cols, rows = at[0] / (3 * cols * dtype_bytes(dtype_of(o))) + 1;
    for (size_t i = 0; i < 3; i++)
        add(o, i, rows, cols, dtype_of(o));
    add(o, 3, 1, cols, dtype_of(o));
    add(o, 4, 1, cols, sums_of(o));
    add(o, 5, rows, 1, dtype_statistic(dtype_of(o)));
    add_ids(o, 6, rows);
    add(o, 7, 1, 1, DTYPE_F64);
}
// Adds a table and its gradient.
static void open_embedding(struct probe_operands *o, const size_t *at)
{
    open_rows(o, at);
    add(o, 8, ROWS_MAX, widths_of(o->device)->cols, dtype_of(o));
    add(o, 9, ROWS_MAX, widths_of(o->device)->cols, sums_of(o));
}
static void run_zero(struct probe_operands *o)
{
    op_zero(o->device, o->t[0]);
}
static void run_copy(struct probe_operands *o)
{
    op_copy(o->device, o->t[0], o->t[1]);
}
static void run_scale(struct probe_operands *o)
{
    op_scale(o->device, o->t[0], 1);
}
static void run_bias_forward(struct probe_operands *o)
{
    op_bias_forward(o->device, o->t[0], o->t[3]);
}
static void run_bias_backward(struct probe_operands *o)
{
    op_bias_backward(o->device, o->t[4], o->t[0]);
}
static void run_rmsnorm_forward(struct probe_operands *o)
{
    op_rmsnorm_forward(o->device, o->t[0], o->t[5], o->t[1], o->t[3], (struct norm_shape){.epsilon = 1e-5});
}
static void run_rmsnorm_backward(struct probe_operands *o)
{
    op_rmsnorm_backward(o->device, o->t[0], true, o->t[4], o->t[1], o->t[2], o->t[3], (struct norm_shape){0},
                        o->t[5]);
}
static void run_swiglu_forward(struct probe_operands *o)
{
    op_swiglu_forward(o->device, o->t[0], o->t[1], o->t[2], ACTIVATION_SILU);
}
// Operates in place. Gradients other than 0 would grow with each run until the exponential runs slower.
static void open_swiglu_backward(struct probe_operands *o, const size_t *at)
{
    open_rows(o, at);
    op_zero(o->device, o->t[2]);
}
static void run_swiglu_backward(struct probe_operands *o)
{
    op_swiglu_backward(o->device, o->t[0], o->t[1], o->t[2], ACTIVATION_SILU);
}
static void run_embedding_forward(struct probe_operands *o)
{
    op_embedding_forward(o->device, o->t[0], o->t[8], o->t[6]);
}
static void run_embedding_backward(struct probe_operands *o)
{
    op_embedding_backward(o->device, o->t[9], o->t[0], o->t[6], -1);
}
static void run_cross_entropy(struct probe_operands *o)
{
    op_cross_entropy(o->device, o->t[0], o->t[6], o->t[7], 1, 1, 0);
}

static void open_rope(struct probe_operands *o, const size_t *at)
{
    size_t cols = widths_of(o->device)->cols, rows = at[0] / (2 * cols * dtype_bytes(dtype_of(o))) + 1;
    add(o, 0, rows, cols, dtype_of(o));
    add(o, 1, 1, 32, DTYPE_F64);
}
static void run_rope(struct probe_operands *o)
{
    op_rope(o->device, o->t[0], o->t[1], (struct rope_shape){.head_dim = 64, .gain = 1}, 0, 1,
            (struct documents){0}, 1);
}

static void open_adamw(struct probe_operands *o, const size_t *at)
{
    size_t cols = widths_of(o->device)->cols, rows = at[0] / (7 * cols * dtype_bytes(sums_of(o))) + 1;
    add(o, 0, rows, cols, dtype_of(o));
    for (size_t i = 1; i < 4; i++)
        add(o, i, rows, cols, sums_of(o));
    op_zero(o->device, o->t[3]);
}
static void run_adamw(struct probe_operands *o)
{
    const struct adam_step step = {.rate = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .t = 1};
    op_adamw(o->device, o->t[0], tensor_none(), o->t[1], o->t[2], o->t[3], &step);
}

// --- shapes and operations

static const size_t extents[] = {8, 32, 64, 128, 256, 512, 1024, 2048, 0}, queries[] = {16, 64, 256, 1024, 0},
                    per_query[] = {1, 2, 4, 16, 0}, dims[] = {32, 64, 128, 0},
                    sizes[] = {8 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20, 0};
// cuDNN takes 0.05 to 0.3 s to compile attention for a shape, so there are few shapes. The grid starts at few
// queries because its first point is always measured.
static const size_t card_extents[] = {8, 64, 256, 1024, 2048, 4096, 8192, 14336, 0},
                    card_queries[] = {16, 128, 512, 2048, 8192, 0}, card_per_query[] = {1, 2, 4, 16, 64, 0},
                    card_dims[] = {64, 128, 0}, card_sizes[] = {64 << 10, 1 << 20, 8 << 20, 64 << 20, 512 << 20, 0};

#define GEMM(name, kind, late)                                                                                     \
    {                                                                                                              \
        name, 3, {extents, extents, extents}, {card_extents, card_extents, card_extents}, open_##kind, run_##kind, \
            late                                                                                                   \
    }
#define ATTENTION(name, kind, late)                                                                                \
    {                                                                                                              \
        name, 3, {queries, per_query, dims}, {card_queries, card_per_query, card_dims}, open_##kind, run_##kind,   \
            late                                                                                                   \
    }
#define ROWS(name, kind, late)                                                                                     \
    {                                                                                                              \
#name, 1, {sizes }, {card_sizes }, open_##kind, run_##name, late                                           \
    }
const struct rate_probe rate_probes[] = {
    GEMM("gemm_nt", nt, BIT(2)),
    GEMM("gemm_nn", nn, BIT(2)),
    GEMM("gemm_tn", tn, BIT(0)),
    ATTENTION("attention_forward", attention, BIT(1) | BIT(2)),
    ATTENTION("attention_backward", attention_backward, BIT(1) | BIT(2) | BIT(7) | BIT(8)),
    ROWS(rmsnorm_forward, rows, 0),
    ROWS(rmsnorm_backward, rows, BIT(2)),
    ROWS(swiglu_forward, rows, 0),
    ROWS(swiglu_backward, swiglu_backward, 0),
    ROWS(copy, rows, 0),
    ROWS(zero, rows, BIT(0)),
    ROWS(scale, rows, 0),
    ROWS(bias_forward, rows, 0),
    ROWS(bias_backward, rows, 0),
    ROWS(embedding_forward, embedding, 0),
    ROWS(embedding_backward, embedding, 0),
    ROWS(cross_entropy, rows, 0),
    ROWS(rope, rope, 0),
    ROWS(adamw, adamw, BIT(0) | BIT(1) | BIT(2) | BIT(3)),
    {0},
};

const struct rate_probe *rate_probe_find(const char *operation)
{
    const struct rate_probe *probe = rate_probes;
    while (probe->operation && strcmp(probe->operation, operation) != 0)
        probe++;
    return probe->operation ? probe : NULL;
}

void probe_operands_open(struct probe_operands *o, struct device *device, struct tensor numbers,
                         const struct rate_probe *probe, const size_t *at, const struct probe_operands *first)
{
    *o = (struct probe_operands){.device = device, .numbers = numbers, .first = first, .late = probe->late};
    probe->open(o, at);
}

void probe_operands_close(struct probe_operands *o)
{
    for (size_t i = 0; i < PROBE_TENSORS; i++)
        if (!o->first || o->late & BIT(i))
            tensor_free(o->device, &o->t[i]);
}

struct tensor probe_numbers(struct device *device)
{
    struct tensor numbers = tensor_new(device, NUMBERS, 1, device->ops->dtype, CATEGORY_WORKSPACE);
    op_random_normal(device, numbers, random_named(0, "rates"), 0, 1, device->ops->dtype);
    return numbers;
}

double probe_flops(const struct rate_probe *probe, const struct device *device, const size_t *at)
{
    if (probe->dimensions == 1)
        return 0;
    bool gemm = strncmp(probe->operation, "gemm", 4) == 0;
    double product = (double)at[0] * (double)at[1] * (double)at[2];
    if (gemm)
        return 2 * product;
    return 10 * (double)widths_of(device)->heads * product * (double)at[0]; // keys are queries times at[1]
}
