// The CPU device in f64, f32 and bf16, in every case of every operation (tests/cases), on one number of threads
// and another; all operations have cases, which fail if the operation does not run; and the counts of operations.
#include "harness/machine/environment.h"
#include "tests/aborts.h"
#include "tests/cases/cases.h"
#include "tests/cases/memory.h"
#include "tests/sanitized.h"
#include <omp.h>
#include <string.h>

static struct device *device;

static int open_in(enum dtype dtype)
{
    struct status status = {0};
    device = device_open("cpu", dtype, 0, &status);
    if (device)
        device->arena.source = fenced_memory;
    return device ? 0 : -1;
}

static int open_f64(void **state)
{
    (void)state;
    return open_in(DTYPE_F64);
}

static int open_f32(void **state)
{
    (void)state;
    return open_in(DTYPE_F32);
}

static int open_bf16(void **state)
{
    (void)state;
    return open_in(DTYPE_BF16);
}

static int close_device(void **state)
{
    (void)state;
    device_close(device); // aborts on a leak
    return 0;
}

static void set_threads(bool another)
{
    omp_set_num_threads(another ? 3 : 1);
}

static void test_operation(void **state)
{
    struct cases *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->device = device;
    // The largest in f32 alone, and not under the sanitizers: it is the same code.
    bool takes_largest = exhaustive() || (device->ops->dtype == DTYPE_F32 && STRIDE == 1);
    c->largest = (takes_largest ? 1e6 : 2e5) / CASES_FEWER;
    c->attention_roundings = device->ops->dtype == DTYPE_BF16;
    c->reorder = set_threads;
    cases_run(c, *state);
    assert_true(c->checks > 0);
    assert_int_equal(c->failures + c->refused, 0);
    free(c);
}

// An operation that does nothing passes none of its cases.
static void test_cases_can_fail(void **state)
{
    (void)state;
    for (const char *const *operation = operation_names(); *operation; operation++) {
        struct cases *c = calloc(1, sizeof *c);
        assert_non_null(c);
        c->device = device;
        c->largest = 2e4;
        c->omit = true;
        cases_run(c, *operation);
        if (c->ended == 0 || c->passed > 0)
            fail_msg("%s: %zu of %zu cases pass without it", *operation, c->passed, c->ended);
        free(c);
    }
}

static struct tensor zeros(size_t rows, size_t cols)
{
    struct tensor t = tensor_new(device, rows, cols, device->ops->dtype, CATEGORY_WORKSPACE);
    op_zero(device, t);
    return t;
}

// A dtype that the device does not sum in, on either side, is a bug that is told and no sum of other bits.
static void test_sums_of_other_dtypes(void **state)
{
    (void)state;
    enum dtype own = device->ops->dtype, other = own == DTYPE_F64 ? DTYPE_F32 : DTYPE_F64;
    struct tensor a = tensor_new(device, 1, 2, own, CATEGORY_WORKSPACE);
    struct tensor b = tensor_new(device, 1, 2, other, CATEGORY_WORKSPACE);
    for (int side = 0; side < 2; side++)
        EXPECT_ABORT(op_accumulate(device, side ? a : b, side ? b : a));
    tensor_free(device, &a);
    tensor_free(device, &b);
}

// FLOPs of GEMM and of attention, causal pairs counted one by one.
static void test_counters(void **state)
{
    (void)state;
    struct tensor a = zeros(3, 5), b = zeros(5, 7), c = zeros(3, 7);
    device->counters = (struct counters){0};
    op_gemm(device, c, a, NO_TRANSPOSE, b, NO_TRANSPOSE, 1, 0);
    assert_true(device->counters.flops == 2 * 3 * 5 * 7);
    assert_true(device->counters.bytes_moved == (15 + 35 + 21) * (double)dtype_bytes(device->ops->dtype));
    assert_int_equal(device->counters.launches, 1);
    tensor_free(device, &a);
    tensor_free(device, &b);
    tensor_free(device, &c);

    struct attention_shape shape = {.queries = 9, .start = 6, .batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 4};
    struct tensor q = zeros(18, 16), k = zeros(30, 8), v = zeros(30, 8), o = zeros(18, 16);
    struct tensor logsumexp = zeros(18, 4), grad_o = zeros(18, 16), grad_k = zeros(14, 8), grad_v = zeros(14, 8);
    struct key_segment segments[] = {
        {2, 3, tensor_rows(grad_k, 0, 6), tensor_rows(grad_v, 0, 6), {0}},
        {8, 4, tensor_rows(grad_k, 6, 8), tensor_rows(grad_v, 6, 8), {0}},
    };
    double pairs = 0, taking = 0;
    for (size_t i = 0; i < 9; i++) {
        for (size_t key = 0; key <= 6 + i; key++) {
            pairs++;
            taking += (key >= 2 && key < 5) || (key >= 8 && key < 12);
        }
    }
    device->counters = (struct counters){0};
    op_attention_forward(device, shape, o, logsumexp, q, k, v);
    assert_true(device->counters.flops == 4 * pairs * 2 * 4 * 4);
    device->counters = (struct counters){0};
    op_attention_backward(device, shape, grad_o, false, segments, 2, grad_o, o, logsumexp, q, k, v);
    assert_true(device->counters.flops == (6 * pairs + 4 * taking) * 2 * 4 * 4);
    struct tensor *all[] = {&q, &k, &v, &o, &logsumexp, &grad_o, &grad_k, &grad_v};
    for (size_t i = 0; i < 8; i++)
        tensor_free(device, all[i]);
}

// OPERATION: the cases of that one alone.
int main(int argc, char **argv)
{
    char asked[80];
    if (argc > 1) {
        snprintf(asked, sizeof asked, "%s *", argv[1]);
        cmocka_set_test_filter(asked);
    }
    environment_settle(argv); // the BLAS kernels that the program itself uses
    struct CMUnitTest tests[200] = {
        cmocka_unit_test_setup_teardown(test_cases_can_fail, open_bf16, close_device),
        cmocka_unit_test_setup_teardown(test_counters, open_f32, close_device),
        {"accumulate others f64", test_sums_of_other_dtypes, open_f64, close_device, 0},
        {"accumulate others bf16", test_sums_of_other_dtypes, open_bf16, close_device, 0}};
    static char names[200][64];
    size_t count = 4;
    for (const char *const *operation = operation_names(); *operation; operation++) {
        static const struct {
            enum dtype dtype;
            CMFixtureFunction open;
        } kinds[] = {{DTYPE_F64, open_f64}, {DTYPE_F32, open_f32}, {DTYPE_BF16, open_bf16}};
        for (size_t i = 0; i < 3; i++, count++) {
            snprintf(names[count], sizeof names[count], "%s %s", *operation, dtype_name(kinds[i].dtype));
            tests[count] =
                (struct CMUnitTest){names[count], test_operation, kinds[i].open, close_device, (void *)*operation};
        }
    }
    return _cmocka_run_group_tests("operations", tests, count, NULL, NULL);
}
