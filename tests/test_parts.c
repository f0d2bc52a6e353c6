// Parts: GEMM and attention over tensors that are too long for the device. The parts give the result of the whole,
// no part is too long, and an 8B model at a million tokens hands cuBLASLt and cuDNN no tensor of 2^31 elements.
#include "harness/machine/environment.h"
#include "kernels/device/observer.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// A device's table, with a limit of its own, that looks at what it is handed.
static const struct device_ops *inner;
static struct device_ops watching;
static struct device_rules rules;
static size_t longest, calls;

static void look(struct tensor t)
{
    size_t elements = tensor_count(t);
    longest = elements > longest ? elements : longest;
}

static void gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                 struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    look(a), look(b), look(c);
    calls++;
    inner->gemm(device, c, a, transpose_a, b, transpose_b, alpha, beta);
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    look(q), look(o), look(logsumexp);
    look(tensor_rows(k, 0, attention_keys(shape) * shape.batch));
    assert_true(attention_keys(shape) == shape.start + shape.queries || attention_keys(shape) <= shape.start);
    calls++;
    inner->attention_forward(device, shape, o, logsumexp, q, k, v);
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               bool accumulate, const struct key_segment *segments, size_t segment_count,
                               struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                               struct tensor k, struct tensor v, struct tensor workspace)
{
    look(q), look(o), look(grad_o), look(grad_q), look(logsumexp);
    look(tensor_rows(k, 0, attention_keys(shape) * shape.batch));
    for (size_t i = 0; i < segment_count; i++) {
        look(segments[i].grad_k);
        assert_true(segments[i].start + segments[i].count <= attention_keys(shape));
    }
    calls++;
    inner->attention_backward(device, shape, grad_q, accumulate, segments, segment_count, grad_o, o, logsumexp, q,
                              k, v, workspace);
}

static void watch(struct device *device, size_t elements_max)
{
    inner = device->ops;
    watching = *inner;
    rules = *inner->rules;
    rules.elements_max = elements_max;
    watching.rules = &rules;
    watching.gemm = gemm;
    watching.attention_forward = attention_forward;
    watching.attention_backward = attention_backward;
    device->ops = &watching;
    longest = calls = 0;
}

static struct tensor drawn(struct device *device, size_t rows, size_t cols, const char *name)
{
    struct tensor t = tensor_new(device, rows, cols, device->ops->dtype, CATEGORY_ACTIVATIONS);
    op_random_normal(device, t, random_named(rows * cols, name), 0, 1, DTYPE_F32);
    return t;
}

static void assert_same(struct device *device, struct tensor found, struct tensor expected)
{
    size_t count = tensor_count(found);
    double *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
    CHECK(a && b);
    tensor_read(device, found, a);
    tensor_read(device, expected, b);
    double error = relative_l2(a, b, count);
    if (!(error <= 64 * dtype_epsilon(device->ops->dtype)))
        fail_msg("the parts are off the whole by %.3g", error);
    free(a);
    free(b);
}

static struct device *opened(const char *name, enum dtype dtype)
{
    struct status status = {0};
    struct device *device = device_open(name, dtype, 0, &status);
    assert_non_null(device);
    return device;
}

static void test_gemm(void **state)
{
    (void)state;
    enum { LONG = 3000, MIDDLE = 7, SHORT = 5, MAX = 2100 * MIDDLE };
    struct device *device = opened("cpu", DTYPE_F64);
    // c = op(a) op(b), a's rows the long dimension; in whole blocks of rows, and in any.
    for (int variant = 0; variant < 6; variant++) {
        enum transpose ta = variant % 3 == 2, tb = variant % 3 == 1;
        size_t max = variant < 3 ? MAX : 100 * MIDDLE;
        struct tensor a = drawn(device, LONG, MIDDLE, "a");
        struct tensor b =
            ta ? drawn(device, LONG, SHORT, "b") : drawn(device, tb ? SHORT : MIDDLE, tb ? MIDDLE : SHORT, "b");
        size_t rows = ta ? MIDDLE : LONG;
        for (int beta = 0; beta < 2; beta++) {
            struct tensor whole = drawn(device, rows, SHORT, "c"), parts = drawn(device, rows, SHORT, "c");
            op_gemm(device, whole, a, ta, b, tb, 0.5, beta);
            device->counters = (struct counters){0};
            watch(device, max);
            op_gemm(device, parts, a, ta, b, tb, 0.5, beta);
            device->ops = inner;
            assert_int_equal(device->status.code, STATUS_OK);
            assert_int_equal(calls, variant < 3 ? 2 : LONG / 100);
            assert_int_equal(longest, variant < 3 ? 2048 * MIDDLE : max);
            assert_int_equal(device->counters.launches, calls);
            assert_true(device->counters.flops == 2.0 * LONG * MIDDLE * SHORT);
            assert_same(device, parts, whole);
            tensor_free(device, &whole);
            tensor_free(device, &parts);
        }
        tensor_free(device, &a);
        tensor_free(device, &b);
    }
    device_close(device);
}

// Queries in parts; segments of keys that end within a part, are not seen by the first parts, or lie behind a gap.
static void test_attention(void **state)
{
    (void)state;
    // Parts of 1,680 elements: keys fit, 35 queries of 50 do; so do keys in blocks, and those within a window.
    static const struct {
        enum dtype dtype;
        size_t max, window, calls;
    } cases[] = {{DTYPE_F64, 1680, 0, 4}, {DTYPE_F32, 1680, 0, 4}, {DTYPE_F64, 480, 0, 0}, {DTYPE_F32, 480, 0, 0},
                 {DTYPE_F64, 1200, 0, 0}, {DTYPE_F64, 480, 7, 0},  {DTYPE_F64, 480, 33, 0}};
    for (size_t d = 0; d < sizeof cases / sizeof *cases; d++) {
        struct device *device = opened("cpu", cases[d].dtype);
        struct attention_shape shape = {.queries = 50, .start = 20, .batch = 2, .heads = 4, .kv_heads = 2};
        shape.head_dim = 6;
        shape.mask.window = cases[d].window;
        size_t rows = 100, keys = 140, q_cols = 24, k_cols = 12;
        const struct {
            size_t start, count;
        } spans[] = {{3, 10}, {15, 22}, {60, 10}};
        struct tensor q = drawn(device, rows, q_cols, "q"), k = drawn(device, keys, k_cols, "k");
        struct tensor v = drawn(device, keys, k_cols, "v"), o[2], statistics[2], grad[2], grads[2][6];
        double flops[2];
        for (int parts = 0; parts < 2; parts++) {
            struct key_segment segments[3];
            o[parts] = drawn(device, rows, q_cols, "o");
            statistics[parts] = drawn(device, rows, shape.heads, "logsumexp");
            grad[parts] = drawn(device, rows, q_cols, "grad_o");
            for (size_t i = 0; i < 3; i++) {
                grads[parts][2 * i] = drawn(device, spans[i].count * 2, k_cols, "grad_k");
                grads[parts][2 * i + 1] = drawn(device, spans[i].count * 2, k_cols, "grad_v");
                segments[i] = (struct key_segment){
                    spans[i].start, spans[i].count, grads[parts][2 * i], grads[parts][2 * i + 1], {0}};
            }
            watch(device, parts ? cases[d].max : 0);
            device->counters = (struct counters){0};
            op_attention_forward(device, shape, o[parts], statistics[parts], q, k, v);
            op_attention_backward(device, shape, grad[parts], false, segments, 3, grad[parts], o[parts],
                                  statistics[parts], q, k, v);
            flops[parts] = device->counters.flops;
            device->ops = inner;
            assert_int_equal(device->status.code, STATUS_OK);
            assert_true(!parts || longest <= cases[d].max);
            if (!parts || cases[d].calls)
                assert_int_equal(calls, parts ? cases[d].calls : 2);
            else
                assert_true(calls > 4);
        }
        assert_true(flops[0] == flops[1]);
        assert_same(device, o[1], o[0]);
        assert_same(device, statistics[1], statistics[0]);
        assert_same(device, grad[1], grad[0]);
        for (size_t i = 0; i < 6; i++)
            assert_same(device, grads[1][i], grads[0][i]);
        struct tensor *all[] = {&q, &k, &v};
        for (size_t i = 0; i < 3; i++)
            tensor_free(device, all[i]);
        for (int parts = 0; parts < 2; parts++) {
            tensor_free(device, &o[parts]);
            tensor_free(device, &statistics[parts]);
            tensor_free(device, &grad[parts]);
            for (size_t i = 0; i < 6; i++)
                tensor_free(device, &grads[parts][i]);
        }
        device_close(device);
    }
}

// Operations that cannot run in parts are refused with their size.
static void test_refused(void **state)
{
    (void)state;
    struct device *device = opened("plan-cuda", DTYPE_BF16);
    const size_t max = device->ops->rules->elements_max;
    assert_int_equal(max, INT32_MAX);
    struct tensor x = tensor_new(device, 16, 4096, DTYPE_BF16, CATEGORY_ACTIVATIONS);
    struct tensor wide = tensor_new(device, 4096, max / 4096 + 1, DTYPE_BF16, CATEGORY_WEIGHTS);
    struct tensor y = tensor_new(device, 16, wide.cols, DTYPE_BF16, CATEGORY_ACTIVATIONS);
    op_gemm(device, y, x, NO_TRANSPOSE, wide, NO_TRANSPOSE, 1, 0);
    assert_int_equal(device->status.code, STATUS_UNSUPPORTED);
    assert_non_null(
        strstr(device->status.message, "gemm on device plan-cuda takes matrices of at most 2147483647"));
    device->status = (struct status){0};
    // Documents keep their keys together.
    struct attention_shape shape = {.queries = 2, .start = (size_t)1 << 21, .batch = 1, .heads = 32, .kv_heads = 8};
    shape.head_dim = 128;
    static const int32_t starts[] = {1, 1};
    shape.mask.documents.starts = starts;
    shape.mask.documents.device_starts = tensor_new(device, 2, 1, DTYPE_I32, CATEGORY_DATA);
    struct tensor q = tensor_new(device, 2, 4096, DTYPE_BF16, CATEGORY_ACTIVATIONS);
    struct tensor statistics = tensor_new(device, 2, 32, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct tensor keys = tensor_new(device, shape.start + 2, 1024, DTYPE_BF16, CATEGORY_KV_CACHE);
    op_attention_forward(device, shape, q, statistics, q, keys, keys);
    assert_int_equal(device->status.code, STATUS_UNSUPPORTED);
    assert_non_null(strstr(device->status.message, "attention on device plan-cuda"));
    // Without them they are taken in blocks, of which all but the first take room of their own.
    device->status = (struct status){0};
    device->counters = (struct counters){0};
    struct attention_shape plain = shape;
    plain.mask = (struct attention_mask){0};
    op_attention_forward(device, plain, q, statistics, q, keys, keys);
    assert_int_equal(device->status.code, STATUS_OK);
    assert_int_equal(device->counters.launches, 3);
    struct tensor *all[] = {&x, &wide, &y, &q, &statistics, &keys, &shape.mask.documents.device_starts};
    for (size_t i = 0; i < 7; i++)
        tensor_free(device, all[i]);
    device_close(device);
}

// A device without data is not asked for anything: its fronts' ranges are what there is to look at.
struct onlooker {
    struct observer observer;
    size_t forwards, backwards;
};

static void look_on(struct observer *observer, struct device *device, const struct range *range)
{
    (void)device;
    struct onlooker *o = (struct onlooker *)observer;
    if (range->level != RANGE_OPERATION)
        return;
    o->forwards += range->work == WORK_ATTENTION_FORWARD;
    o->backwards += range->work == WORK_ATTENTION_BACKWARD;
    if (range->work == WORK_GEMM) {
        look((struct tensor){.rows = range->m, .cols = range->k});
        look((struct tensor){.rows = range->k, .cols = range->n});
        look((struct tensor){.rows = range->m, .cols = range->n});
        calls++;
    }
}

static void look_away(struct observer *observer, struct device *device)
{
    (void)observer, (void)device;
}

// Every way that `full` and `checkpoint` have, over Llama-3-8B at 2^20 tokens, where the hidden state has 2^32.
static void test_a_million_tokens(void **state)
{
    (void)state;
    static const char *const names[] = {"full", "checkpoint"};
    for (int variant = 0; variant < 16; variant++) {
        struct fixture f = fixture_default();
        const struct method *method = method_find(names[variant & 1]);
        void *options =
            fixture_options(method, "keep=%s head_chunk=%d", variant & 2 ? "all" : "lean", variant & 4 ? 0 : 256);
        struct step_report report = {0};
        f.config = *config_preset("llama-3-8b");
        f.config.layers = 2;
        f.context = (size_t)1 << 20;
        f.lora = variant & 8 ? (struct lora){.rank = 8, .alpha = 16, .targets = LORA_Q | LORA_V | LORA_O}
                             : (struct lora){0};
        f.device = opened("plan-cuda", DTYPE_BF16);
        longest = calls = 0;
        struct onlooker onlooker = {.observer = {.push = look_on, .pop = look_away}};
        observer_attach(&onlooker.observer, f.device);
        struct trainer_options model_options = {
            .lora = f.lora, .kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
        trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
        batch_open(&f.batch, f.device, NULL, NULL, f.context, 1);
        method_step(method, &f.model, &f.batch, options, &report);
        options_free(&method->options, options);
        assert_int_equal(f.device->status.code, STATUS_OK);
        assert_true(calls > 100 && longest > (size_t)1 << 30); // it is the limit that holds
        assert_true(longest < (size_t)1 << 31);
        assert_int_equal(onlooker.backwards, 2 * 3); // of two layers, in three parts each
        assert_true(onlooker.forwards >= 2 * 3 && onlooker.forwards % 3 == 0);
        observer_detach(&onlooker.observer, f.device);
        batch_close(&f.batch, f.device);
        trainer_close(&f.trainer);
        device_close(f.device);
        step_report_free(&report);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_a_million_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
