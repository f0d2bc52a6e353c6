// Attention's backward in blocks, on the emulated CUDA device: the bytes that it moves are those that the pure
// function says, and folding query heads into rows or taking all at once changes nothing but the rounding.
#include "kernels/cuda/workspace.h"
#include "kernels/device/ops.h"
#include "tests/emulator/plugin.h"
#include "tests/fixture.h"
#include "tests/key_sums.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static size_t (*moved)(void);

// ---- a device that counts what its backward of attention moves

static const struct device_ops *real;
static double counted;

static void counting_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                              bool accumulate, const struct key_segment *segments, size_t segment_count,
                              struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                              struct tensor k, struct tensor v, struct tensor workspace)
{
    real->synchronize(device);
    size_t before = moved();
    real->attention_backward(device, shape, grad_q, accumulate, segments, segment_count, grad_o, o, logsumexp, q, k,
                             v, workspace);
    real->synchronize(device);
    counted += (double)(moved() - before);
}

static struct device *open_counting(void)
{
    static struct device_ops ops;
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    real = device->ops;
    ops = *real;
    ops.attention_backward = counting_backward;
    device->ops = &ops;
    counted = 0;
    return device;
}

static void close_counting(struct device *device)
{
    device->ops = real;
    device_close(device);
}

// ---- one call

static struct tensor filled(struct device *device, size_t rows, size_t cols, enum dtype dtype, const char *name)
{
    struct tensor t = tensor_new(device, rows, cols, dtype, CATEGORY_ACTIVATIONS);
    struct random random = random_named(1, name);
    double *values = malloc(rows * cols * sizeof *values);
    CHECK(values);
    for (size_t i = 0; i < rows * cols; i++)
        values[i] = *name ? random_normal(&random, i) : 0;
    tensor_write(device, t, values);
    free(values);
    return t;
}

static double *values_of(struct device *device, struct tensor t)
{
    double *values = malloc(tensor_count(t) * sizeof *values);
    CHECK(values);
    tensor_read(device, t, values);
    return values;
}

struct call {
    struct attention_shape shape;
    struct tensor q, k, v, o, logsumexp, grad_q, grad_k, grad_v;
};

// Forward and backward, with grad_k and grad_v of keys [first, end) alone. key_heads: how many of the key heads
// are drawn; each is there kv_heads / key_heads times.
static struct call call(struct device *device, struct attention_shape s, size_t key_heads, size_t first,
                        enum dtype sums)
{
    size_t rows = s.queries * s.batch, end = attention_keys(s), keys = end * s.batch;
    size_t cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim, repeated = s.kv_heads / key_heads;
    struct call c = {.shape = s,
                     .q = filled(device, rows, cols, DTYPE_BF16, "q"),
                     .k = filled(device, keys, k_cols, DTYPE_BF16, "k"),
                     .v = filled(device, keys, k_cols, DTYPE_BF16, "v"),
                     .o = filled(device, rows, cols, DTYPE_BF16, ""),
                     .logsumexp = filled(device, rows, s.heads, DTYPE_F32, ""),
                     .grad_q = filled(device, rows, cols, DTYPE_BF16, "grad_o"),
                     .grad_k = filled(device, (end - first) * s.batch, k_cols, sums, ""),
                     .grad_v = filled(device, (end - first) * s.batch, k_cols, sums, "")};
    struct tensor *repeat[] = {&c.k, &c.v};
    for (size_t i = 0; repeated > 1 && i < 2; i++) {
        struct tensor few = filled(device, keys, k_cols / repeated, DTYPE_BF16, i ? "v" : "k");
        double *from = values_of(device, few), *to = values_of(device, *repeat[i]);
        for (size_t j = 0; j < keys * k_cols; j++) {
            size_t head = j % k_cols / s.head_dim / repeated;
            to[j] = from[j / k_cols * (k_cols / repeated) + head * s.head_dim + j % s.head_dim];
        }
        tensor_write(device, *repeat[i], to);
        free(from);
        free(to);
        tensor_free(device, &few);
    }
    struct key_segment segment = {first, end - first, c.grad_k, c.grad_v, {0}};
    op_attention_forward(device, s, c.o, c.logsumexp, c.q, c.k, c.v);
    op_attention_backward(device, s, c.grad_q, false, &segment, 1, c.grad_q, c.o, c.logsumexp, c.q, c.k, c.v);
    assert_int_equal(device->status.code, STATUS_OK);
    return c;
}

static void call_free(struct device *device, struct call *c)
{
    struct tensor *all[] = {&c->q, &c->k, &c->v, &c->o, &c->logsumexp, &c->grad_q, &c->grad_k, &c->grad_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(device, all[i]);
}

enum { BLOCK = CUDA_ATTENTION_QUERIES, KEYS = CUDA_ATTENTION_KEYS, TILE = CUDA_ATTENTION_TILE };

static const struct attention_shape shapes[] = {
    {BLOCK, 0, 1, 4, 2, 8, 0, {0}, 0, 0},    // a causal block alone
    {BLOCK, KEYS, 1, 4, 2, 8, 0, {0}, 0, 0}, // one rectangle before it
    {BLOCK, 3 * KEYS + TILE, 1, 4, 2, 8, 0, {0}, 0, 0},
    {3 * BLOCK + 5, 7, 1, 8, 2, 16, 0, {0}, 0, 0},   // blocks of queries, keys that no tile ends
    {BLOCK + 1, KEYS - 1, 3, 6, 2, 8, 0, {0}, 0, 0}, // sequences
    {BLOCK, 2 * KEYS, 2, 4, 4, 8, 0, {0}, 0, 0},     // nothing to fold
    {TILE + 5, 5 * TILE, 1, 7, 1, 24, 0, {0}, 0, 0},
    // Keys that all queries see: blocks of both, a single one, and a few that no tile holds.
    {2 * BLOCK + 5, 3 * KEYS, 1, 6, 2, 8, 2 * KEYS + TILE, {0}, 0, 0},
    {TILE + 5, 3 * TILE, 2, 4, 4, 16, TILE, {0}, 0, 0},
    {BLOCK + 1, 2 * KEYS, 3, 4, 2, 8, KEYS + TILE + 3, {0}, 0, 0},
    {BLOCK, 3 * KEYS, 1, 2, 2, 8, TILE + 1, {0}, 0, 0},
    {BLOCK + 2, KEYS + 3, 1, 2, 1, 136, 0, {0}, 0, 0}, // long heads
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void by_own_kernels(struct device *device, bool own)
{
    device->deterministic = device->no_deterministic_attention = own;
}

// Bytes that own kernels move for keys outside tiles, except for the gradient of the queries that they write.
static double moved_for_rest(struct device *device, struct attention_shape s)
{
    double before = counted, bytes = 0;
    bool deterministic = device->deterministic;
    size_t max = cuda_attention_block_queries(device);
    for (struct cuda_attention_block b = {.deterministic = deterministic}; cuda_attention_next_block(s, max, &b);) {
        if (b.kind == ATTENTION_UNTILED) {
            counted = 0;
            by_own_kernels(device, true);
            struct call c = call(device, cuda_attention_block_shape(s, &b), s.kv_heads, 0, DTYPE_F32);
            by_own_kernels(device, false);
            device->deterministic = deterministic;
            bytes += counted - (double)tensor_bytes(c.grad_q);
            call_free(device, &c);
        }
    }
    counted = before;
    return bytes;
}

static void test_glue_of_a_call(void **state)
{
    (void)state;
    struct device *device = open_counting();
    for (size_t i = 0; i < SHAPES; i++) {
        for (int variant = 0; variant < 32; variant++) {
            device->deterministic = variant & 4;
            device->unfused = variant & 16;
            struct attention_shape s = shapes[i];
            device->whole_attention = variant & 1;
            device->attention_queries = variant & 8 ? BLOCK / 2 : 0;
            counted = device->counters.glue_bytes = 0;
            struct call c = call(device, s, s.kv_heads, variant & 2 ? (s.keys ? s.keys : s.start) / 2 + 1 : 0,
                                 variant & 2 ? DTYPE_BF16 : DTYPE_F32);
            double glue_bytes = device->counters.glue_bytes;
            call_free(device, &c);
            counted -= moved_for_rest(device, s);
            if (glue_bytes != counted || counted == 0) {
                fail_msg("queries %zu start %zu keys %zu batch %zu heads %zu:%zu of %zu, variant %d: moves %.0f "
                         "bytes, not %.0f",
                         s.queries, s.start, s.keys, s.batch, s.heads, s.kv_heads, s.head_dim, variant, counted,
                         glue_bytes);
            }
        }
    }
    close_counting(device);
}

// Own kernels have none.
static void test_no_glue(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    by_own_kernels(device, true);
    struct call c = call(device, shapes[1], shapes[1].kv_heads, 0, DTYPE_F32);
    call_free(device, &c);
    assert_true(device->counters.glue_bytes == 0);
    device_close(device);
}

// ---- a step

static void test_glue_of_a_step(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        struct device *device = open_counting();
        struct fixture f = fixture_default();
        struct trainer_options options = {.kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
        void *how = fixture_options(*m, "chunk=%d budget=2", KEYS + 2);
        struct step_report report = {0};
        int32_t ids[2 * (2 * KEYS + TILE + 5)] = {3, 1, 4, 1, 5, 9, 2, 6};
        f.config.kinds[0].head_dim = 8;
        f.context = 2 * KEYS + TILE + 5; // the last chunk is no whole tile, and no less than one
        trainer_open(&f.trainer, &f.model, &f.config, &options, device);
        random_weights_set(&f.model, f.seed, DTYPE_BF16);
        batch_open(&f.batch, device, ids, NULL, f.context, f.batch_size);
        counted = device->counters.glue_bytes = 0;
        trainer_zero(&f.trainer);
        method_step(*m, &f.model, &f.batch, how, &report);
        options_free(&(*m)->options, how);
        assert_int_equal(device->status.code, STATUS_OK);
        if (device->counters.glue_bytes != counted)
            fail_msg("%s moves %.0f bytes, not %.0f", (*m)->name, counted, device->counters.glue_bytes);
        assert_true(counted > 0 || !(*m)->exact);
        batch_close(&f.batch, device);
        trainer_close(&f.trainer);
        close_counting(device);
        step_report_free(&report);
    }
}

// ---- the same gradients

// Sums the gradients of keys that occur `repeated` times.
static double *summed(const double *x, size_t rows, size_t kv_heads, size_t repeated, size_t head_dim)
{
    double *sum = calloc(rows * kv_heads * head_dim, sizeof *sum);
    CHECK(sum);
    for (size_t i = 0; i < rows * kv_heads * repeated * head_dim; i++) {
        size_t head = i / head_dim / repeated; // over all rows
        sum[head * head_dim + i % head_dim] += x[i];
    }
    return sum;
}

// The query heads that share a key head, folded into rows, against the same with that key head for each of them,
// which leaves nothing to fold: the same but for roundings.
static void test_folded_as_unfolded(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    for (size_t i = 0; i < SHAPES; i++) {
        struct attention_shape s = shapes[i], every = s;
        size_t group = s.heads / s.kv_heads, count = s.queries * s.batch * s.heads * s.head_dim;
        size_t keys = attention_keys(s) * s.batch, key_count = keys * s.kv_heads * s.head_dim;
        every.kv_heads = s.heads;
        struct call folded = call(device, s, s.kv_heads, 0, DTYPE_F32);
        struct call unfolded = call(device, every, s.kv_heads, 0, DTYPE_F32);
        struct tensor found[] = {folded.grad_q, folded.grad_k, folded.grad_v};
        struct tensor expected[] = {unfolded.grad_q, unfolded.grad_k, unfolded.grad_v};
        for (size_t j = 0; j < 3; j++) {
            double *a = values_of(device, found[j]), *b = values_of(device, expected[j]);
            double *sum = j ? summed(b, keys, s.kv_heads, group, s.head_dim) : NULL;
            double error = j ? relative_l2(a, sum, key_count) : relative_l2(a, b, count);
            if (!(error <= dtype_epsilon(DTYPE_BF16)))
                fail_msg("shape %zu: grad_%c differs by %.2e", i, "qkv"[j], error);
            free(sum);
            free(a);
            free(b);
        }
        call_free(device, &folded);
        call_free(device, &unfolded);
    }
    device_close(device);
}

// All at once, and in shorter blocks.
static void test_blocks_alike(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    for (size_t i = 0; i < SHAPES; i++) {
        struct call calls[3];
        for (int n = 0; n < 3; n++) {
            device->whole_attention = n == 1;
            device->attention_queries = n == 2 ? BLOCK / 2 : 0;
            calls[n] = call(device, shapes[i], shapes[i].kv_heads, 0, DTYPE_F32);
        }
        struct tensor found[] = {calls[1].grad_q, calls[1].grad_k, calls[1].grad_v,
                                 calls[2].grad_q, calls[2].grad_k, calls[2].grad_v};
        struct tensor expected[] = {calls[0].grad_q, calls[0].grad_k, calls[0].grad_v};
        for (size_t j = 0; j < 6; j++) {
            double *a = values_of(device, found[j]), *b = values_of(device, expected[j % 3]);
            double error = relative_l2(a, b, tensor_count(found[j]));
            if (!(error <= 2 * dtype_epsilon(DTYPE_BF16))) {
                fail_msg("shape %zu, %s: grad_%c differs by %.2e", i, j < 3 ? "whole" : "shorter blocks",
                         "qkv"[j % 3], error);
            }
            free(a);
            free(b);
        }
        for (int n = 0; n < 3; n++)
            call_free(device, &calls[n]);
    }
    device_close(device);
}

// Sums in bf16 that are rounded stochastically have the CPU's bits: by cuDNN's blocks (whose queries are one block
// here), with what they leave of a tile, and by own kernels; of heads whose columns are no whole groups of random
// bits, too. The scale of heads of 12 is no power of two: gradients of keys are inexact there, and not compared.
static void test_rounded_as_on_the_cpu(void **state)
{
    (void)state;
    static const struct attention_shape of[] = {
        {BLOCK, 0, 2, 4, 2, 16, 0, {0}, 0, 0},           {BLOCK, KEYS + TILE, 2, 4, 2, 16, 0, {0}, 0, 0},
        {BLOCK, KEYS + TILE, 1, 4, 4, 16, 0, {0}, 0, 0}, {BLOCK, 3 * KEYS, 3, 4, 2, 16, KEYS + TILE + 3, {0}, 0, 0},
        {BLOCK, 17, 3, 2, 1, 4, 0, {0}, 0, 0},           {BLOCK, 17, 3, 2, 1, 12, 0, {0}, 0, 0},
    };
    struct status status = {0};
    struct device *cpu = device_open("cpu", DTYPE_BF16, 0, &status);
    struct device *card = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_true(cpu && card);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        for (int how = 0; how < 3; how++) {
            card->deterministic = how > 0;
            card->no_deterministic_attention = how == 2;
            struct key_rounding rounding = key_sums_rounding(i + 1, 1000 * i);
            struct key_sums expected = key_sums(cpu, of[i], rounding, 7, false, 3);
            struct key_sums found = key_sums(card, of[i], rounding, 7, false, 3);
            struct key_sums nearest = key_sums(card, of[i], (struct key_rounding){0}, 7, false, 3);
            size_t bytes = found.count * sizeof *found.v;
            if (memcmp(found.v, expected.v, bytes) != 0)
                fail_msg("shape %zu, way %d: grad_v has other bits", i, how);
            if (of[i].head_dim != 12 && memcmp(found.k, expected.k, bytes) != 0)
                fail_msg("shape %zu, way %d: grad_k has other bits", i, how);
            assert_true(of[i].head_dim < 16 || memcmp(nearest.k, expected.k, bytes) != 0);
            assert_memory_not_equal(nearest.v, expected.v, bytes);
            key_sums_free(&nearest);
            key_sums_free(&found);
            key_sums_free(&expected);
        }
    }
    device_close(card);
    device_close(cpu);
}

// Logsumexps of -150, below what exp of a score of 0 less that leaves finite: 300 queries end no tile, and what
// lies after the last in an engine's tile has no part in any gradient. K = -14 Q, so that each query gives the keys
// that it sees the same probability.
static void test_low_logsumexp(void **state)
{
    (void)state;
    enum { QUERIES_OF = 300, KEYS_OF = 5000, DIM = 8 };
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    struct attention_shape s = {QUERIES_OF, KEYS_OF - QUERIES_OF, 1, 2, 1, DIM, 0, {0}, 0, 0};
    struct tensor q = filled(device, QUERIES_OF, 2 * DIM, DTYPE_BF16, ""),
                  o = filled(device, QUERIES_OF, 2 * DIM, DTYPE_BF16, "");
    struct tensor k = filled(device, KEYS_OF, DIM, DTYPE_BF16, ""),
                  v = filled(device, KEYS_OF, DIM, DTYPE_BF16, "v");
    struct tensor logsumexp = filled(device, QUERIES_OF, 2, DTYPE_F32, "");
    struct tensor grad_o = filled(device, QUERIES_OF, 2 * DIM, DTYPE_BF16, "grad_o");
    struct tensor grad_q = filled(device, QUERIES_OF, 2 * DIM, DTYPE_BF16, "");
    struct tensor grad_k = filled(device, KEYS_OF, DIM, DTYPE_F32, ""),
                  grad_v = filled(device, KEYS_OF, DIM, DTYPE_F32, "");
    double values[KEYS_OF * DIM], expected[KEYS_OF * DIM] = {0};
    for (size_t i = 0; i < KEYS_OF * DIM; i++)
        values[i] = -28;
    tensor_write(device, k, values);
    for (size_t i = 0; i < QUERIES_OF * 2 * DIM; i++)
        values[i] = 2;
    tensor_write(device, q, values);
    struct key_segment segment = {0, KEYS_OF, grad_k, grad_v, {0}};
    op_attention_forward(device, s, o, logsumexp, q, k, v);
    op_attention_backward(device, s, grad_q, false, &segment, 1, grad_o, o, logsumexp, q, k, v);
    assert_int_equal(device->status.code, STATUS_OK);
    double *low = values_of(device, logsumexp), *of_o = values_of(device, grad_o),
           *found = values_of(device, grad_v);
    assert_true(low[0] < -149 && low[0] > -151);
    for (size_t i = 0; i < QUERIES_OF * 2 * DIM; i++) {
        size_t seen = s.start + i / (2 * DIM) + 1;
        for (size_t key = 0; key < seen; key++)
            expected[key * DIM + i % DIM] += of_o[i] / (double)seen;
    }
    double error = relative_l2(found, expected, KEYS_OF * DIM);
    if (!(error <= dtype_epsilon(DTYPE_BF16)))
        fail_msg("grad_v differs by %.2e", error);
    struct tensor all[] = {q, o, k, v, logsumexp, grad_o, grad_q, grad_k, grad_v};
    double *of_q = values_of(device, grad_q), *of_k = values_of(device, grad_k);
    for (size_t i = 0; i < QUERIES_OF * 2 * DIM; i++)
        assert_true(isfinite(of_q[i]));
    for (size_t i = 0; i < KEYS_OF * DIM; i++)
        assert_true(isfinite(of_k[i]));
    double *read[] = {low, of_o, found, of_q, of_k};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        free(read[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(device, &all[i]);
    device_close(device);
}

// ---- ranges of keys

// Queries that fill no tile have short ranges; keys that all queries see, one more than ranges hold, or fewer than
// a part; queries in blocks.
static const struct attention_shape cut[] = {
    {TILE, 32 * TILE, 1, 4, 2, 8, 0, {0}, 0, 0},
    {TILE, 31 * TILE, 1, 4, 2, 8, 0, {0}, 0, 0},
    {TILE, 519, 2, 4, 2, 8, 0, {0}, 0, 0},
    {5, 700, 3, 6, 2, 16, 0, {0}, 0, 0},
    {7, 300, 1, 7, 1, 24, 0, {0}, 0, 0},
    {5, 400, 1, 4, 2, 8, 320, {0}, 0, 0},
    {5, 400, 2, 4, 4, 8, 257, {0}, 0, 0},
    {2, 300, 1, 2, 2, 8, 299, {0}, 0, 0},
    {2 * BLOCK + 3, 64 * (2 * BLOCK + 3), 2, 2, 1, 8, 0, {0}, 0, 0},
    {2 * BLOCK, 6000, 1, 2, 1, 8, 3000, {0}, 0, 0},
};
static const struct attention_shape uncut[] = {{TILE, 31 * TILE - 1, 1, 4, 2, 8, 0, {0}, 0, 0},
                                               {40 * TILE, 0, 1, 4, 2, 8, 0, {0}, 0, 0},
                                               {5, 3, 1, 4, 2, 8, 1, {0}, 0, 0},
                                               {1, 400, 1, 4, 2, 8, 0, {0}, 0, 0},
                                               {TILE, 400, 1, 4, 2, 8, 0, {.window = 20}, 0, 0}};

struct forward {
    struct tensor q, k, v, o, logsumexp;
    double moved, glue_bytes;
};

static struct forward forward_of(struct device *device, struct attention_shape s, struct tensor k)
{
    size_t rows = s.queries * s.batch, keys = attention_keys(s) * s.batch;
    size_t cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
    struct forward f = {.q = filled(device, rows, cols, DTYPE_BF16, "q"),
                        .k = k.data ? k : filled(device, keys, k_cols, DTYPE_BF16, "k"),
                        .v = filled(device, keys, k_cols, DTYPE_BF16, "v"),
                        .o = filled(device, rows, cols, DTYPE_BF16, ""),
                        .logsumexp = filled(device, rows, s.heads, DTYPE_F32, "")};
    device->ops->synchronize(device);
    f.moved = -(double)moved();
    f.glue_bytes = -device->counters.glue_bytes;
    op_attention_forward(device, s, f.o, f.logsumexp, f.q, f.k, f.v);
    device->ops->synchronize(device);
    f.moved += (double)moved();
    f.glue_bytes += device->counters.glue_bytes;
    assert_int_equal(device->status.code, STATUS_OK);
    return f;
}

static void forward_free(struct device *device, struct forward *f)
{
    struct tensor *all[] = {&f->q, &f->k, &f->v, &f->o, &f->logsumexp};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(device, all[i]);
}

static struct tensor copied(struct device *to, struct device *from, struct tensor t)
{
    struct tensor copy = tensor_new(to, t.rows, t.cols, DTYPE_F64, CATEGORY_ACTIVATIONS);
    double *values = values_of(from, t);
    tensor_write(to, copy, values);
    free(values);
    return copy;
}

// Holds a forward against that of the CPU in f64.
static void expect_right(struct device *device, struct attention_shape s, struct forward *f, const char *how)
{
    struct status status = {0};
    struct device *cpu = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(cpu);
    struct forward r = {.q = copied(cpu, device, f->q),
                        .k = copied(cpu, device, f->k),
                        .v = copied(cpu, device, f->v),
                        .o = copied(cpu, device, f->o),
                        .logsumexp = copied(cpu, device, f->logsumexp)};
    op_attention_forward(cpu, s, r.o, r.logsumexp, r.q, r.k, r.v);
    double *o = values_of(device, f->o), *expected = values_of(cpu, r.o);
    double *logsumexp = values_of(device, f->logsumexp), *logsumexps = values_of(cpu, r.logsumexp);
    double error = relative_l2(o, expected, tensor_count(f->o));
    double off = largest_difference(logsumexp, logsumexps, tensor_count(f->logsumexp));
    if (!(error <= dtype_epsilon(DTYPE_BF16) && off <= 1e-6 * (10 + fabs(logsumexps[0])))) {
        fail_msg("%s, queries %zu start %zu keys %zu batch %zu heads %zu:%zu: o differs by %.2e, logsumexp by %.2e",
                 how, s.queries, s.start, s.keys, s.batch, s.heads, s.kv_heads, error, off);
    }
    double *all[] = {o, expected, logsumexp, logsumexps};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    forward_free(cpu, &r);
    device_close(cpu);
}

static size_t blocks_of(const struct device *device, struct attention_shape s, size_t *max_parts)
{
    size_t blocks = 0;
    *max_parts = 0;
    for (struct cuda_attention_block b = {0}; cuda_attention_next_forward(device, s, &b); blocks++)
        *max_parts = b.parts > *max_parts ? b.parts : *max_parts;
    return blocks;
}

// On a card of a few multiprocessors ranges have no parts. The plan counts the bytes beyond those of a forward
// over all keys at once.
static void test_ranges_of_keys(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    size_t multiprocessors = device->multiprocessors, with_parts = 0, without = 0, max_parts;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        for (int few = 0; few < 2; few++) {
            device->multiprocessors = few ? 1 : multiprocessors;
            bool is_cut = blocks_of(device, cut[i], &max_parts) > 1 || max_parts > 1;
            with_parts += max_parts > 1;
            without += is_cut && max_parts <= 1;
            struct forward f = forward_of(device, cut[i], tensor_none());
            device->whole_keys = true;
            assert_int_equal(blocks_of(device, cut[i], &max_parts), 1);
            struct forward whole = forward_of(device, cut[i], tensor_none());
            device->whole_keys = false;
            expect_right(device, cut[i], &f, few ? "few multiprocessors" : "parts");
            if ((f.glue_bytes > 0) != is_cut || whole.glue_bytes != 0 || f.moved - whole.moved != f.glue_bytes)
                fail_msg("shape %zu: %.0f bytes besides, not %.0f", i, f.moved - whole.moved, f.glue_bytes);
            forward_free(device, &whole);
            forward_free(device, &f);
        }
    }
    assert_true(with_parts >= 6 && without >= 4);
    device->multiprocessors = multiprocessors;
    for (size_t i = 0; i < sizeof uncut / sizeof *uncut; i++) {
        struct forward f = forward_of(device, uncut[i], tensor_none());
        assert_true(f.glue_bytes == 0);
        expect_right(device, uncut[i], &f, "uncut");
        forward_free(device, &f);
    }
    device_close(device);
}

// Keys whose scores are `low` in every `step`-th place, else 0.
static struct tensor low_keys(struct device *device, struct attention_shape s, size_t step, double low)
{
    size_t rows = attention_keys(s) * s.batch, cols = s.kv_heads * s.head_dim;
    struct tensor k = filled(device, rows, cols, DTYPE_BF16, "");
    double *values = zeros(rows * cols);
    for (size_t i = 0; i < rows * cols; i += cols)
        values[i] = i / cols % step == 0 ? low : 0;
    tensor_write(device, k, values);
    free(values);
    return k;
}

// All logsumexps about -150; one part's -infinity, which then has no share; and all of them.
static void test_ranges_of_low_logsumexps(void **state)
{
    (void)state;
    static const struct {
        size_t step;
        double low;
        size_t keys;
    } cases[] = {{1, -160, 0}, {16, -3e38, 0}, {2, -3e38, 0}, {1, -3e38, 40 * TILE}};
    struct status status = {0};
    struct device *device = device_open("cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct attention_shape s = {TILE, 40 * TILE, 1, 1, 1, 8, cases[i].keys, {0}, 0, 0};
        struct tensor k = low_keys(device, s, cases[i].step, cases[i].low);
        struct forward f = forward_of(device, s, k);
        double ones[TILE * 8];
        for (size_t j = 0; j < TILE * 8; j++)
            ones[j] = cases[i].low < -1000 ? 1e30 : sqrt(8);
        tensor_write(device, f.q, ones);
        op_attention_forward(device, s, f.o, f.logsumexp, f.q, k, f.v);
        double *o = values_of(device, f.o), *logsumexp = values_of(device, f.logsumexp);
        if (i < 3) {
            expect_right(device, s, &f, "low");
            assert_true(i > 0 || (logsumexp[0] < -149 && logsumexp[0] > -155));
        } else {
            assert_true(logsumexp[0] == -INFINITY);
            for (size_t j = 0; j < TILE * 8; j++)
                assert_true(o[j] == 0);
        }
        free(logsumexp);
        free(o);
        forward_free(device, &f);
    }
    device_close(device);
}

// One step of seco in chunks of a tile.
static double *step_of(struct fixture *f, const char *name, enum dtype dtype, bool whole_keys)
{
    const struct method *seco = method_find("seco");
    void *options = fixture_options(seco, "chunk=%d", TILE);
    struct step_report report = {0};
    *f = fixture_default();
    f->config.kinds[0].head_dim = 8;
    f->context = 40 * TILE;
    f->batch_size = 1;
    f->dtype = dtype;
    f->rounding = DTYPE_BF16;
    f->device_name = name;
    fixture_open(f);
    f->device->whole_keys = whole_keys;
    if (f->device->ops->dataless) {
        f->device->multiprocessors = 132;
        f->device->compute_capability = 90;
    }
    f->device->counters = (struct counters){0};
    trainer_zero(&f->trainer);
    method_step(seco, &f->model, &f->batch, options, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    options_free(&seco->options, options);
    step_report_free(&report);
    return f->device->ops->dataless ? NULL : fixture_gradients(f);
}

// All that a step counts and takes is planned; keys that are cut take no more memory, and leave the gradient as
// near to that in f64.
static void test_ranges_of_a_step(void **state)
{
    (void)state;
    struct fixture reference, found[2], planned;
    double *expected = step_of(&reference, "cpu", DTYPE_F64, false), error[2];
    for (int whole = 0; whole < 2; whole++) {
        double *gradient = step_of(&found[whole], "cuda", DTYPE_BF16, whole);
        step_of(&planned, "plan-cuda", DTYPE_BF16, whole);
        error[whole] = relative_l2(gradient, expected, reference.gradient_count);
        assert_memory_equal(&found[whole].device->counters, &planned.device->counters, sizeof(struct counters));
        assert_int_equal(found[whole].device->arena.peak_bytes, planned.device->arena.peak_bytes);
        fixture_close(&planned);
        free(gradient);
    }
    assert_true(found[0].device->counters.glue_bytes > found[1].device->counters.glue_bytes);
    assert_true(found[0].device->counters.launches == found[1].device->counters.launches);
    assert_int_equal(found[0].device->arena.peak_bytes, found[1].device->arena.peak_bytes);
    print_message("gradient's error %.2e, of whole keys %.2e\n", error[0], error[1]);
    assert_true(error[0] <= 1.1 * error[1]);
    fixture_close(&found[0]);
    fixture_close(&found[1]);
    fixture_close(&reference);
    free(expected);
}

int main(void)
{
    moved = (size_t(*)(void))emulated("emulator_moved");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glue_of_a_call),
        cmocka_unit_test(test_no_glue),
        cmocka_unit_test(test_glue_of_a_step),
        cmocka_unit_test(test_folded_as_unfolded),
        cmocka_unit_test(test_blocks_alike),
        cmocka_unit_test(test_rounded_as_on_the_cpu),
        cmocka_unit_test(test_low_logsumexp),
        cmocka_unit_test(test_ranges_of_keys),
        cmocka_unit_test(test_ranges_of_low_logsumexps),
        cmocka_unit_test(test_ranges_of_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
