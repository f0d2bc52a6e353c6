// Every operation of the CPU device except attention (test_attention.c), in f32 and f64, against its formula in
// device.h written plainly in f64. Outputs are poisoned first; += operands start from known values.
// Tolerance: the dtype's epsilon times the length of the longest sum times a growth factor of 8.
#include "harness/run/environment.h"
#include "kernels/base/ops.h"
#include "kernels/base/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64};

// A tensor on the device beside its values in f64, rounded as the device holds them.
struct pair {
    struct tensor t;
    double *v;
    size_t rows, cols;
};

static struct device *device;

static double *values(size_t rows, size_t cols, const char *name)
{
    struct random random = random_named(rows * 1000 + cols, name);
    double *v = malloc((rows * cols + 1) * sizeof *v);
    for (size_t i = 0; i < rows * cols; i++) {
        v[i] = dtype_round(random_normal(&random, i), DTYPE_F32);
    }
    return v;
}

static struct pair pair_new(size_t rows, size_t cols, const char *name)
{
    struct pair p = {.v = values(rows, cols, name), .rows = rows, .cols = cols};
    p.t = tensor_new(device, rows, cols, device->ops->dtype, CATEGORY_WORKSPACE);
    tensor_write(device, p.t, p.v);
    return p;
}

static struct pair poisoned(size_t rows, size_t cols)
{
    struct pair p = pair_new(rows, cols, "poison");
    for (size_t i = 0; i < rows * cols; i++) {
        p.v[i] = NAN;
    }
    tensor_write(device, p.t, p.v);
    return p;
}

static void pair_free(struct pair *p)
{
    tensor_free(device, &p->t);
    free(p->v);
}

static void test_random_normal(void **state)
{
    (void)state;
    static const enum dtype roundings[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    const struct random random = random_named(3, "model.norm.weight");
    for (size_t r = 0; r < 3; r++) {
        for (size_t count = 1; count < 9000; count = 3 * count + 2) {
            struct pair p = poisoned(1, count);
            op_random_normal(device, p.t, random, 1, 0.1, roundings[r]);
            tensor_read(device, p.t, p.v);
            for (size_t i = 0; i < count; i++) {
                double value = dtype_round(fma(0.1, random_normal(&random, i), 1), roundings[r]);
                assert_true(p.v[i] == dtype_round(value, device->ops->dtype));
            }
            pair_free(&p);
        }
    }
}

static struct tensor integers(size_t count, int32_t bound, int32_t first, int32_t *host)
{
    struct random random = random_named(count, "integers");
    for (size_t i = 0; i < count; i++) {
        host[i] = first + (int32_t)random_below(&random, i, bound - first);
    }
    struct tensor t = tensor_new(device, count, 1, DTYPE_I32, CATEGORY_DATA);
    op_upload(device, t, host);
    return t;
}

// p.v holds what the formula gives; the device's values must be near, relative to the largest of them.
static void check_near(const struct pair *p, size_t sum_length, const char *what)
{
    double *found = malloc((p->rows * p->cols + 1) * sizeof *found), largest = 1;
    tensor_read(device, p->t, found);
    for (size_t i = 0; i < p->rows * p->cols; i++) {
        largest = fmax(largest, fabs(p->v[i]));
    }
    double tolerance = 8 * dtype_epsilon(device->ops->dtype) * (sum_length + 1) * largest;
    for (size_t i = 0; i < p->rows * p->cols; i++) {
        if (!(fabs(found[i] - p->v[i]) <= tolerance)) {
            fail_msg("%s, %s, [%zu, %zu]: element %zu is %.9g, expected %.9g", what, dtype_name(device->ops->dtype),
                     p->rows, p->cols, i, found[i], p->v[i]);
        }
    }
    free(found);
}

static void test_gemm(void **state)
{
    (void)state;
    const size_t shapes[][3] = {{1, 1, 1},      {3, 5, 7},      {64, 33, 129},
                                {300, 260, 70}, {1030, 790, 5}, {17, 400, 600}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int variant = 0; variant < 12; variant++) {
            size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            bool ta = variant & 1, tb = variant & 2;
            double alpha = variant < 4 ? 1 : 0.5, beta = variant < 8 ? 0 : 1;
            device->reverse_sums = variant == 5 || variant == 10;
            struct pair a = ta ? pair_new(k, m, "a") : pair_new(m, k, "a");
            struct pair b = tb ? pair_new(n, k, "b") : pair_new(k, n, "b");
            struct pair c = beta == 0 ? poisoned(m, n) : pair_new(m, n, "c");
            for (size_t i = 0; i < m; i++) {
                for (size_t j = 0; j < n; j++) {
                    double sum = 0;
                    for (size_t l = 0; l < k; l++) {
                        sum += a.v[ta ? l * m + i : i * k + l] * b.v[tb ? j * k + l : l * n + j];
                    }
                    c.v[i * n + j] = alpha * sum + (beta == 0 ? 0 : beta * c.v[i * n + j]);
                }
            }
            op_gemm(device, c.t, a.t, ta, b.t, tb, alpha, beta);
            check_near(&c, k, "gemm");
            pair_free(&a);
            pair_free(&b);
            pair_free(&c);
        }
    }
    device->reverse_sums = false;
}

static void test_bias(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {3, 65}, {500, 70}};
    for (size_t s = 0; s < 3; s++) {
        size_t n = shapes[s][0], d = shapes[s][1];
        struct pair y = pair_new(n, d, "y"), bias = pair_new(1, d, "bias"), grad = pair_new(1, d, "grad");
        for (size_t i = 0; i < n * d; i++) {
            grad.v[i % d] += y.v[i];
        }
        op_bias_backward(device, grad.t, y.t);
        check_near(&grad, n, "bias_backward");
        for (size_t i = 0; i < n * d; i++) {
            y.v[i] += bias.v[i % d];
        }
        op_bias_forward(device, y.t, bias.t);
        check_near(&y, 1, "bias_forward");
        pair_free(&y);
        pair_free(&bias);
        pair_free(&grad);
    }
}

static void test_rmsnorm(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{1, 2}, {5, 64}, {300, 130}};
    const double epsilon = 1e-5;
    for (int variant = 0; variant < 12; variant++) {
        size_t n = shapes[variant % 3][0], d = shapes[variant % 3][1];
        int alias = variant / 3; // 0: separate, 1: grad_x is grad_y, 2: grad_x is x, 3: accumulate, no grad_gain
        struct pair x = pair_new(n, d, "x"), gain = pair_new(1, d, "gain"), grad_y = pair_new(n, d, "grad_y");
        struct pair y = poisoned(n, d), rstd = poisoned(n, 1), grad_gain = pair_new(1, d, "grad_gain");
        struct pair grad_x = alias == 3 ? pair_new(n, d, "grad_x") : poisoned(n, d);
        for (size_t r = 0; r < n; r++) {
            double sum = 0, dot = 0;
            for (size_t j = 0; j < d; j++) {
                sum += x.v[r * d + j] * x.v[r * d + j];
                dot += grad_y.v[r * d + j] * gain.v[j] * x.v[r * d + j];
            }
            double scale = rstd.v[r] = 1 / sqrt(sum / d + epsilon);
            for (size_t j = 0; j < d; j++) {
                size_t i = r * d + j;
                y.v[i] = x.v[i] * scale * gain.v[j];
                double g = scale * (grad_y.v[i] * gain.v[j] - x.v[i] * scale * scale * dot / d);
                grad_x.v[i] = alias == 3 ? grad_x.v[i] + g : g;
                grad_gain.v[j] += alias == 3 ? 0 : grad_y.v[i] * x.v[i] * scale;
            }
        }
        op_rmsnorm_forward(device, y.t, rstd.t, x.t, gain.t, epsilon);
        check_near(&y, 8, "rmsnorm_forward");
        check_near(&rstd, 8, "rmsnorm_forward's rstd");
        struct tensor out = alias == 1 ? grad_y.t : alias == 2 ? x.t : grad_x.t;
        op_rmsnorm_backward(device, out, alias == 3, alias == 3 ? (struct tensor){0} : grad_gain.t, grad_y.t, x.t,
                            gain.t, rstd.t);
        struct pair result = {out, grad_x.v, n, d};
        check_near(&result, 32, "rmsnorm_backward");
        check_near(&grad_gain, n, "rmsnorm_backward's grad_gain");
        if (alias == 0) {
            op_rmsnorm_forward(device, x.t, (struct tensor){0}, x.t, gain.t, epsilon); // in place
            struct pair in_place = {x.t, y.v, n, d};
            check_near(&in_place, 8, "rmsnorm_forward in place");
        }
        struct pair *all[] = {&x, &gain, &grad_y, &y, &rstd, &grad_gain, &grad_x};
        for (size_t i = 0; i < 7; i++) {
            pair_free(all[i]);
        }
    }
}

static void test_rope(void **state)
{
    (void)state;
    const size_t starts[] = {0, 1, 63, 64, 1000, 1000000};
    for (size_t s = 0; s < 6; s++) {
        for (size_t half = 1; half <= 300; half = half * 5 + 1) {
            size_t start = starts[s], tokens = 70, batch = 2, heads = 3, n = tokens * batch, d = heads * 2 * half;
            double *frequency = malloc(half * sizeof *frequency);
            for (size_t j = 0; j < half; j++) {
                frequency[j] = pow(10000, -(double)j / half);
            }
            struct tensor frequencies = tensor_new(device, 1, half, DTYPE_F64, CATEGORY_WORKSPACE);
            tensor_write(device, frequencies, frequency);
            struct pair x = pair_new(n, d, "x");
            double *before = malloc(n * d * sizeof *before);
            memcpy(before, x.v, n * d * sizeof *before);
            for (size_t r = 0; r < n; r++) {
                for (size_t i = 0; i < heads * half; i++) {
                    double *low = &x.v[r * d + i / half * 2 * half + i % half], *high = low + half, a = *low,
                           b = *high;
                    long double angle = (long double)(start + r / batch) * frequency[i % half];
                    *low = (double)(a * cosl(angle) - b * sinl(angle));
                    *high = (double)(b * cosl(angle) + a * sinl(angle));
                }
            }
            op_rope(device, x.t, frequencies, start, batch, 1);
            check_near(&x, 64, "rope"); // at any position
            memcpy(x.v, before, n * d * sizeof *before);
            op_rope(device, x.t, frequencies, start, batch, -1);
            check_near(&x, 64, "rope back");
            pair_free(&x);
            tensor_free(device, &frequencies);
            free(before);
            free(frequency);
        }
    }
}

static void test_swiglu(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {3, 7}, {40, 1030}};
    for (size_t s = 0; s < 3; s++) {
        size_t n = shapes[s][0], f = shapes[s][1];
        struct pair gate = pair_new(n, f, "gate"), up = pair_new(n, f, "up"), grad = pair_new(n, f, "grad");
        gate.v[0] = 100, gate.v[n * f - 1] = -100; // saturated, no NaN
        tensor_write(device, gate.t, gate.v);
        struct pair y = poisoned(n, f);
        for (size_t i = 0; i < n * f; i++) {
            y.v[i] = gate.v[i] / (1 + exp(-gate.v[i])) * up.v[i];
        }
        op_swiglu_forward(device, y.t, gate.t, up.t);
        check_near(&y, 4, "swiglu_forward");
        for (size_t i = 0; i < n * f; i++) {
            double g = gate.v[i], u = up.v[i], sigma = 1 / (1 + exp(-g));
            gate.v[i] = grad.v[i] * u * sigma * (1 + g * (1 - sigma));
            up.v[i] = grad.v[i] * g * sigma;
            grad.v[i] = y.v[i];
        }
        op_swiglu_backward(device, gate.t, up.t, grad.t);
        check_near(&gate, 4, "swiglu_backward's gate");
        check_near(&up, 4, "swiglu_backward's up");
        check_near(&grad, 4, "swiglu_backward's product");
        pair_free(&gate);
        pair_free(&up);
        pair_free(&grad);
        pair_free(&y);
    }
}

static void test_embedding(void **state)
{
    (void)state;
    const size_t shapes[][3] = {{1, 1, 1}, {9, 4, 70}, {700, 30, 65}}; // rows, vocab, width
    for (size_t s = 0; s < 3; s++) {
        size_t n = shapes[s][0], vocab = shapes[s][1], d = shapes[s][2];
        int32_t *id = malloc(n * sizeof *id);
        struct tensor ids = integers(n, (int32_t)vocab, 0, id);
        struct pair table = pair_new(vocab, d, "table"), y = poisoned(n, d), grad = pair_new(n, d, "grad");
        for (size_t i = 0; i < n * d; i++) {
            y.v[i] = table.v[id[i / d] * d + i % d];
        }
        op_embedding_forward(device, y.t, table.t, ids);
        check_near(&y, 0, "embedding_forward");
        for (size_t i = 0; i < n * d; i++) {
            table.v[id[i / d] * d + i % d] += grad.v[i];
        }
        op_embedding_backward(device, table.t, grad.t, ids);
        check_near(&table, n, "embedding_backward");
        pair_free(&table);
        pair_free(&y);
        pair_free(&grad);
        tensor_free(device, &ids);
        free(id);
    }
}

static void test_cross_entropy(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {5, 33}, {600, 257}};
    for (size_t s = 0; s < 3; s++) {
        size_t n = shapes[s][0], vocab = shapes[s][1];
        int32_t *target = malloc(n * sizeof *target);
        struct tensor targets = integers(n, (int32_t)vocab, -1, target); // some rows without a target
        struct pair logits = pair_new(n, vocab, "logits");
        for (size_t i = 0; i < n * vocab; i += 13) {
            logits.v[i] *= 100; // far beyond what exp holds in f32, if the maximum were not taken off
        }
        tensor_write(device, logits.t, logits.v);
        struct tensor loss = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
        double expected = 2.5, found, loss_weight = 0.25, grad_weight = 3;
        tensor_write(device, loss, &expected);
        for (size_t r = 0; r < n; r++) {
            double *row = logits.v + r * vocab, largest = -INFINITY, sum = 0;
            for (size_t j = 0; j < vocab; j++) {
                largest = fmax(largest, row[j]);
            }
            for (size_t j = 0; j < vocab; j++) {
                sum += exp(row[j] - largest);
            }
            if (target[r] >= 0) {
                expected += loss_weight * (largest + log(sum) - row[target[r]]);
            }
            for (size_t j = 0; j < vocab; j++) {
                double softmax = exp(row[j] - largest) / sum;
                row[j] = target[r] < 0 ? 0 : grad_weight * (softmax - ((int32_t)j == target[r]));
            }
        }
        op_cross_entropy(device, logits.t, targets, loss, loss_weight, grad_weight);
        check_near(&logits, 64, "cross_entropy");
        tensor_read(device, loss, &found);
        assert_true(fabs(found - expected) <= 64 * dtype_epsilon(device->ops->dtype) * expected);
        pair_free(&logits);
        tensor_free(device, &targets);
        tensor_free(device, &loss);
        free(target);
    }
}

// In every row objective, with weights and without.
static void check_objective(size_t n, size_t vocab, enum row_objective objective, bool weighted)
{
    enum dtype statistic = dtype_statistic(device->ops->dtype);
    int32_t *target = malloc(n * sizeof *target);
    struct tensor targets = integers(n, (int32_t)vocab, -1, target); // some rows without a target
    struct pair logits = pair_new(n, vocab, "logits"), weights = pair_new(n, 1, "weights");
    struct pair logsumexp = poisoned(n, 1), log_prob = poisoned(n, 1), grad = poisoned(n, 1);
    assert_int_equal(statistic, device->ops->dtype); // the pairs serve as statistics
    for (size_t i = 0; i < n * vocab; i += 13) {
        logits.v[i] *= 100; // far beyond what exp holds in f32, if the maximum were not taken off
    }
    tensor_write(device, logits.t, logits.v);
    struct tensor loss = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
    double expected = 2.5, found, loss_weight = 0.25, grad_weight = 3, magnitude = expected;
    tensor_write(device, loss, &expected);
    for (size_t r = 0; r < n; r++) {
        double *row = logits.v + r * vocab, largest = -INFINITY, sum = 0, w = weighted ? weights.v[r] : 1;
        for (size_t j = 0; j < vocab; j++) {
            largest = fmax(largest, row[j]);
        }
        for (size_t j = 0; j < vocab; j++) {
            sum += exp(row[j] - largest);
        }
        bool none = target[r] < 0;
        double l = none ? 0 : row[target[r]] - largest - log(sum), p = objective == ROW_DFT ? exp(l) : 1;
        logsumexp.v[r] = none ? 0 : largest + log(sum);
        log_prob.v[r] = l;
        grad.v[r] = none ? 0 : -grad_weight * w * p;
        expected -= none ? 0 : loss_weight * w * p * l;
        magnitude += none ? 0 : fabs(loss_weight * w * p * l);
        for (size_t j = 0; j < vocab; j++) {
            row[j] = none ? 0 : grad.v[r] * (((int32_t)j == target[r]) - exp(row[j] - largest) / sum);
        }
    }
    op_log_prob(device, log_prob.t, logsumexp.t, logits.t, targets);
    check_near(&logsumexp, 1, "log_prob's logsumexp");
    check_near(&log_prob, 1, "log_prob");
    op_objective_rows(device, objective, grad.t, loss, log_prob.t, weighted ? weights.t : tensor_none(), targets,
                      loss_weight, grad_weight);
    check_near(&grad, 64, "objective_rows");
    op_log_prob_backward(device, logits.t, logsumexp.t, targets, grad.t);
    check_near(&logits, 512, "log_prob_backward"); // exp(x - logsumexp) has as many epsilon as logsumexp is large
    tensor_read(device, loss, &found);
    assert_true(fabs(found - expected) <= 64 * dtype_epsilon(device->ops->dtype) * magnitude);
    struct pair *pairs[] = {&logits, &weights, &logsumexp, &log_prob, &grad};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        pair_free(pairs[i]);
    }
    tensor_free(device, &targets);
    tensor_free(device, &loss);
    free(target);
}

static void test_objective(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {5, 33}, {600, 257}};
    for (size_t s = 0; s < 3; s++) {
        for (int objective = ROW_LIKELIHOOD; objective <= ROW_DFT; objective++) {
            check_objective(shapes[s][0], shapes[s][1], (enum row_objective)objective, false);
            check_objective(shapes[s][0], shapes[s][1], (enum row_objective)objective, true);
        }
    }
}

static void test_updates(void **state)
{
    (void)state;
    size_t n = 37, d = 501;
    struct pair w = pair_new(n, d, "w"), g = pair_new(n, d, "g"), m = pair_new(n, d, "m"), v = pair_new(n, d, "v");
    for (size_t i = 0; i < n * d; i++) {
        v.v[i] = fabs(v.v[i]);
    }
    tensor_write(device, v.t, v.v);
    double rate = 0.01, b1 = 0.9, b2 = 0.999, epsilon = 1e-8, decay = 0.1;
    for (size_t i = 0; i < n * d; i++) {
        m.v[i] = b1 * m.v[i] + (1 - b1) * g.v[i];
        v.v[i] = b2 * v.v[i] + (1 - b2) * g.v[i] * g.v[i];
        double unbiased = m.v[i] / (1 - pow(b1, 3)) / (sqrt(v.v[i] / (1 - pow(b2, 3))) + epsilon);
        w.v[i] -= rate * (unbiased + decay * w.v[i]);
    }
    op_adamw(device, w.t, g.t, m.t, v.t, rate, b1, b2, epsilon, decay, 3);
    check_near(&w, 16, "adamw");
    check_near(&m, 4, "adamw's first moment");
    check_near(&v, 4, "adamw's second moment");
    for (size_t i = 0; i < n * d; i++) {
        g.v[i] *= -2.5;
    }
    op_scale(device, g.t, -2.5);
    check_near(&g, 1, "scale");
    op_copy(device, w.t, g.t);
    memcpy(w.v, g.v, n * d * sizeof *w.v);
    check_near(&w, 1, "copy");
    op_zero(device, w.t);
    memset(w.v, 0, n * d * sizeof *w.v);
    check_near(&w, 0, "zero");
    pair_free(&w);
    pair_free(&g);
    pair_free(&m);
    pair_free(&v);
}

// FLOPs of GEMM and of attention, causal pairs counted one by one.
static void test_counters(void **state)
{
    (void)state;
    struct pair a = pair_new(3, 5, "a"), b = pair_new(5, 7, "b"), c = poisoned(3, 7);
    device->counters = (struct counters){0};
    op_gemm(device, c.t, a.t, NO_TRANSPOSE, b.t, NO_TRANSPOSE, 1, 0);
    assert_true(device->counters.flops == 2 * 3 * 5 * 7);
    assert_true(device->counters.bytes_moved == (15 + 35 + 21) * (double)dtype_bytes(device->ops->dtype));
    assert_int_equal(device->counters.launches, 1);
    pair_free(&a);
    pair_free(&b);
    pair_free(&c);

    struct attention_shape shape = {.queries = 9, .start = 6, .batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 4};
    struct pair q = pair_new(18, 16, "q"), k = pair_new(30, 8, "k"), v = pair_new(30, 8, "v"), o = poisoned(18, 16);
    struct pair logsumexp = poisoned(18, 4), grad_o = pair_new(18, 16, "grad_o");
    struct pair grad_k = pair_new(2 * (3 + 4), 8, "grad_k"), grad_v = pair_new(2 * (3 + 4), 8, "grad_v");
    struct key_segment segments[] = {
        {2, 3, tensor_rows(grad_k.t, 0, 6), tensor_rows(grad_v.t, 0, 6)},
        {8, 4, tensor_rows(grad_k.t, 6, 8), tensor_rows(grad_v.t, 6, 8)},
    };
    double pairs = 0, taking = 0;
    for (size_t i = 0; i < 9; i++) {
        for (size_t key = 0; key <= 6 + i; key++) {
            pairs++;
            taking += (key >= 2 && key < 5) || (key >= 8 && key < 12);
        }
    }
    device->counters = (struct counters){0};
    op_attention_forward(device, shape, o.t, logsumexp.t, q.t, k.t, v.t);
    assert_true(device->counters.flops == 4 * pairs * 2 * 4 * 4);
    device->counters = (struct counters){0};
    op_attention_backward(device, shape, grad_o.t, segments, 2, grad_o.t, o.t, logsumexp.t, q.t, k.t, v.t);
    assert_true(device->counters.flops == (6 * pairs + 4 * taking) * 2 * 4 * 4);
    struct pair *all[] = {&q, &k, &v, &o, &logsumexp, &grad_o, &grad_k, &grad_v};
    for (size_t i = 0; i < 8; i++) {
        pair_free(all[i]);
    }
}

static int open_device(void **state)
{
    struct status status = {0};
    device = device_open("cpu", *(const enum dtype *)*state, 0, &status);
    return device ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    device_close(device); // aborts on a leak
    return 0;
}

#define BOTH(test)                                                                                                 \
    {#test " f32", test, open_device, close_device, (void *)&dtypes[0]},                                           \
    {                                                                                                              \
#test " f64", test, open_device, close_device, (void *)&dtypes[1]                                          \
    }

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {BOTH(test_gemm),          BOTH(test_bias),         BOTH(test_rmsnorm),
                                       BOTH(test_rope),          BOTH(test_swiglu),       BOTH(test_embedding),
                                       BOTH(test_cross_entropy), BOTH(test_objective),    BOTH(test_updates),
                                       BOTH(test_counters),      BOTH(test_random_normal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
