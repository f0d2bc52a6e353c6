// The CPU device in bf16: its GEMM by oneDNN, where the processor has bf16 instructions, and widened for the BLAS,
// against f64, and oneDNN's of f32; and sums that are kept in bf16, which an operation rounds once. Its other
// operations are tested by tests/cuda/test_ops, which runs on any device, and by the tests of methods and plans.
#include "harness/machine/environment.h"
#include "kernels/base/random.h"
#include "kernels/cpu/bf16_gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/device/ops.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double normal(const char *name, size_t i)
{
    struct random random = random_named(1, name);
    return dtype_round(random_normal(&random, i), DTYPE_BF16);
}

static double get(const void *data, enum dtype dtype, size_t i)
{
    return dtype == DTYPE_F32 ? ((const float *)data)[i] : dtype_from_bf16(((const uint16_t *)data)[i]);
}

static void set(void *data, enum dtype dtype, size_t i, double value)
{
    if (dtype == DTYPE_F32)
        ((float *)data)[i] = (float)value;
    else
        ((uint16_t *)data)[i] = dtype_bf16((float)value);
}

// ---- GEMM

enum { BEHIND = 3 }; // elements between the rows of every operand that belong to somebody else

static void *operand(const char *name, enum dtype dtype, size_t rows, size_t cols)
{
    void *data = malloc((rows * (cols + BEHIND) + 1) * dtype_bytes(dtype));
    for (size_t i = 0; i < rows * (cols + BEHIND); i++)
        set(data, dtype, i, i % (cols + BEHIND) < cols ? normal(name, i) : NAN);
    return data;
}

static double element(struct gemm_operand x, enum dtype dtype, size_t row, size_t col)
{
    return get(x.data, dtype, x.transpose ? col * x.stride + row : row * x.stride + col);
}

typedef bool multiply_fn(struct onednn *onednn, const struct gemm_tile *tile);

// One product: to f32 within what a sum of k terms in f32 allows, to bf16 within half of a last place besides.
// Returns whether the shape was served.
static bool check_gemm(multiply_fn *multiply, struct onednn *onednn, enum dtype factors, size_t m, size_t n,
                       size_t k, int variant)
{
    bool ta = variant & 1, tb = variant & 2;
    enum dtype dtype = variant & 4 ? DTYPE_F32 : DTYPE_BF16;
    double alpha = variant & 8 ? 0.5 : 1, beta = variant & 16 ? 1 : 0;
    void *a = ta ? operand("a", factors, k, m) : operand("a", factors, m, k);
    void *b = tb ? operand("b", factors, n, k) : operand("b", factors, k, n);
    size_t stride = n + BEHIND;
    float *to = malloc(m * stride * sizeof *to), *was = malloc(m * stride * sizeof *was); // of either dtype
    for (size_t i = 0; i < m * stride; i++)
        set(to, dtype, i, beta == 0 && i % stride < n ? NAN : normal("c", i));
    memcpy(was, to, m * stride * sizeof *to);
    struct gemm_tile tile = {
        m, n, k, {a, (ta ? m : k) + BEHIND, ta}, {b, (tb ? k : n) + BEHIND, tb}, to, stride, dtype, alpha, beta};
    bool served = multiply(onednn, &tile);
    for (size_t i = 0; served && i < m * stride; i++) {
        double expected = get(was, dtype, i), size = fabs(expected), sum = 0, sizes = 0;
        if (i % stride < n) {
            for (size_t l = 0; l < k; l++) {
                double term = element(tile.a, factors, i / stride, l) * element(tile.b, factors, l, i % stride);
                sum += term;
                sizes += fabs(term);
            }
            expected = alpha * sum + (beta == 0 ? 0 : beta * get(was, dtype, i));
            size = sizes + (beta == 0 ? 0 : fabs(get(was, dtype, i)));
        }
        double allowed = (k + 2.0) * dtype_epsilon(DTYPE_F32) * size + dtype_epsilon(dtype) * fabs(expected);
        if (!(fabs(get(to, dtype, i) - expected) <= (i % stride < n ? allowed : 0)))
            fail_msg("gemm to %s, m %zu n %zu k %zu variant %d, [%zu, %zu]: %.9g, expected %.9g", dtype_name(dtype),
                     m, n, k, variant, i / stride, i % stride, get(to, dtype, i), expected);
    }
    free(a);
    free(b);
    free(to);
    free(was);
    return served;
}

static bool widened(struct onednn *onednn, const struct gemm_tile *tile)
{
    (void)onednn;
    bf16_gemm(NULL, tile, false);
    return true;
}

static bool widened_reversed(struct onednn *onednn, const struct gemm_tile *tile)
{
    (void)onednn;
    bf16_gemm(NULL, tile, true);
    return true;
}

// Blocks and a remainder of each side; no terms at all.
static const size_t shapes[][3] = {{1, 1, 1},     {3, 5, 7},    {64, 33, 129}, {130, 200, 70},
                                   {5, 195, 650}, {17, 16, 32}, {8, 1, 2000},  {4, 6, 0}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static void test_gemm(void **state)
{
    (void)state;
    struct onednn *onednn = onednn_open(DTYPE_BF16);
    size_t served = 0, asked = 0;
    for (size_t s = 0; s < SHAPES; s++) {
        size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        for (int variant = 0; variant < 32; variant++) {
            check_gemm(widened, NULL, DTYPE_BF16, m, n, k, variant);
            check_gemm(widened_reversed, NULL, DTYPE_BF16, m, n, k, variant);
            if (onednn) {
                served += check_gemm(onednn_gemm, onednn, DTYPE_BF16, m, n, k, variant);
                asked += k > 0;
            }
        }
    }
    if (onednn)
        print_message("%s: %zu of %zu products\n", onednn_description(onednn), served, asked);
    else
        print_message("no oneDNN here, or no bf16 instructions: the BLAS alone\n");
    assert_true(!onednn || served == asked);
    onednn_close(onednn);
}

// Halves of a sum in the other order are rounded otherwise: the noise floor of gradients is what comes of it.
static void test_reversed_sums(void **state)
{
    (void)state;
    enum { M = 9, N = 33 };
    for (size_t terms = 48; terms <= 700; terms += 326) { // of one block, of two and of three
        void *a = operand("a", DTYPE_BF16, M, terms), *b = operand("b", DTYPE_BF16, terms, N);
        float sums[2][M * N];
        for (int reverse = 0; reverse < 2; reverse++) {
            struct gemm_tile tile = {
                M, N, terms, {a, terms + BEHIND, false}, {b, N + BEHIND, false}, sums[reverse], N, DTYPE_F32, 1, 0};
            bf16_gemm(NULL, &tile, reverse);
        }
        assert_memory_not_equal(sums[0], sums[1], sizeof sums[0]);
        free(b);
        free(a);
    }
}

static bool sgemm(struct onednn *onednn, const struct gemm_tile *tile)
{
    onednn_sgemm(onednn, tile);
    return true;
}

// In f32 the device uses oneDNN for products of f32, if configured so, and for nothing else.
static void test_gemm_f32(void **state)
{
    (void)state;
    struct onednn *onednn = onednn_open(DTYPE_F32);
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F32, 0, &status);
    assert_non_null(device);
    assert_int_equal(strstr(device->description, "f32 by oneDNN") != NULL, onednn != NULL);
    device_close(device);
    for (size_t s = 0; onednn && s < SHAPES; s++)
        for (int variant = 4; variant < 32; variant++)
            if (variant & 4 && shapes[s][2] > 0)
                check_gemm(sgemm, onednn, DTYPE_F32, shapes[s][0], shapes[s][1], shapes[s][2], variant);
    onednn_close(onednn);
}

// A factor that is no number reaches the results that it belongs to, and no other; so does an infinite one.
static void test_not_numbers(void **state)
{
    (void)state;
    enum { N = 33 };
    struct onednn *onednn = onednn_open(DTYPE_BF16);
    for (int path = 0; path < (onednn ? 2 : 1); path++) {
        uint16_t a[N * N], b[N * N], c[N * N];
        for (size_t i = 0; i < N * N; i++)
            a[i] = b[i] = dtype_bf16(1);
        a[3 * N + 5] = dtype_bf16(NAN);
        a[7 * N + 2] = dtype_bf16(INFINITY);
        struct gemm_tile tile = {N, N, N, {a, N, false}, {b, N, false}, c, N, DTYPE_BF16, 1, 0};
        bf16_gemm(path ? onednn : NULL, &tile, false);
        for (size_t i = 0; i < N * N; i++) {
            float found = dtype_from_bf16(c[i]);
            assert_true(i / N == 3 ? isnan(found) : i / N == 7 ? isinf(found) && found > 0 : found == N);
        }
    }
    onednn_close(onednn);
}

// Several devices at once, closed in the order in which they were opened.
static void test_devices_in_turn(void **state)
{
    (void)state;
    struct device *devices[3];
    struct status status = {0};
    for (size_t i = 0; i < 3; i++) {
        devices[i] = device_open("cpu", DTYPE_BF16, 0, &status);
        assert_non_null(strstr(devices[i]->description, "bf16 "));
    }
    for (size_t i = 0; i < 3; i++) {
        struct tensor a = tensor_new(devices[i], 40, 70, DTYPE_BF16, CATEGORY_WORKSPACE);
        struct tensor c = tensor_new(devices[i], 40, 40, DTYPE_BF16, CATEGORY_WORKSPACE);
        struct tensor none = tensor_rows(c, 0, 0);
        op_zero(devices[i], a);
        op_gemm(devices[i], c, a, NO_TRANSPOSE, a, TRANSPOSE, 1, 0);
        op_gemm(devices[i], none, tensor_rows(a, 0, 0), NO_TRANSPOSE, a, TRANSPOSE, 1, 0); // of no rows
        assert_true(((uint16_t *)c.data)[1599] == 0);
        tensor_free(devices[i], &a);
        tensor_free(devices[i], &c);
        device_close(devices[i]);
    }
}

// ---- attention's factors

static struct device *device;

static struct tensor tensor(size_t rows, size_t cols, enum dtype dtype, const char *name)
{
    struct tensor t = tensor_new(device, rows, cols, dtype, CATEGORY_WORKSPACE);
    double *values = malloc((rows * cols + 1) * sizeof *values);
    for (size_t i = 0; i < rows * cols; i++)
        values[i] = normal(name, i);
    tensor_write(device, t, values);
    free(values);
    return t;
}

enum { QUERIES = 60, HEAD_DIM = 40, HEAD_COUNT = QUERIES * HEAD_DIM };

static double dot_rows(const double *x, const double *y)
{
    double sum = 0;
    for (size_t d = 0; d < HEAD_DIM; d++)
        sum += x[d] * y[d];
    return sum;
}

static void add_row(double *to, double factor, const double *x)
{
    for (size_t d = 0; d < HEAD_DIM; d++)
        to[d] += factor * x[d];
}

// P and dS of one query in f64, each then rounded or not, and what they add to the keys' gradients.
static void add_query(size_t i, bool rounds, const double *q, const double *k, const double *v, const double *o,
                      const double *grad_o, double *grad_k, double *grad_v)
{
    double scores[QUERIES], sum = 0, delta = dot_rows(grad_o + i * HEAD_DIM, o + i * HEAD_DIM);
    for (size_t j = 0; j <= i; j++)
        sum += scores[j] = exp(dot_rows(q + i * HEAD_DIM, k + j * HEAD_DIM) / sqrt(HEAD_DIM));
    for (size_t j = 0; j <= i; j++) {
        double p = scores[j] / sum;
        double ds = p * (dot_rows(grad_o + i * HEAD_DIM, v + j * HEAD_DIM) - delta);
        add_row(grad_v + j * HEAD_DIM, rounds ? dtype_round(p, DTYPE_BF16) : p, grad_o + i * HEAD_DIM);
        add_row(grad_k + j * HEAD_DIM, (rounds ? dtype_round(ds, DTYPE_BF16) : ds) / sqrt(HEAD_DIM),
                q + i * HEAD_DIM);
    }
}

static double apart(const double *x, const double *y)
{
    double squares = 0, error = 0;
    for (size_t i = 0; i < HEAD_COUNT; i++) {
        squares += y[i] * y[i];
        error += (x[i] - y[i]) * (x[i] - y[i]);
    }
    return sqrt(error / squares);
}

// P and dS are rounded to bf16. A value of f32 near the middle of two numbers of bf16 may round to the other: of
// S, a sum of HEAD_DIM terms, at most one in 2^16 / HEAD_DIM does.
static void test_attention_factors(void **state)
{
    (void)state;
    struct status status = {0};
    device = device_open("cpu", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    const double eps = dtype_epsilon(DTYPE_BF16);
    struct attention_shape shape = {QUERIES, 0, 1, 1, 1, HEAD_DIM, 0, {0}, 0, 0};
    static const char *const names[] = {"q", "k", "v", "grad_o", "o", "grad_q", "grad_k", "grad_v", "logsumexp"};
    enum { Q, K, V, GRAD_O, O, GRAD_Q, GRAD_K, GRAD_V, LOGSUMEXP, ALL };
    struct tensor t[ALL];
    double *values[ALL], *expected[2][2];
    for (size_t n = 0; n < ALL; n++)
        t[n] = tensor(QUERIES, n == LOGSUMEXP ? 1 : HEAD_DIM, n < GRAD_K ? DTYPE_BF16 : DTYPE_F32, names[n]);
    op_zero(device, t[GRAD_K]);
    op_zero(device, t[GRAD_V]);
    op_attention_forward(device, shape, t[O], t[LOGSUMEXP], t[Q], t[K], t[V]);
    struct key_segment segment = {0, QUERIES, t[GRAD_K], t[GRAD_V], {0}};
    op_attention_backward(device, shape, t[GRAD_Q], false, &segment, 1, t[GRAD_O], t[O], t[LOGSUMEXP], t[Q], t[K],
                          t[V]);
    for (size_t n = 0; n < ALL; n++) {
        values[n] = malloc(tensor_count(t[n]) * sizeof *values[n]);
        tensor_read(device, t[n], values[n]);
        tensor_free(device, &t[n]);
    }
    for (int rounds = 0; rounds < 2; rounds++) {
        for (int n = 0; n < 2; n++)
            expected[rounds][n] = calloc(HEAD_COUNT, sizeof(double));
        for (size_t i = 0; i < QUERIES; i++)
            add_query(i, rounds, values[Q], values[K], values[V], values[O], values[GRAD_O], expected[rounds][0],
                      expected[rounds][1]);
    }
    for (int n = 0; n < 2; n++) {
        double as_rounded = apart(values[GRAD_K + n], expected[1][n]),
               exact = apart(values[GRAD_K + n], expected[0][n]);
        // One in 2^8 rounded to the other, which is 2 eps away; or each by up to eps.
        if (!(as_rounded <= eps / 16) || !(exact > eps / 4 && exact <= eps))
            fail_msg("%s: %.2e from P and dS in bf16, %.2e from exact ones", names[GRAD_K + n], as_rounded, exact);
    }
    for (int n = 0; n < 4; n++)
        free(expected[n / 2][n % 2]);
    for (size_t n = 0; n < ALL; n++)
        free(values[n]);
    device_close(device);
}

// ---- sums in bf16

// Each adds to sums[0], and some to sums[1], which hold bf16's numbers before.
enum { TOKENS = 300, START = 211, HEADS = 4, DIM = 32, WIDTH = HEADS * DIM, IDS = 5 };

static void add_gemm(const struct tensor *sums)
{
    struct tensor a = tensor(TOKENS, WIDTH, DTYPE_BF16, "a"), b = tensor(TOKENS, WIDTH, DTYPE_BF16, "b");
    op_gemm(device, sums[0], a, TRANSPOSE, b, NO_TRANSPOSE, 0.5, 1);
    tensor_free(device, &a);
    tensor_free(device, &b);
}

static void add_bias(const struct tensor *sums)
{
    struct tensor grad = tensor(TOKENS, WIDTH, DTYPE_BF16, "grad");
    op_bias_backward(device, sums[0], grad);
    tensor_free(device, &grad);
}

static void add_gain(const struct tensor *sums)
{
    struct tensor x = tensor(TOKENS, WIDTH, DTYPE_BF16, "x"), grad = tensor(TOKENS, WIDTH, DTYPE_BF16, "grad");
    struct tensor y = tensor(TOKENS, WIDTH, DTYPE_BF16, "y"), gain = tensor(1, WIDTH, DTYPE_BF16, "gain");
    struct tensor rstd = tensor(TOKENS, 1, DTYPE_F32, "rstd");
    op_rmsnorm_forward(device, y, rstd, x, gain, (struct norm_shape){.epsilon = 1e-5});
    op_rmsnorm_backward(device, y, false, sums[0], grad, x, gain, (struct norm_shape){0}, rstd);
    struct tensor *all[] = {&x, &grad, &y, &gain, &rstd};
    for (size_t i = 0; i < 5; i++)
        tensor_free(device, all[i]);
}

static void add_embedding(const struct tensor *sums)
{
    struct tensor grad = tensor(TOKENS, WIDTH, DTYPE_BF16, "grad");
    int32_t id[TOKENS];
    for (size_t i = 0; i < TOKENS; i++)
        id[i] = (int32_t)(i * i % IDS);
    struct tensor ids = tensor_new(device, TOKENS, 1, DTYPE_I32, CATEGORY_DATA);
    op_upload(device, ids, id);
    op_embedding_backward(device, sums[0], grad, ids, -1);
    tensor_free(device, &grad);
    tensor_free(device, &ids);
}

static void add_attention(const struct tensor *sums)
{
    struct attention_shape shape = {TOKENS, START, 1, HEADS, HEADS / 2, DIM, 0, {0}, 0, 0};
    size_t keys = TOKENS + START;
    struct tensor q = tensor(TOKENS, WIDTH, DTYPE_BF16, "q"), k = tensor(keys, WIDTH / 2, DTYPE_BF16, "k");
    struct tensor v = tensor(keys, WIDTH / 2, DTYPE_BF16, "v"), o = tensor(TOKENS, WIDTH, DTYPE_BF16, "o");
    struct tensor grad = tensor(TOKENS, WIDTH, DTYPE_BF16, "grad");
    struct tensor logsumexp = tensor(TOKENS, HEADS, DTYPE_F32, "logsumexp");
    op_attention_forward(device, shape, o, logsumexp, q, k, v);
    // Two segments, with a gap between them.
    struct key_segment segments[2] = {
        {3, 190, tensor_rows(sums[0], 0, 190), tensor_rows(sums[1], 0, 190), {0}},
        {START, TOKENS, tensor_rows(sums[0], 190, TOKENS), tensor_rows(sums[1], 190, TOKENS), {0}},
    };
    op_attention_backward(device, shape, grad, false, segments, 2, grad, o, logsumexp, q, k, v);
    struct tensor *all[] = {&q, &k, &v, &o, &grad, &logsumexp};
    for (size_t i = 0; i < 6; i++)
        tensor_free(device, all[i]);
}

static void scale(const struct tensor *sums)
{
    op_scale(device, sums[0], 0.3);
}

static const struct {
    const char *name;
    size_t rows, cols;
    void (*add)(const struct tensor *sums);
} operations[] = {{"gemm", WIDTH, WIDTH, add_gemm},
                  {"bias_backward", 1, WIDTH, add_bias},
                  {"rmsnorm_backward", 1, WIDTH, add_gain},
                  {"embedding_backward", IDS, WIDTH, add_embedding},
                  {"attention_backward", 190 + TOKENS, WIDTH / 2, add_attention},
                  {"scale", 70, WIDTH, scale}};

// An operation on sums in bf16 gives its result on the same numbers in f32, rounded once. The bound of an element
// is half of its last place plus the effect of another order of adding in f32: TOKENS terms of about 1 add up to
// about sqrt(TOKENS), and their roundings to sqrt(TOKENS) of eps of that.
static void test_rounded_once(void **state)
{
    (void)state;
    struct status status = {0};
    device = device_open("cpu", DTYPE_BF16, 0, &status);
    const double of_order = TOKENS * dtype_epsilon(DTYPE_F32);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        size_t rows = operations[i].rows, cols = operations[i].cols;
        struct tensor narrow[2], wide[2];
        for (size_t j = 0; j < 2; j++) {
            const char *name = j ? "second" : "first";
            narrow[j] = tensor(rows, cols, DTYPE_BF16, name);
            wide[j] = tensor(rows, cols, DTYPE_F32, name);
        }
        operations[i].add(narrow);
        operations[i].add(wide);
        for (size_t j = 0; j < 2; j++) {
            for (size_t at = 0; at < rows * cols; at++) {
                double found = get(narrow[j].data, DTYPE_BF16, at), exact = get(wide[j].data, DTYPE_F32, at);
                if (!(fabs(found - exact) <= dtype_epsilon(DTYPE_BF16) * fabs(exact) + of_order))
                    fail_msg("%s, sums %zu: element %zu is %.9g, in f32 %.9g", operations[i].name, j, at, found,
                             exact);
            }
            tensor_free(device, &narrow[j]);
            tensor_free(device, &wide[j]);
        }
    }
    assert_int_equal(device->status.code, STATUS_OK);
    device_close(device);
}

// Gradients of an embedding in bf16 are added in slices of 65,536 tokens; those behind the first have their own ids
// and their own gradients.
static void test_tokens_beyond_a_slice(void **state)
{
    (void)state;
    enum { SLICE = 65536, MORE = 3, COLS = 2 };
    static int32_t id[SLICE + MORE];
    static uint16_t values[(SLICE + MORE) * COLS];
    device = device_open("cpu", DTYPE_BF16, 0, NULL);
    struct tensor grad = tensor_new(device, SLICE + MORE, COLS, DTYPE_BF16, CATEGORY_ACTIVATIONS);
    struct tensor ids = tensor_new(device, SLICE + MORE, 1, DTYPE_I32, CATEGORY_DATA);
    struct tensor table = tensor_new(device, MORE + 1, COLS, DTYPE_BF16, CATEGORY_GRADIENTS);
    for (size_t i = 0; i < (size_t)MORE * COLS; i++) {
        id[SLICE + i / COLS] = (int32_t)(1 + i / COLS);
        values[SLICE * COLS + i] = dtype_bf16((float)(1 + i));
    }
    op_upload(device, ids, id);
    op_upload(device, grad, values);
    op_zero(device, table);
    op_embedding_backward(device, table, grad, ids, -1);
    for (size_t i = 0; i < (size_t)(MORE + 1) * COLS; i++)
        assert_true(get(table.data, DTYPE_BF16, i) == (i < COLS ? 0 : (double)(1 + i - COLS)));
    tensor_free(device, &grad);
    tensor_free(device, &ids);
    tensor_free(device, &table);
    device_close(device);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_f32),
        cmocka_unit_test(test_reversed_sums),
        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_devices_in_turn),
        cmocka_unit_test(test_attention_factors),
        cmocka_unit_test(test_rounded_once),
        cmocka_unit_test(test_tokens_beyond_a_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
