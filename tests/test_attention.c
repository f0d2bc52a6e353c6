// Attention of the CPU device beyond its cases (tests/cases/attention.c): against finite differences, and the
// workspace of its backward, which does not grow with the context.
#include "kernels/base/ops.h"
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
    for (size_t i = 0; i < 3; i++) {
        tensor_write(device, qkv[i].tensor, qkv[i].values);
    }
    op_attention_forward(device, s, o->tensor, logsumexp, qkv[0].tensor, qkv[1].tensor, qkv[2].tensor);
    tensor_read(device, o->tensor, o->values);
    for (size_t i = 0; i < o->count; i++) {
        sum += o->values[i] * grad_o->values[i];
    }
    return sum;
}

// Along a random direction of q, k and v the loss's central difference is the gradient's product with the
// direction. The step leaves an error of about step^2.
static void test_finite_differences(void **state)
{
    (void)state;
    const double step = 1e-5;
    const struct attention_shape shapes[] = {{70, 0, 2, 2, 1, 8}, {33, 70, 1, 4, 2, 16}};
    struct status status = {0};
    device = device_open("cpu", DTYPE_F64, 0, &status);
    for (size_t n = 0; n < 2; n++) {
        struct attention_shape s = shapes[n];
        size_t rows = s.queries * s.batch, keys = (s.start + s.queries) * s.batch;
        size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
        struct variable x[] = {variable(rows, q_cols, "q"), variable(keys, k_cols, "k"),
                               variable(keys, k_cols, "v")};
        struct variable grads[] = {variable(rows, q_cols, "0"), variable(keys, k_cols, "0"),
                                   variable(keys, k_cols, "0")};
        struct variable o = variable(rows, q_cols, "0"), grad_o = variable(rows, q_cols, "grad_o");
        struct variable logsumexp = variable(rows, s.heads, "0");
        struct key_segment all = {0, s.start + s.queries, grads[1].tensor, grads[2].tensor};
        loss(s, x, &o, logsumexp.tensor, &grad_o);
        op_attention_backward(device, s, grads[0].tensor, &all, 1, grad_o.tensor, o.tensor, logsumexp.tensor,
                              x[0].tensor, x[1].tensor, x[2].tensor);
        for (size_t which = 0; which < 3; which++) {
            struct random random = random_named(which, "direction");
            double slope = 0, product = 0;
            tensor_read(device, grads[which].tensor, grads[which].values);
            for (size_t i = 0; i < x[which].count; i++) {
                product += random_normal(&random, i) * grads[which].values[i];
            }
            for (int side = 1; side >= -1; side -= 2) {
                for (size_t i = 0; i < x[which].count; i++) {
                    x[which].values[i] += side * step * random_normal(&random, i);
                }
                slope += side * loss(s, x, &o, logsumexp.tensor, &grad_o) / (2 * step);
                for (size_t i = 0; i < x[which].count; i++) {
                    x[which].values[i] -= side * step * random_normal(&random, i);
                }
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

static void test_workspace(void **state)
{
    (void)state;
    static const struct attention_shape shapes[] = {
        {512, 0, 1, 32, 8, 128}, {512, 0, 4, 64, 64, 256}, {512, 0, 1, 8, 1, 64}};
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

// What is no number stays visible: in every query that sees it, and in no other.
static void test_not_a_number(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16};
    for (size_t d = 0; d < 3; d++) {
        struct status status = {0};
        device = device_open("cpu", dtypes[d], 0, &status);
        struct tensor x[4], logsumexp = tensor_new(device, 4, 1, dtype_statistic(dtypes[d]), CATEGORY_WORKSPACE);
        double values[32];
        for (size_t i = 0; i < 4; i++) {
            x[i] = tensor_new(device, 4, 8, dtypes[d], CATEGORY_WORKSPACE);
            for (size_t j = 0; j < 32; j++) {
                values[j] = i == 1 && j == 8 + 3 ? NAN : 0.1 * (double)(j % 7);
            }
            tensor_write(device, x[i], values);
        }
        op_attention_forward(device, (struct attention_shape){4, 0, 1, 1, 1, 8}, x[3], logsumexp, x[0], x[1], x[2]);
        tensor_read(device, x[3], values);
        for (size_t j = 0; j < 32; j++) {
            assert_true(!!isnan(values[j]) == (j >= 8));
        }
        for (size_t i = 0; i < 4; i++) {
            tensor_free(device, &x[i]);
        }
        tensor_free(device, &logsumexp);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
