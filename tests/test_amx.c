// Products of bf16 by the processor's matrix unit or vectors, if it has one: within the contract's bound, and
// attention in bf16 compared with products in f32.
#include "kernels/base/random.h"
#include "kernels/cpu/amx.h"
#include "kernels/device/ops.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double number(const char *name, size_t i, bool bf16)
{
    struct random random = random_named(1, name);
    double x = random_normal(&random, i);
    return bf16 ? dtype_round(x, DTYPE_BF16) : (double)(float)x;
}

enum { BEHIND = 3 }; // elements between the rows of every matrix that belong to somebody else

static float *matrix(const char *name, size_t rows, size_t cols, bool bf16)
{
    float *data = malloc((rows * (cols + BEHIND) + 1) * sizeof *data);
    for (size_t i = 0; i < rows * (cols + BEHIND); i++)
        data[i] = i % (cols + BEHIND) < cols ? (float)number(name, i, bf16) : NAN;
    return data;
}

static double element(struct amx_view x, size_t i, size_t j)
{
    return x.data[(ptrdiff_t)i * x.row + (ptrdiff_t)j * x.column];
}

enum { TURNED = 1, ACCUMULATE = 2, VARIANTS = 4 };

// Room for a factor, filled with what is no number.
static struct amx_factor room(size_t rows, size_t terms)
{
    size_t count = amx_factor_count(rows, terms);
    uint16_t *numbers = aligned_alloc(64, count * sizeof *numbers);
    memset(numbers, 0xff, count * sizeof *numbers);
    return amx_factor_new(numbers, terms);
}

static void multiply(float *c, size_t c_row, int variant, struct amx_view a, struct amx_view b, size_t m, size_t n,
                     size_t k)
{
    struct amx_factor left = room(m, k), right = room(n, k);
    amx_pack_left(left, a, m, k);
    amx_pack_right(right, b, k, n);
    amx_multiply(bf16_unit(), c, (ptrdiff_t)c_row, variant & ACCUMULATE, left, right, m, n, k);
    free(left.numbers);
    free(right.numbers);
}

static void check_product(size_t m, size_t n, size_t k, int variant)
{
    bool turned = variant & TURNED;
    float *left = turned ? matrix("left", k, m, true) : matrix("left", m, k, true);
    float *right = matrix("right", k, n, true), *c = matrix("sums", m, n, false);
    float *was = malloc((m * (n + BEHIND) + 1) * sizeof *was);
    memcpy(was, c, m * (n + BEHIND) * sizeof *c);
    struct amx_view a = {left, turned ? 1 : (ptrdiff_t)k + BEHIND, turned ? (ptrdiff_t)m + BEHIND : 1};
    struct amx_view b = {right, (ptrdiff_t)n + BEHIND, 1};
    multiply(c, n + BEHIND, variant, a, b, m, n, k);
    for (size_t i = 0; i < m * (n + BEHIND); i++) {
        size_t row = i / (n + BEHIND), col = i % (n + BEHIND);
        double expected = variant & ACCUMULATE ? was[i] : 0, size = fabs(expected);
        for (size_t l = 0; col < n && l < k; l++) {
            double term = element(a, row, l) * element(b, l, col);
            expected += term;
            size += fabs(term);
        }
        double allowed = ((double)k + 2) * dtype_epsilon(DTYPE_F32) * size;
        if (col < n ? !(fabs(c[i] - expected) <= allowed) : memcmp(&c[i], &was[i], sizeof *c) != 0)
            fail_msg("m %zu n %zu k %zu variant %d, [%zu, %zu]: %.9g, expected %.9g", m, n, k, variant, row, col,
                     c[i], expected);
    }
    free(was);
    free(c);
    free(right);
    free(left);
}

// Registers' sides and remainders of each.
static void test_products(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 8, 16, 24, 32, 40, 64}, terms[] = {1, 16, 17, 32, 33, 64, 100};
    if (!bf16_unit())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < sizeof terms / sizeof *terms; j++)
            for (size_t n = 16; n <= 80; n += 32)
                for (int variant = 0; variant < VARIANTS; variant++)
                    if (!(variant & TURNED) || rows[i] % 16 == 0)
                        check_product(rows[i], n, terms[j], variant);
}

// A part of a product, and of a factor that was packed in two pieces, is what it is of the whole.
static void test_parts(void **state)
{
    (void)state;
    enum { M = 48, N = 64, K = 96, ROW = 16, COLUMN = 32, TERM = 32, PIECE = 64 };
    static float whole[M * N], part[M * N];
    if (!bf16_unit())
        skip();
    float *a = matrix("left", M, K, true), *b = matrix("right", K, N, true);
    struct amx_view left = {a, K + BEHIND, 1}, right = {b, N + BEHIND, 1};
    struct amx_view later = {b + PIECE * (N + BEHIND), N + BEHIND, 1};
    struct amx_factor packed_left = room(M, K), packed_right = room(N, K);
    amx_pack_left(packed_left, left, M, K);
    amx_pack_right(packed_right, right, PIECE, N);
    amx_pack_right(amx_factor_at(packed_right, 0, PIECE), later, K - PIECE, N);
    multiply(whole, N, 0, left, right, M, N, K);
    amx_multiply(bf16_unit(), part, N, false, packed_left, packed_right, M, N, K);
    assert_memory_equal(part, whole, sizeof whole);

    struct amx_view some_left = {a + ROW * (K + BEHIND) + TERM, K + BEHIND, 1};
    struct amx_view some_right = {b + TERM * (N + BEHIND) + COLUMN, N + BEHIND, 1};
    memset(whole, 0, sizeof whole);
    memset(part, 0, sizeof part);
    multiply(whole, N, 0, some_left, some_right, M - ROW, N - COLUMN, K - TERM);
    amx_multiply(bf16_unit(), part, N, false, amx_factor_at(packed_left, ROW, TERM),
                 amx_factor_at(packed_right, COLUMN, TERM), M - ROW, N - COLUMN, K - TERM);
    assert_memory_equal(part, whole, sizeof whole);
    free(packed_left.numbers);
    free(packed_right.numbers);
    free(a);
    free(b);
}

// A factor that is no number, or infinite, reaches the results that it belongs to, and no other.
static void test_not_numbers(void **state)
{
    (void)state;
    enum { N = 48 };
    static float a[N * N], b[N * N], c[N * N];
    if (!bf16_unit())
        skip();
    for (size_t i = 0; i < N * N; i++)
        a[i] = b[i] = 1;
    a[3 * N + 5] = NAN;
    a[7 * N + 2] = INFINITY;
    b[4 * N + 40] = -INFINITY;
    multiply(c, N, 0, (struct amx_view){a, N, 1}, (struct amx_view){b, N, 1}, N, N, N);
    for (size_t i = 0; i < N * N; i++)
        if ((i / N == 3 || i / N == 7 || i % N == 40) == isfinite(c[i]))
            fail_msg("[%zu, %zu] is %g", i / N, i % N, c[i]);
}

// ---- attention in bf16

enum { TOKENS = 150, START = 77, KEYS = START + TOKENS, HEADS = 4, KV_HEADS = 2, RESULTS = 5 };

static struct tensor tensor(struct device *device, size_t rows, size_t cols, enum dtype dtype, const char *name,
                            double size)
{
    struct tensor t = tensor_new(device, rows, cols, dtype, CATEGORY_WORKSPACE);
    double *values = malloc(rows * cols * sizeof *values);
    for (size_t i = 0; i < rows * cols; i++)
        values[i] = name ? size * number(name, i, true) : 0;
    tensor_write(device, t, values);
    free(values);
    return t;
}

// o, logsumexp and the gradients of queries, keys and values, as f64; `instructions`: what the processor may use,
// size: of queries and keys.
static void attend(const char *instructions, size_t dim, double size, double *results[RESULTS],
                   size_t counts[RESULTS])
{
    struct status status = {0};
    if (instructions)
        assert_int_equal(setenv("ONEDNN_MAX_CPU_ISA", instructions, 1), 0);
    assert_int_equal(bf16_unit() != BF16_NONE, !instructions);
    struct device *device = device_open("cpu", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    assert_int_equal(strstr(device->description, "attention by ") != NULL, !instructions);
    struct attention_shape shape = {TOKENS, START, 1, HEADS, KV_HEADS, dim, 0, {0}, 0, 0};
    struct tensor q = tensor(device, TOKENS, HEADS * dim, DTYPE_BF16, "q", size);
    struct tensor k = tensor(device, KEYS, KV_HEADS * dim, DTYPE_BF16, "k", size);
    struct tensor v = tensor(device, KEYS, KV_HEADS * dim, DTYPE_BF16, "v", 1);
    struct tensor grad = tensor(device, TOKENS, HEADS * dim, DTYPE_BF16, "grad", 1);
    struct tensor out[RESULTS] = {tensor(device, TOKENS, HEADS * dim, DTYPE_BF16, NULL, 0),
                                  tensor(device, TOKENS, HEADS, DTYPE_F32, NULL, 0),
                                  tensor(device, TOKENS, HEADS * dim, DTYPE_BF16, NULL, 0),
                                  tensor(device, KEYS, KV_HEADS * dim, DTYPE_F32, NULL, 0),
                                  tensor(device, KEYS, KV_HEADS * dim, DTYPE_F32, NULL, 0)};
    struct key_segment segment = {0, KEYS, out[3], out[4], {0}};
    op_attention_forward(device, shape, out[0], out[1], q, k, v);
    op_attention_backward(device, shape, out[2], false, &segment, 1, grad, out[0], out[1], q, k, v);
    for (size_t i = 0; i < RESULTS; i++) {
        counts[i] = tensor_count(out[i]);
        results[i] = malloc(counts[i] * sizeof *results[i]);
        tensor_read(device, out[i], results[i]);
        tensor_free(device, &out[i]);
    }
    struct tensor *all[] = {&q, &k, &v, &grad};
    for (size_t i = 0; i < 4; i++)
        tensor_free(device, all[i]);
    device_close(device);
    if (instructions)
        assert_int_equal(unsetenv("ONEDNN_MAX_CPU_ISA"), 0);
}

// Sums in another order differ by what f32 rounds of their terms, and of P and dS, which both round alike, few are
// then rounded to another number: results are within one rounding of bf16.
static void test_attention(void **state)
{
    (void)state;
    static const char *const names[RESULTS] = {"o", "logsumexp", "grad_q", "grad_k", "grad_v"};
    const double eps = dtype_epsilon(DTYPE_BF16), of_sums = KEYS * dtype_epsilon(DTYPE_F32);
    const double allowed[RESULTS] = {eps, of_sums, eps, eps, eps};
    static const size_t dims[] = {20, 64, 128};
    if (!bf16_unit())
        skip();
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        double *by_unit[RESULTS], *by_vectors[RESULTS];
        size_t counts[RESULTS], differing = 0;
        attend(NULL, dims[d], 1, by_unit, counts);
        attend("avx512_core", dims[d], 1, by_vectors, counts);
        for (size_t i = 0; i < RESULTS; i++) {
            double squares = 0, error = 0;
            for (size_t j = 0; j < counts[i]; j++) {
                squares += by_vectors[i][j] * by_vectors[i][j];
                error += pow(by_unit[i][j] - by_vectors[i][j], 2);
                differing += by_unit[i][j] != by_vectors[i][j];
            }
            if (!(sqrt(error / squares) <= allowed[i]))
                fail_msg("%s, head_dim %zu: %g apart", names[i], dims[d], sqrt(error / squares));
            free(by_unit[i]);
            free(by_vectors[i]);
        }
        assert_true(differing > 0);
    }
}

// Probabilities are none above 1, however large the scores are and however a head's are scaled.
static void test_large_scores(void **state)
{
    (void)state;
    static const size_t dims[] = {20, 64, 128};
    const double max = 6; // of a normal number here
    const double bounds[RESULTS] = {max, INFINITY, INFINITY, INFINITY, TOKENS * HEADS / KV_HEADS * max};
    if (!bf16_unit())
        skip();
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (double size = 20; size < 1e6; size *= 10) {
            double *results[RESULTS];
            size_t counts[RESULTS];
            attend(NULL, dims[d], size, results, counts);
            for (size_t i = 0; i < RESULTS; i++) {
                for (size_t j = 0; j < counts[i]; j++)
                    if (!(isfinite(results[i][j]) && fabs(results[i][j]) <= bounds[i]))
                        fail_msg("head_dim %zu, size %g: %g in result %zu", dims[d], size, results[i][j], i);
                free(results[i]);
            }
        }
}

int main(void)
{
    unsetenv("ONEDNN_MAX_CPU_ISA");
    unsetenv("DNNL_MAX_CPU_ISA");
    if (!bf16_unit())
        print_message("this processor does not multiply bf16, or the system keeps it from that\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),  cmocka_unit_test(test_parts),        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_large_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
