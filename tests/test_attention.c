// Attention of the CPU device beyond its cases (tests/cases/attention.c): against finite differences; blocks of
// keys, merged, against all at once; and the workspace of its backward, which does not grow with the context.
#include "kernels/device/ops.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct device *device;

// A tensor beside its values.
struct variable {
    struct tensor tensor;
    double *values;
    size_t count;
};

static struct variable variable(size_t rows, size_t cols, const char *name)
{
    struct variable x = {tensor_new(device, rows, cols, DTYPE_F64, CATEGORY_WORKSPACE),
                         calloc(rows * cols, sizeof(double)), rows * cols};
    struct random random = random_named(1, name);
    assert_non_null(x.values);
    random_normals(&random, 0, x.count, 0, name[0] != '0', x.values);
    tensor_write(device, x.tensor, x.values);
    return x;
}

// o . grad_o
static double loss(struct attention_shape s, const struct variable *qkv, struct variable *o,
                   struct tensor logsumexp, const struct variable *grad_o)
{
    double sum = 0;
    for (size_t i = 0; i < 3; i++)
        tensor_write(device, qkv[i].tensor, qkv[i].values);
    op_attention_forward(device, s, o->tensor, logsumexp, qkv[0].tensor, qkv[1].tensor, qkv[2].tensor);
    tensor_read(device, o->tensor, o->values);
    for (size_t i = 0; i < o->count; i++)
        sum += o->values[i] * grad_o->values[i];
    return sum;
}

// Along a random direction of q, k and v the loss's central difference is the gradient's product with the
// direction. The step leaves an error of about step^2.
static void test_finite_differences(void **state)
{
    (void)state;
    const double step = 1e-5;
    const struct attention_shape shapes[] = {{70, 0, 2, 2, 1, 8, 0, {0}, 0, 0},
                                             {33, 70, 1, 4, 2, 16, 0, {0}, 0, 0},
                                             {33, 20, 1, 4, 2, 16, 40, {0}, 0, 0}};
    struct status status = {0};
    device = device_open("cpu", DTYPE_F64, 0, &status);
    for (size_t n = 0; n < 3; n++) {
        struct attention_shape s = shapes[n];
        size_t rows = s.queries * s.batch, keys = attention_keys(s) * s.batch;
        size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
        struct variable x[] = {variable(rows, q_cols, "q"), variable(keys, k_cols, "k"),
                               variable(keys, k_cols, "v")};
        struct variable grads[] = {variable(rows, q_cols, "0"), variable(keys, k_cols, "0"),
                                   variable(keys, k_cols, "0")};
        struct variable o = variable(rows, q_cols, "0"), grad_o = variable(rows, q_cols, "grad_o");
        struct variable logsumexp = variable(rows, s.heads, "0");
        struct key_segment all = {0, attention_keys(s), grads[1].tensor, grads[2].tensor, {0}};
        loss(s, x, &o, logsumexp.tensor, &grad_o);
        op_attention_backward(device, s, grads[0].tensor, false, &all, 1, grad_o.tensor, o.tensor, logsumexp.tensor,
                              x[0].tensor, x[1].tensor, x[2].tensor);
        for (size_t which = 0; which < 3; which++) {
            struct random random = random_named(which, "direction");
            double slope = 0, product = 0;
            tensor_read(device, grads[which].tensor, grads[which].values);
            for (size_t i = 0; i < x[which].count; i++)
                product += random_normal(&random, i) * grads[which].values[i];
            for (int side = 1; side >= -1; side -= 2) {
                for (size_t i = 0; i < x[which].count; i++)
                    x[which].values[i] += side * step * random_normal(&random, i);
                slope += side * loss(s, x, &o, logsumexp.tensor, &grad_o) / (2 * step);
                for (size_t i = 0; i < x[which].count; i++)
                    x[which].values[i] -= side * step * random_normal(&random, i);
            }
            assert_true(fabs(slope - product) < 1e-6 * fmax(fabs(product), 1));
        }
        struct variable *every[] = {&x[0], &x[1], &x[2], &grads[0], &grads[1], &grads[2], &o, &grad_o, &logsumexp};
        for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
            tensor_free(device, &every[i]->tensor);
            free(every[i]->values);
        }
    }
    device_close(device);
}

static struct tensor drawn(enum dtype dtype, size_t rows, size_t cols, const char *name)
{
    struct tensor t = tensor_new(device, rows, cols, dtype, CATEGORY_WORKSPACE);
    op_random_normal(device, t, random_named(1, name), 0, name[0] != '0', dtype);
    return t;
}

// ||a - b|| / ||b||
static double distance(struct tensor a, struct tensor b)
{
    size_t count = tensor_count(a);
    double *x = malloc(2 * count * sizeof *x), *y = x + count, difference = 0, norm = 0;
    assert_non_null(x);
    tensor_read(device, a, x);
    tensor_read(device, b, y);
    for (size_t i = 0; i < count; i++) {
        difference += (x[i] - y[i]) * (x[i] - y[i]);
        norm += y[i] * y[i];
    }
    free(x);
    return sqrt(difference / norm);
}

// o, logsumexp, grad_q, grad_k and grad_v of attention at once, and of blocks of keys, merged and added up: from
// the first key on, or as they come round a ring to the rank that has the last.
struct results {
    struct tensor o, logsumexp, grad_q, grad_k, grad_v;
};

static void forward_in_blocks(struct attention_shape s, const size_t *ends, const struct results *r,
                              const struct tensor *qkv)
{
    struct tensor o = drawn(r->o.dtype, r->o.rows, r->o.cols, "0");
    struct tensor logsumexp = drawn(r->logsumexp.dtype, r->logsumexp.rows, r->logsumexp.cols, "0");
    double *none = malloc(tensor_count(logsumexp) * sizeof *none);
    assert_non_null(none);
    for (size_t i = 0; i < tensor_count(logsumexp); i++)
        none[i] = -INFINITY;
    tensor_write(device, r->logsumexp, none);
    op_zero(device, r->o);
    for (size_t i = 0; ends[i + 1]; i++) {
        struct attention_shape block = s;
        block.start = s.start - ends[i], block.keys = ends[i + 1] - ends[i];
        op_attention_forward(device, block, o, logsumexp, qkv[0],
                             tensor_rows(qkv[1], ends[i] * s.batch, block.keys * s.batch),
                             tensor_rows(qkv[2], ends[i] * s.batch, block.keys * s.batch));
        op_attention_merge(device, r->o, r->logsumexp, o, logsumexp);
    }
    tensor_free(device, &logsumexp);
    tensor_free(device, &o);
    free(none);
}

static void backward_in_blocks(struct attention_shape s, const size_t *ends, const struct results *r,
                               const struct tensor *qkv, struct tensor grad_o)
{
    for (size_t i = 0; ends[i + 1]; i++) {
        struct attention_shape block = s;
        block.start = s.start - ends[i], block.keys = ends[i + 1] - ends[i];
        size_t row = ends[i] * s.batch, rows = block.keys * s.batch;
        struct key_segment all = {
            0, block.keys, tensor_rows(r->grad_k, row, rows), tensor_rows(r->grad_v, row, rows), {0}};
        op_attention_backward(device, block, r->grad_q, i > 0, &all, 1, grad_o, r->o, r->logsumexp, qkv[0],
                              tensor_rows(qkv[1], row, rows), tensor_rows(qkv[2], row, rows));
    }
}

// The root mean square of n roundings to a dtype: each is at most eps, spread evenly, and independent of the
// others. Values here are normals of mean 0, so that errors of terms add up as the terms do.
static double off_by(double n, enum dtype dtype)
{
    return dtype_epsilon(dtype) * sqrt(n / 3);
}

// How far results of `blocks` blocks of keys may be from those of all `keys` at once. Roundings of both ways count;
// S is the same in both.
//
// f32 and f64: a sum of n terms, rounded at each, is off by n / 2 roundings of its result. exp(x) is off by the
// rounding of x, which is below 6, log(keys): by 36 roundings. Each way has a sum and an exponential; each block
// and each merge rounds once.
//
// logsumexp, above 4.6 for the 60 keys that each query sees: all at once, each block and each merge round it. The
// sum in it has positive terms, and is off by n / 3 roundings.
//
// bf16: o has P rounded below two maxima, and is itself rounded all at once, by each block and by each merge but
// the first, which adds to 0. dS is rounded both ways. delta = o . grad_o is off as o is, for all keys of a query
// alike: dS by at most sqrt(sum of P^2) of that, where the sum is about e / 60 < 1 / 20, and grad_q by 1 / head_dim
// more, since P's mean of K is Q / sqrt(head_dim). grad_q is rounded all at once and with each block. P in the
// backward pass differs by f32's error alone, which moves a share of at most error / eps of its numbers by 2 eps,
// to the next number of bf16.
static struct bounds {
    double o, logsumexp, grad_q, grad_k, grad_v;
} bounds_of(enum dtype dtype, double keys, double blocks)
{
    enum dtype wide = dtype == DTYPE_BF16 ? DTYPE_F32 : dtype;
    double wide_sums = off_by(keys + 2 * 36 + 2 * blocks, wide);
    double logsumexp = off_by(2 * blocks + 2 * keys / 3 / (4.6 * 4.6), wide);
    if (dtype != DTYPE_BF16)
        return (struct bounds){wide_sums, logsumexp, wide_sums, wide_sums, wide_sums};
    double of_o = blocks + 3, of_ds = 2 + of_o / 20;
    return (struct bounds){off_by(of_o, dtype), logsumexp, off_by(1 + blocks + of_ds + of_o / 32, dtype),
                           off_by(of_ds, dtype), 2 * sqrt(wide_sums * dtype_epsilon(dtype))};
}

static void test_blocks_of_keys(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    static const struct {
        struct attention_shape shape;
        size_t ends[6];
    } partitions[] = {{{64, 192, 1, 4, 2, 32, 0, {0}, 0, 0}, {0, 64, 128, 192, 256}},
                      {{70, 61, 2, 6, 2, 64, 0, {0}, 0, 0}, {0, 1, 61, 131}},
                      {{33, 200, 1, 4, 4, 80, 150, {0}, 0, 0}, {0, 77, 150}}};
    for (size_t d = 0; d < 3; d++) {
        struct status status = {0};
        enum dtype dtype = dtypes[d], sums = dtype == DTYPE_BF16 ? DTYPE_F32 : dtype;
        device = device_open("cpu", dtype, 0, &status);
        for (size_t n = 0; n < sizeof partitions / sizeof *partitions; n++) {
            struct attention_shape s = partitions[n].shape;
            size_t rows = s.queries * s.batch, keys = attention_keys(s), cols = s.heads * s.head_dim;
            size_t k_rows = keys * s.batch, k_cols = s.kv_heads * s.head_dim;
            const size_t whole[] = {0, keys, 0}, *ends[] = {whole, partitions[n].ends};
            struct tensor qkv[] = {drawn(dtype, rows, cols, "q"), drawn(dtype, k_rows, k_cols, "k"),
                                   drawn(dtype, k_rows, k_cols, "v")};
            struct tensor grad_o = drawn(dtype, rows, cols, "grad_o");
            struct results r[2];
            for (size_t blocks = 0; blocks < 2; blocks++) {
                r[blocks] = (struct results){drawn(dtype, rows, cols, "0"), drawn(sums, rows, s.heads, "0"),
                                             drawn(dtype, rows, cols, "0"), drawn(sums, k_rows, k_cols, "0"),
                                             drawn(sums, k_rows, k_cols, "0")};
                if (blocks)
                    forward_in_blocks(s, ends[1], &r[1], qkv);
                else
                    op_attention_forward(device, s, r[0].o, r[0].logsumexp, qkv[0], qkv[1], qkv[2]);
                backward_in_blocks(s, ends[blocks], &r[blocks], qkv, grad_o);
            }
            assert_int_equal(device->status.code, STATUS_OK);
            size_t blocks = 0;
            while (ends[1][blocks + 1])
                blocks++;
            struct bounds bounds = bounds_of(dtype, (double)keys, (double)blocks);
            assert_true(distance(r[1].o, r[0].o) <= bounds.o);
            assert_true(distance(r[1].logsumexp, r[0].logsumexp) <= bounds.logsumexp);
            assert_true(distance(r[1].grad_q, r[0].grad_q) <= bounds.grad_q);
            assert_true(distance(r[1].grad_k, r[0].grad_k) <= bounds.grad_k);
            assert_true(distance(r[1].grad_v, r[0].grad_v) <= bounds.grad_v);
            struct tensor *every[] = {&r[0].o, &r[0].logsumexp, &r[0].grad_q, &r[0].grad_k, &r[0].grad_v,
                                      &r[1].o, &r[1].logsumexp, &r[1].grad_q, &r[1].grad_k, &r[1].grad_v,
                                      &qkv[0], &qkv[1],         &qkv[2],      &grad_o};
            for (size_t i = 0; i < sizeof every / sizeof *every; i++)
                tensor_free(device, every[i]);
        }
        device_close(device);
    }
}

// Work does not depend on how it is cut: pairs of queries and keys are counted once.
static void test_counted_pairs(void **state)
{
    (void)state;
    struct status status = {0};
    device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    struct attention_shape s = {.queries = 50, .start = 20, .batch = 1, .heads = 4, .kv_heads = 2, .head_dim = 8};
    struct tensor q = drawn(DTYPE_BF16, 50, 32, "q"), k = drawn(DTYPE_BF16, 70, 16, "k"), o = q;
    struct tensor logsumexp = drawn(DTYPE_F32, 50, 4, "0");
    double flops[71];
    for (size_t keys = 1; keys <= 70; keys++) {
        device->counters = (struct counters){0};
        s.keys = keys;
        op_attention_forward(device, s, o, logsumexp, q, k, k);
        flops[keys] = device->counters.flops;
        size_t pairs = 0;
        for (size_t i = 0; i < s.queries; i++)
            pairs += keys < s.start + i + 1 ? keys : s.start + i + 1;
        assert_true(flops[keys] == 4.0 * (double)pairs * 32);
        assert_int_equal(device->counters.launches, keys > 21 && keys < 70 ? 2 : 1);
    }
    tensor_free(device, &logsumexp);
    tensor_free(device, &k);
    tensor_free(device, &q);
    device_close(device);
}

// A window as long as what the last query sees leaves nothing out: a library's graph takes it as it takes none.
static void test_window_that_leaves_nothing_out(void **state)
{
    (void)state;
    struct status status = {0};
    device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    struct attention_shape s = {.queries = 150, .start = 20, .batch = 1, .heads = 4, .kv_heads = 2, .head_dim = 8};
    struct tensor q = drawn(DTYPE_BF16, 150, 32, "q"), k = drawn(DTYPE_BF16, 170, 16, "k");
    struct tensor logsumexp = drawn(DTYPE_F32, 150, 4, "0");
    static const size_t windows[] = {0, 170, 171, 169};
    double glue[4];
    for (size_t i = 0; i < 4; i++) {
        device->counters = (struct counters){0};
        s.mask.window = windows[i];
        op_attention_backward(device, s, q, false, NULL, 0, q, q, logsumexp, q, k, k);
        glue[i] = device->counters.glue_bytes;
    }
    assert_true(glue[0] > 0 && glue[1] == glue[0] && glue[2] == glue[0] && glue[3] != glue[0]);
    tensor_free(device, &logsumexp);
    tensor_free(device, &k);
    tensor_free(device, &q);
    device_close(device);
}

static void test_workspace(void **state)
{
    (void)state;
    static const struct attention_shape shapes[] = {{512, 0, 1, 32, 8, 128, 0, {0}, 0, 0},
                                                    {512, 0, 4, 64, 64, 256, 0, {0}, 0, 0},
                                                    {512, 0, 1, 8, 1, 64, 0, {0}, 0, 0}};
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64};
    for (size_t d = 0; d < 2; d++) {
        struct status status = {0};
        device = device_open("cpu", dtypes[d], 0, &status);
        for (size_t i = 0; i < 3; i++) {
            struct attention_shape longer = shapes[i];
            longer.start = 1000000, longer.queries = 65536;
            size_t bytes = device->ops->rules->attention_backward_workspace(device, shapes[i], NULL, 0);
            size_t of_longer = device->ops->rules->attention_backward_workspace(device, longer, NULL, 0);
            assert_true(bytes > 0 && of_longer <= (size_t)8 << 20);
            assert_true(dtypes[d] == DTYPE_F64 || bytes == of_longer);
        }
        device_close(device);
    }
}

// NaN stays visible: in every query that sees it, and in no other.
static void test_not_a_number(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16};
    const struct attention_shape shape = {.queries = 4, .batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 8};
    for (size_t d = 0; d < 3; d++) {
        struct status status = {0};
        device = device_open("cpu", dtypes[d], 0, &status);
        struct tensor x[4], logsumexp = tensor_new(device, 4, 1, dtype_statistic(dtypes[d]), CATEGORY_WORKSPACE);
        double values[32];
        for (size_t i = 0; i < 4; i++) {
            x[i] = tensor_new(device, 4, 8, dtypes[d], CATEGORY_WORKSPACE);
            for (size_t j = 0; j < 32; j++)
                values[j] = i == 1 && j == 8 + 3 ? NAN : 0.1 * (double)(j % 7);
            tensor_write(device, x[i], values);
        }
        op_attention_forward(device, shape, x[3], logsumexp, x[0], x[1], x[2]);
        tensor_read(device, x[3], values);
        for (size_t j = 0; j < 32; j++)
            assert_true(!!isnan(values[j]) == (j >= 8));
        for (size_t i = 0; i < 4; i++)
            tensor_free(device, &x[i]);
        tensor_free(device, &logsumexp);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences), cmocka_unit_test(test_blocks_of_keys),
        cmocka_unit_test(test_counted_pairs),      cmocka_unit_test(test_window_that_leaves_nothing_out),
        cmocka_unit_test(test_workspace),          cmocka_unit_test(test_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
