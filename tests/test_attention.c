// Attention of the CPU device against a naive softmax in f64, against finite differences, and against itself on
// other numbers of threads and with its sums reversed. Outputs are poisoned first; key gradients start from known
// values, since they are +=; rows of the cache that no query sees are NaN.
#include "kernels/base/device.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef void forward_fn(struct device *, struct attention_shape, struct tensor o, struct tensor logsumexp,
                        struct tensor q, struct tensor k, struct tensor v);
typedef void backward_fn(struct device *, struct attention_shape, struct tensor grad_q, const struct key_segment *,
                         size_t, struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                         struct tensor k, struct tensor v, struct tensor workspace);
typedef size_t workspace_fn(const struct device *, struct attention_shape, const struct key_segment *, size_t);
forward_fn attention_forward_f32, attention_forward_f64;
backward_fn attention_backward_f32, attention_backward_f64;
workspace_fn attention_backward_workspace_f32, attention_backward_workspace_f64;

enum { MAX_SEGMENTS = 4, UNSEEN_ROWS = 70, CANARY_BYTES = 64 };

struct span {
    size_t start, count;
};

// One attention with its inputs, and room for everything it computes, all in f64 on the host.
struct problem {
    struct attention_shape shape;
    size_t segment_count;
    struct span segments[MAX_SEGMENTS];
    size_t q_count, k_count, lse_count; // of the seen rows
    double *q, *k, *v, *grad_o;
    double *o, *logsumexp, *grad_q, *grad_k,
        *grad_v; // grad_k, grad_v: [start + queries, ..], initial values included
};

static uint64_t random_state = 1;
static double uniform(void)
{ // in (-sqrt 3, sqrt 3): variance 1
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(random_state >> 11) / (double)(1ull << 53) * 2 - 1) * sqrt(3);
}

// What grad_k (which = 0) and grad_v (1) hold before the backward.
static double initial_gradient(int which, size_t i)
{
    return 0.25 * (double)((i * 7 + (size_t)which * 3) % 11) - 1;
}

static double *new_values(size_t count, double scale, enum dtype dtype)
{
    double *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        x[i] = scale * uniform();
        if (dtype == DTYPE_F32)
            x[i] = (float)x[i];
    }
    return x;
}

static struct problem problem_new(struct attention_shape s, const struct span *segments, size_t segment_count,
                                  double q_scale, enum dtype dtype)
{
    struct problem p = {.shape = s, .segment_count = segment_count};
    for (size_t i = 0; i < segment_count; i++)
        p.segments[i] = segments[i];
    p.lse_count = s.queries * s.batch * s.heads;
    p.q_count = p.lse_count * s.head_dim;
    p.k_count = (s.start + s.queries) * s.batch * s.kv_heads * s.head_dim;
    p.q = new_values(p.q_count, q_scale, dtype);
    p.k = new_values(p.k_count, 1, dtype);
    p.v = new_values(p.k_count, 1, dtype);
    p.grad_o = new_values(p.q_count, 1, dtype);
    p.o = calloc(p.q_count + 1, sizeof(double));
    p.grad_q = calloc(p.q_count + 1, sizeof(double));
    p.logsumexp = calloc(p.lse_count + 1, sizeof(double));
    p.grad_k = calloc(p.k_count + 1, sizeof(double));
    p.grad_v = calloc(p.k_count + 1, sizeof(double));
    return p;
}

static void problem_free(struct problem *p)
{
    double *all[] = {p->q, p->k, p->v, p->grad_o, p->o, p->logsumexp, p->grad_q, p->grad_k, p->grad_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// ---- the naive reference: one query at a time, its whole row of probabilities, Jacobian of the softmax

static void reference(struct problem *p)
{
    struct attention_shape s = p->shape;
    size_t D = s.head_dim, keys_total = s.start + s.queries;
    double scale = 1 / sqrt((double)D);
    double *prob = malloc(keys_total * sizeof *prob), *grad_prob = malloc(keys_total * sizeof *grad_prob);
    memset(p->o, 0, p->q_count * sizeof(double));
    memset(p->grad_q, 0, p->q_count * sizeof(double));
    memset(p->grad_k, 0, p->k_count * sizeof(double));
    memset(p->grad_v, 0, p->k_count * sizeof(double));
    for (size_t t = 0; t < s.queries; t++)
        for (size_t b = 0; b < s.batch; b++)
            for (size_t h = 0; h < s.heads; h++) {
                size_t head = (t * s.batch + b) * s.heads + h, g = h / (s.heads / s.kv_heads);
                size_t keys = s.start + t + 1;
                double top = -INFINITY, sum = 0, mean = 0;
                for (size_t j = 0; j < keys; j++) {
                    size_t row = ((j * s.batch + b) * s.kv_heads + g) * D;
                    prob[j] = grad_prob[j] = 0;
                    for (size_t d = 0; d < D; d++) {
                        prob[j] += p->q[head * D + d] * p->k[row + d] * scale;
                        grad_prob[j] += p->grad_o[head * D + d] * p->v[row + d];
                    }
                    top = fmax(top, prob[j]);
                }
                for (size_t j = 0; j < keys; j++)
                    sum += prob[j] = exp(prob[j] - top);
                for (size_t j = 0; j < keys; j++) {
                    prob[j] /= sum;
                    mean += prob[j] * grad_prob[j];
                }
                p->logsumexp[head] = top + log(sum);
                for (size_t j = 0; j < keys; j++) {
                    size_t row = ((j * s.batch + b) * s.kv_heads + g) * D;
                    double grad_score = prob[j] * (grad_prob[j] - mean) * scale;
                    for (size_t d = 0; d < D; d++) {
                        p->o[head * D + d] += prob[j] * p->v[row + d];
                        p->grad_q[head * D + d] += grad_score * p->k[row + d];
                        p->grad_k[row + d] += grad_score * p->q[head * D + d];
                        p->grad_v[row + d] += prob[j] * p->grad_o[head * D + d];
                    }
                }
            }
    for (size_t i = 0; i < p->k_count; i++) {
        p->grad_k[i] += initial_gradient(0, i);
        p->grad_v[i] += initial_gradient(1, i);
    }
    free(prob);
    free(grad_prob);
}

// ---- the device's attention on the same problem

struct options {
    enum dtype dtype;
    bool reverse, in_place;
};

static struct tensor to_tensor(const double *x, size_t rows, size_t cols, size_t unseen_rows, enum dtype dtype)
{
    size_t total = (rows + unseen_rows) * cols, size = dtype == DTYPE_F32 ? sizeof(float) : sizeof(double);
    struct tensor t = {.data = malloc(total * size + 1), .dtype = dtype, .rows = rows + unseen_rows, .cols = cols};
    for (size_t i = 0; i < total; i++) {
        double value = x && i < rows * cols ? x[i] : NAN;
        if (dtype == DTYPE_F32)
            ((float *)t.data)[i] = (float)value;
        else
            ((double *)t.data)[i] = value;
    }
    return t;
}

static void from_tensor(double *x, struct tensor t)
{
    for (size_t i = 0; i < t.rows * t.cols; i++)
        x[i] = t.dtype == DTYPE_F32 ? (double)((float *)t.data)[i] : ((double *)t.data)[i];
}

// Computes o, logsumexp and the gradients of p. Keys in no segment keep their initial gradient.
static void attention(struct problem *p, struct options options)
{
    bool f32 = options.dtype == DTYPE_F32;
    struct attention_shape s = p->shape;
    struct device *device = calloc(1, sizeof *device);
    device->reverse_sums = options.reverse;
    size_t rows = s.queries * s.batch, keys = (s.start + s.queries) * s.batch, unseen = UNSEEN_ROWS * s.batch;
    size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
    struct tensor q = to_tensor(p->q, rows, q_cols, 0, options.dtype);
    struct tensor k = to_tensor(p->k, keys, k_cols, unseen, options.dtype);
    struct tensor v = to_tensor(p->v, keys, k_cols, unseen, options.dtype);
    struct tensor grad_o = to_tensor(p->grad_o, rows, q_cols, 0, options.dtype);
    struct tensor o = to_tensor(NULL, rows, q_cols, 0, options.dtype);
    struct tensor logsumexp = to_tensor(NULL, rows, s.heads, 0, options.dtype);
    struct tensor grad_q = options.in_place ? grad_o : to_tensor(NULL, rows, q_cols, 0, options.dtype);

    for (size_t i = 0; i < p->k_count; i++) {
        p->grad_k[i] = initial_gradient(0, i);
        p->grad_v[i] = initial_gradient(1, i);
    }
    struct key_segment segments[MAX_SEGMENTS];
    for (size_t i = 0; i < p->segment_count; i++) {
        struct span span = p->segments[i];
        size_t begin = span.start * s.batch * k_cols;
        segments[i] = (struct key_segment){
            span.start, span.count, to_tensor(p->grad_k + begin, span.count * s.batch, k_cols, 0, options.dtype),
            to_tensor(p->grad_v + begin, span.count * s.batch, k_cols, 0, options.dtype)};
    }
    size_t bytes = (f32 ? attention_backward_workspace_f32 : attention_backward_workspace_f64)(NULL, s, segments,
                                                                                               p->segment_count);
    struct tensor workspace = {
        .data = aligned_alloc(256, (bytes + CANARY_BYTES + 255) / 256 * 256), .rows = 1, .cols = bytes};
    memset(workspace.data, 0xff, bytes + CANARY_BYTES); // NaN in both dtypes

    (f32 ? attention_forward_f32 : attention_forward_f64)(device, s, o, logsumexp, q, k, v);
    (f32 ? attention_backward_f32 : attention_backward_f64)(device, s, grad_q, segments, p->segment_count, grad_o,
                                                            o, logsumexp, q, k, v, workspace);
    for (size_t i = 0; i < CANARY_BYTES; i++)
        assert_int_equal(((unsigned char *)workspace.data)[bytes + i], 0xff);
    from_tensor(p->o, o);
    from_tensor(p->logsumexp, logsumexp);
    from_tensor(p->grad_q, grad_q);
    for (size_t i = 0; i < p->segment_count; i++) {
        size_t begin = p->segments[i].start * s.batch * k_cols;
        from_tensor(p->grad_k + begin, segments[i].grad_k);
        from_tensor(p->grad_v + begin, segments[i].grad_v);
        free(segments[i].grad_k.data);
        free(segments[i].grad_v.data);
    }
    void *all[] = {q.data,         k.data, v.data,
                   grad_o.data,    o.data, logsumexp.data,
                   workspace.data, device, options.in_place ? NULL : grad_q.data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// Outside the segments the reference's key gradients are the initial ones.
static void restrict_to_segments(struct problem *p)
{
    size_t cols = p->shape.batch * p->shape.kv_heads * p->shape.head_dim;
    for (size_t key = 0; key < p->shape.start + p->shape.queries; key++) {
        bool inside = false;
        for (size_t i = 0; i < p->segment_count; i++)
            inside |= key >= p->segments[i].start && key < p->segments[i].start + p->segments[i].count;
        for (size_t i = key * cols; !inside && i < (key + 1) * cols; i++) {
            p->grad_k[i] = initial_gradient(0, i);
            p->grad_v[i] = initial_gradient(1, i);
        }
    }
}

static double epsilon_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? ldexp(1, -24) : ldexp(1, -53);
}

// Relative to the reference's norm; a gradient that vanishes, as of a query with one key, counts as 1/10 of the
// inputs' size.
static double relative_l2(const double *x, const double *reference, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (x[i] - reference[i]) * (x[i] - reference[i]);
        norm += reference[i] * reference[i];
    }
    return sqrt(difference / fmax(norm, 1e-2 * (double)count));
}

static void assert_near(const struct problem *p, const char *what, const double *x, const double *reference,
                        size_t count, double tolerance)
{
    double error = relative_l2(x, reference, count);
    if (!(error <= tolerance)) {
        struct attention_shape s = p->shape;
        fail_msg("%s: relative L2 error %.3g > %.3g at queries %zu start %zu batch %zu heads %zu kv_heads %zu "
                 "head_dim %zu segments %zu",
                 what, error, tolerance, s.queries, s.start, s.batch, s.heads, s.kv_heads, s.head_dim,
                 p->segment_count);
    }
}

static void assert_all_near(const struct problem *got, const struct problem *wanted, double tolerance)
{
    assert_near(got, "o", got->o, wanted->o, got->q_count, tolerance);
    assert_near(got, "logsumexp", got->logsumexp, wanted->logsumexp, got->lse_count, tolerance);
    assert_near(got, "grad_q", got->grad_q, wanted->grad_q, got->q_count, tolerance);
    assert_near(got, "grad_k", got->grad_k, wanted->grad_k, got->k_count, tolerance);
    assert_near(got, "grad_v", got->grad_v, wanted->grad_v, got->k_count, tolerance);
}

// ---- tests

static const struct {
    struct attention_shape shape; // queries, start, batch, heads, kv_heads, head_dim
    size_t segment_count;         // 0: one over all keys
    struct span segments[MAX_SEGMENTS];
} cases[] = {
    {{1, 0, 1, 1, 1, 2}, 0, {{0}}},
    {{1, 0, 3, 4, 2, 16}, 0, {{0}}},
    {{1, 300, 1, 8, 1, 64}, 0, {{0}}}, // one query against a prefix
    {{64, 0, 1, 2, 2, 64}, 0, {{0}}},  // one tile
    {{65, 0, 1, 2, 1, 64}, 0, {{0}}},  // and one key more
    {{256, 0, 1, 1, 1, 64}, 0, {{0}}}, // several tiles
    {{257, 0, 1, 4, 4, 16}, 0, {{0}}},
    {{300, 0, 3, 4, 2, 80}, 0, {{0}}},   // head_dim that is no power of 2
    {{130, 77, 1, 6, 2, 128}, 0, {{0}}}, // groups of 3 heads
    {{100, 28, 3, 8, 1, 32}, 0, {{0}}},  // all heads on one key head
    {{40, 200, 2, 71, 1, 2}, 0, {{0}}},  // rows of a token cross query blocks
    {{70, 31, 1, 2, 2, 256}, 0, {{0}}},
    {{9, 5, 19, 4, 2, 6}, 0, {{0}}},            // more pairs than run at a time
    {{200, 100, 1, 4, 2, 64}, 1, {{100, 200}}}, // no gradient for the prefix
    {{200, 100, 3, 4, 2, 16}, 2, {{0, 17}, {129, 66}}},
    {{150, 333, 1, 4, 4, 80}, 4, {{3, 1}, {63, 2}, {65, 63}, {333, 150}}},
    {{128, 128, 1, 2, 1, 128}, 3, {{5, 50}, {60, 70}, {200, 56}}}, // two in one tile
    {{50, 100, 1, 2, 2, 64}, 1, {{130, 0}}},                       // an empty segment
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

static struct problem case_problem(size_t i, double q_scale, enum dtype dtype)
{
    random_state = i + 1;
    struct span all = {0, cases[i].shape.start + cases[i].shape.queries};
    bool one = cases[i].segment_count == 0;
    return problem_new(cases[i].shape, one ? &all : cases[i].segments, one ? 1 : cases[i].segment_count, q_scale,
                       dtype);
}

// Growth 32: exp costs 4 units in the last place, a score or a sum over keys a few more, and a gradient of the
// scores is a difference of two such sums.
static void test_reference(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F64; dtype <= DTYPE_F32; dtype++)
        for (size_t i = 0; i < CASE_COUNT; i++) {
            struct problem got = case_problem(i, 1, dtype), wanted = case_problem(i, 1, dtype);
            reference(&wanted);
            restrict_to_segments(&wanted);
            for (int flags = 0; flags < 4; flags++) {
                attention(&got, (struct options){dtype, .reverse = flags & 1, .in_place = flags & 2});
                assert_all_near(&got, &wanted, 32 * epsilon_of(dtype));
            }
            problem_free(&got);
            problem_free(&wanted);
        }
}

// Scores up to about 1e4: their own rounding, an absolute error of epsilon * 1e4, is a relative one of P.
static void test_extreme_scores(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F64; dtype <= DTYPE_F32; dtype++)
        for (size_t i = 0; i < CASE_COUNT; i++) {
            struct problem got = case_problem(i, 3e3, dtype), wanted = case_problem(i, 3e3, dtype);
            reference(&wanted);
            restrict_to_segments(&wanted);
            attention(&got, (struct options){.dtype = dtype});
            assert_all_near(&got, &wanted, 1e5 * epsilon_of(dtype));
            problem_free(&got);
            problem_free(&wanted);
        }
}

// Equal scores spread the weight evenly: o is the mean of v, logsumexp the logarithm of the number of keys.
static void test_equal_scores(void **state)
{
    (void)state;
    struct span all = {0, 200};
    struct problem p = problem_new((struct attention_shape){200, 0, 1, 1, 1, 16}, &all, 1, 0, DTYPE_F64);
    attention(&p, (struct options){.dtype = DTYPE_F64});
    double sum = 0;
    for (size_t t = 0; t < 200; t++) {
        sum += p.v[t * 16];
        assert_true(fabs(p.logsumexp[t] - log((double)t + 1)) < 1e-14);
        assert_true(fabs(p.o[t * 16] - sum / ((double)t + 1)) < 1e-14);
    }
    problem_free(&p);
}

// loss = sum(o * grad_o): along a random direction of q, k and v its central difference is the gradient's product
// with the direction. The step leaves an error of about step^2.
static void test_finite_differences(void **state)
{
    (void)state;
    const double step = 1e-5;
    struct attention_shape shapes[] = {{70, 0, 2, 2, 1, 8}, {33, 70, 1, 4, 2, 16}};
    for (size_t n = 0; n < 2; n++) {
        struct span all = {0, shapes[n].start + shapes[n].queries};
        struct problem p = problem_new(shapes[n], &all, 1, 1, DTYPE_F64);
        struct options f64 = {.dtype = DTYPE_F64};
        for (int which = 0; which < 3; which++) {
            double *x = which == 0 ? p.q : which == 1 ? p.k : p.v;
            size_t count = which == 0 ? p.q_count : p.k_count;
            double *direction = new_values(count, 1, DTYPE_F64), slope = 0, product = 0;
            for (int side = 1; side >= -1; side -= 2) {
                for (size_t i = 0; i < count; i++)
                    x[i] += side * step * direction[i];
                attention(&p, f64);
                for (size_t i = 0; i < p.q_count; i++)
                    slope += side * p.o[i] * p.grad_o[i] / (2 * step);
                for (size_t i = 0; i < count; i++)
                    x[i] -= side * step * direction[i];
            }
            attention(&p, f64);
            for (size_t i = 0; i < count; i++)
                product += direction[i] * (which == 0   ? p.grad_q[i]
                                           : which == 1 ? p.grad_k[i] - initial_gradient(0, i)
                                                        : p.grad_v[i] - initial_gradient(1, i));
            assert_true(fabs(slope - product) < 1e-6 * fmax(fabs(product), 1));
            free(direction);
        }
        problem_free(&p);
    }
}

static bool same_bits(const struct problem *a, const struct problem *b)
{
    return !memcmp(a->o, b->o, a->q_count * sizeof(double)) &&
           !memcmp(a->logsumexp, b->logsumexp, a->lse_count * sizeof(double)) &&
           !memcmp(a->grad_q, b->grad_q, a->q_count * sizeof(double)) &&
           !memcmp(a->grad_k, b->grad_k, a->k_count * sizeof(double)) &&
           !memcmp(a->grad_v, b->grad_v, a->k_count * sizeof(double));
}

static void test_threads(void **state)
{
    (void)state;
    const int threads[] = {1, 2, 3, 5};
    int usual = omp_get_max_threads();
    for (int dtype = DTYPE_F64; dtype <= DTYPE_F32; dtype++)
        for (size_t i = 0; i < CASE_COUNT; i++) {
            struct problem one = case_problem(i, 1, dtype), more = case_problem(i, 1, dtype);
            for (size_t n = 0; n < 4; n++) {
                omp_set_num_threads(threads[n]);
                attention(n ? &more : &one, (struct options){dtype, .in_place = n % 2});
                assert_true(n == 0 || same_bits(&one, &more));
            }
            problem_free(&one);
            problem_free(&more);
        }
    omp_set_num_threads(usual);
}

// The gradient of a key does not depend on which other keys take gradients, to the bit.
static void test_segments_do_not_change_bits(void **state)
{
    (void)state;
    struct attention_shape shape = {200, 90, 1, 4, 2, 64};
    struct span all = {0, 290}, some[] = {{10, 33}, {70, 100}};
    random_state = 5;
    struct problem one = problem_new(shape, &all, 1, 1, DTYPE_F32);
    random_state = 5;
    struct problem two = problem_new(shape, some, 2, 1, DTYPE_F32);
    attention(&one, (struct options){.dtype = DTYPE_F32});
    attention(&two, (struct options){.dtype = DTYPE_F32});
    one.segment_count = 2;
    memcpy(one.segments, some, sizeof some);
    restrict_to_segments(&one);
    assert_true(same_bits(&one, &two));
    problem_free(&one);
    problem_free(&two);
}

// Reversed sums are the same sums with other rounding errors.
static void test_reverse_sums(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F64; dtype <= DTYPE_F32; dtype++)
        for (size_t i = 3; i < CASE_COUNT; i++) {
            struct problem up = case_problem(i, 1, dtype), down = case_problem(i, 1, dtype);
            attention(&up, (struct options){dtype, .reverse = false});
            attention(&down, (struct options){dtype, .reverse = true});
            assert_all_near(&down, &up, 32 * epsilon_of(dtype));
            assert_memory_not_equal(up.o, down.o, up.q_count * sizeof(double));
            assert_memory_not_equal(up.grad_q, down.grad_q, up.q_count * sizeof(double));
            problem_free(&up);
            problem_free(&down);
        }
}

static void test_workspace(void **state)
{
    (void)state;
    const struct attention_shape shapes[] = {
        {512, 0, 1, 32, 8, 128}, {512, 0, 4, 64, 64, 256}, {512, 0, 1, 8, 1, 64}};
    for (size_t i = 0; i < 3; i++) {
        struct attention_shape longer = shapes[i];
        longer.start = 1000000, longer.queries = 65536;
        size_t bytes = attention_backward_workspace_f32(NULL, shapes[i], NULL, 0);
        assert_true(bytes > 0 && bytes <= (size_t)8 << 20);
        assert_int_equal(bytes, attention_backward_workspace_f32(NULL, longer, NULL, 0));
        assert_true(attention_backward_workspace_f64(NULL, longer, NULL, 0) <= (size_t)8 << 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),    cmocka_unit_test(test_extreme_scores),
        cmocka_unit_test(test_equal_scores), cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_segments_do_not_change_bits),
        cmocka_unit_test(test_reverse_sums), cmocka_unit_test(test_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
