// GaLore: its steps follow its formulas along the computed directions, and sums may be projected within the
// backward pass.
#include "kernels/layers/projector.h"
#include "kernels/optimizers/adam8bit.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Number i of vector k of an orthonormal basis of s numbers, 1 - 2 w w^T / |w|^2 with w_i = 1 + i / s: its largest
// number is number k, and positive.
static double basis(size_t s, size_t k, size_t i)
{
    double n = (double)s, squares = n + (n - 1) + (n - 1) * (2 * n - 1) / (6 * n);
    return (i == k) - 2 * (1 + (double)k / n) * (1 + (double)i / n) / squares;
}

enum { BLOCK = 1024 }; // rows that are converted and moved at a time
enum { PARTS = 6, RANK = 4, INTERVAL = 5, STEPS = 13 };

// How much of part k a gradient of step t has: in every interval's first step in another order.
static double weight_of(size_t k, size_t t)
{
    return 1.0 / (double)(1 + (k + 2 * ((t - 1) / INTERVAL)) % PARTS) + 0.02 * sin((double)(3 * t + k));
}

// The part that weighs most but `place`, at the step that directions are found in.
static size_t part_at(size_t place, size_t t)
{
    size_t first = (t - 1) / INTERVAL * INTERVAL + 1;
    bool taken[PARTS] = {false};
    for (;; place--) {
        size_t max = PARTS;
        for (size_t k = 0; k < PARTS; k++)
            max = !taken[k] && (max == PARTS || weight_of(k, first) > weight_of(max, first)) ? k : max;
        if (place == 0)
            return max;
        taken[max] = true;
    }
}

static double *gradient_of(size_t m, size_t n, size_t t)
{
    double *g = zeros(m * n);
    for (size_t k = 0; k < PARTS; k++)
        for (size_t i = 0; i < m * n; i++)
            g[i] += weight_of(k, t) * basis(m, k, i / n) * basis(n, k, i % n);
    return g;
}

// State of a plain run for a matrix [m, n]: weights, moments, and the last projected gradients.
struct plain {
    size_t m, n;
    double *w, *first, *second, *gradients[STEPS];
};

// The gradient's coordinates along the parts' vectors: [RANK, the longer side].
static double *coordinates_of(const struct plain *plain, size_t t)
{
    size_t m = plain->m, n = plain->n, s = m >= n ? n : m, others = m >= n ? m : n;
    double *g = gradient_of(m, n, t), *found = zeros(RANK * others);
    for (size_t r = 0; r < RANK; r++) {
        for (size_t other = 0; other < others; other++)
            for (size_t i = 0; i < s; i++)
                found[r * others + other] += basis(s, part_at(r, t), i) * g[m >= n ? other * n + i : i * n + other];
    }
    free(g);
    return found;
}

// x of a x = b, by Gaussian elimination. Both are spent.
static double *solved(double *a, double *b, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        for (size_t i = k + 1; i < count; i++) {
            double factor = a[i * count + k] / a[k * count + k];
            for (size_t j = k; j < count; j++)
                a[i * count + j] -= factor * a[k * count + j];
            b[i] -= factor * b[k];
        }
    }
    for (size_t k = count; k-- > 0;) {
        for (size_t j = k + 1; j < count; j++)
            b[k] -= a[k * count + j] * b[j];
        b[k] /= a[k * count + k];
    }
    free(a);
    return b;
}

// (damping + sum of the last `history` gradients' g g^T)^-1 g, by that matrix itself; of one gradient in closed
// form.
static double *natural(const struct plain *plain, size_t t, size_t history, double damping)
{
    size_t count = RANK * (plain->m > plain->n ? plain->m : plain->n);
    double *x = zeros(count), squares = 0;
    memcpy(x, plain->gradients[t - 1], count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; history == 1 && i < count; i++)
        x[i] /= damping + squares;
    if (history == 1)
        return x;
    double *fisher = zeros(count * count);
    for (size_t i = 0; i < count * count; i++) {
        fisher[i] = i / count == i % count ? damping : 0;
        for (size_t k = t > history ? t - history : 0; k < t; k++)
            fisher[i] += plain->gradients[k][i / count] * plain->gradients[k][i % count];
    }
    return solved(fisher, x, count);
}

static const double rate = 0.02, decay = 0.1, damping = 0.05;

// GaLore, written plainly: Adam in transformers' form on the coordinates, or on their natural gradient.
static void step_plainly(struct plain *plain, size_t t, size_t history)
{
    size_t m = plain->m, n = plain->n, s = m >= n ? n : m, others = m >= n ? m : n;
    double factor = rate * 0.5 * sqrt(1 - pow(0.95, (double)t)) / (1 - pow(0.9, (double)t)), *step = zeros(m * n);
    plain->gradients[t - 1] = coordinates_of(plain, t);
    double *g = history ? natural(plain, t, history, damping) : NULL;
    for (size_t k = 0; k < RANK * others; k++) {
        double along = g ? g[k] : plain->gradients[t - 1][k];
        plain->first[k] = 0.9 * plain->first[k] + (1 - 0.9) * along;
        plain->second[k] = 0.95 * plain->second[k] + (1 - 0.95) * along * along;
        for (size_t i = 0; i < s; i++) {
            step[m >= n ? k % others * n + i : i * n + k % others] +=
                plain->first[k] / (sqrt(plain->second[k]) + 1e-3) * basis(s, part_at(k / others, t), i);
        }
    }
    for (size_t i = 0; i < m * n; i++)
        plain->w[i] = (plain->w[i] - factor * step[i]) * (1 - rate * decay);
    free(g);
    free(step);
}

static struct plain plain_of(struct fixture *f, const struct parameter *p)
{
    size_t m = p->value.rows, n = p->value.cols, count = RANK * (m > n ? m : n);
    struct plain plain = {m, n, zeros(m * n), zeros(count), zeros(count), {0}};
    tensor_read(f->device, p->value, plain.w);
    return plain;
}

static void plain_free(struct plain *plain)
{
    for (size_t t = 0; t < STEPS; t++)
        free(plain->gradients[t]);
    free(plain->second);
    free(plain->first);
    free(plain->w);
}

// Matrices taller and wider than the other, and square ones; over two changes of directions.
static void check_steps(const char *optimizer, size_t history, size_t ffn)
{
    struct fixture f = fixture_default();
    f.config.ffn = ffn;
    fixture_set_optimizer(&f, optimizer_find(optimizer),
                          "rate=%g decay=%g scale=0.5 rank=%d interval=%d beta2=0.95 epsilon=1e-3 history=%zu "
                          "damping=%g",
                          rate, decay, RANK, INTERVAL, history, damping);
    fixture_open(&f);
    const struct parameter *tested[] = {model_parameter(&f.model, "model.layers.1.self_attn.q_proj.weight"),
                                        model_parameter(&f.model, "model.layers.1.self_attn.k_proj.weight"),
                                        model_parameter(&f.model, "model.layers.1.mlp.gate_proj.weight"),
                                        model_parameter(&f.model, "model.layers.1.mlp.down_proj.weight")};
    struct plain plains[COUNT(tested)];
    for (size_t k = 0; k < COUNT(tested); k++)
        plains[k] = plain_of(&f, tested[k]);
    for (size_t t = 1; t <= STEPS; t++) {
        trainer_begin(&f.trainer, t, 1);
        trainer_zero(&f.trainer);
        for (size_t k = 0; k < COUNT(tested); k++) {
            double *g = gradient_of(plains[k].m, plains[k].n, t);
            tensor_write(f.device, tested[k]->grad, g);
            step_plainly(&plains[k], t, history);
            free(g);
        }
        trainer_update(&f.trainer);
    }
    assert_int_equal(f.device->status.code, STATUS_OK);
    for (size_t k = 0; k < COUNT(tested); k++) {
        size_t count = tensor_count(tested[k]->value);
        double *found = zeros(count);
        tensor_read(f.device, tested[k]->value, found);
        if (!(largest_difference(found, plains[k].w, count) < 1e-10)) {
            fail_msg("%s, history %zu: %s is off by %.1e", optimizer, history, tested[k]->name,
                     largest_difference(found, plains[k].w, count));
        }
        free(found);
        plain_free(&plains[k]);
    }
    fixture_close(&f);
}

static void steps_are_those_of_the_formulas(void **state)
{
    (void)state;
    check_steps("galore", 0, 40);
    check_steps("galore", 0, BLOCK + 76);
}

static void natural_steps_are_those_of_a_dense_inverse(void **state)
{
    (void)state;
    check_steps("natural-galore", 1, 40);
    check_steps("natural-galore", 3, 40);
    check_steps("natural-galore", STEPS + 1, 40);
}

// In f32 and bf16, too, the direction is that of the dense inverse over the history as it is stored, though
// gradients are 100,000 times as long, squared, as the damping. Adam's first moment is the direction where it
// forgets all.
static void natural_gradients_keep_their_digits(void **state)
{
    (void)state;
    enum { KEPT = 6, UPDATES = 9 };
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        struct fixture f = fixture_default();
        f.dtype = f.rounding = dtypes[d];
        fixture_set_optimizer(&f, optimizer_find("natural-galore"), "rank=%d history=%d beta1=0 damping=1e-3", RANK,
                              KEPT);
        fixture_open(&f);
        struct parameter *p = model_parameter(&f.model, "model.layers.2.mlp.up_proj.weight");
        for (size_t t = 1; t <= UPDATES; t++) {
            trainer_begin(&f.trainer, t, 1);
            trainer_zero(&f.trainer);
            op_random_normal(f.device, p->grad, random_named(t, "gradient"), 0, 1, DTYPE_F64);
            trainer_update(&f.trainer);
        }
        size_t count = tensor_count(p->state[0]);
        double *history = numbers_of(f.device, p->state[ADAM8BIT_STATES]),
               *found = numbers_of(f.device, p->state[0]);
        const double *last = history + (UPDATES - 1) % KEPT * count;
        double *fisher = zeros(count * count), *expected = zeros(count), squares = 0;
        for (size_t i = 0; i < count; i++) {
            expected[i] = last[i];
            squares += last[i] * last[i];
            for (size_t j = 0; j < count; j++) {
                fisher[i * count + j] = i == j ? 1e-3 : 0;
                for (size_t k = 0; k < KEPT; k++)
                    fisher[i * count + j] += history[k * count + i] * history[k * count + j];
            }
        }
        assert_true(squares / 1e-3 > 1e5);
        solved(fisher, expected, count);
        if (!(relative_l2(found, expected, count) < 2e-6))
            fail_msg("%s: %.1e", dtype_name(dtypes[d]), relative_l2(found, expected, count));
        free(expected);
        free(found);
        free(history);
        fixture_close(&f);
    }
}

// Weights of 1 that all move by 0.3 of the way to their neighbour in bf16: as many as that go there, other ones in
// each block of rows and each matrix.
static void rounding_has_no_bias(void **state)
{
    (void)state;
    enum { WIDTH = 24, HALF = BLOCK * WIDTH };
    const double spacing = 0x1p-8, part = dtype_round(1 / sqrt(WIDTH), DTYPE_BF16);
    struct fixture f = fixture_default();
    f.dtype = f.rounding = DTYPE_BF16;
    f.config.ffn = 2 * BLOCK;
    fixture_set_optimizer(&f, optimizer_find("galore"), "rate=%.17g scale=1 rank=1 round=stochastic",
                          0.3 * spacing / part);
    fixture_open(&f);
    struct parameter *tested[] = {model_parameter(&f.model, "model.layers.0.mlp.gate_proj.weight"),
                                  model_parameter(&f.model, "model.layers.0.mlp.up_proj.weight")};
    double *found[2], *ones = zeros((size_t)2 * HALF);
    for (size_t i = 0; i < (size_t)2 * HALF; i++)
        ones[i] = 1;
    trainer_begin(&f.trainer, 1, 1);
    trainer_zero(&f.trainer);
    for (size_t k = 0; k < 2; k++) {
        tensor_write(f.device, tested[k]->value, ones);
        tensor_write(f.device, tested[k]->grad, ones);
    }
    trainer_update(&f.trainer);
    for (size_t k = 0; k < 2; k++) {
        size_t lower = 0;
        found[k] = numbers_of(f.device, tested[k]->value);
        for (size_t i = 0; i < (size_t)2 * HALF; i++) {
            assert_true(found[k][i] == 1 || found[k][i] == 1 - spacing);
            lower += found[k][i] < 1;
        }
        assert_true(fabs((double)lower - 0.3 * 2 * HALF) < 4 * sqrt(0.3 * 0.7 * 2 * HALF));
        assert_memory_not_equal(found[k], found[k] + HALF, HALF * sizeof *ones);
    }
    assert_memory_not_equal(found[0], found[1], HALF * sizeof *ones);
    free(found[0]);
    free(found[1]);
    free(ones);
    fixture_close(&f);
}

// FLOPs of a walk from zero.
static double walked(struct fixture *f, const struct method *method, const void *options)
{
    struct step_report report = {0};
    trainer_zero(&f->trainer);
    f->device->counters = (struct counters){0};
    method_step(method, &f->model, &f->batch, options, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    step_report_free(&report);
    return f->device->counters.flops;
}

// The parameter's gradient in the directions of its projector.
static double *projected(struct fixture *f, const struct parameter *p)
{
    struct tensor g = matrix_like(f->device, p->value);
    struct tensor r = matrix_like(f->device, projected_shape(g.rows, g.cols, RANK));
    double *numbers = numbers_of(f->device, p->grad);
    tensor_write(f->device, g, numbers);
    projector_project(f->device, r, p->projector, g);
    free(numbers);
    numbers = numbers_of(f->device, r);
    tensor_free(f->device, &r);
    tensor_free(f->device, &g);
    return numbers;
}

static bool all_zero(const double *numbers, size_t count)
{
    size_t i = 0;
    while (i < count && numbers[i] == 0)
        i++;
    return i == count;
}

static void check_sums(struct fixture *f, const struct method *method)
{
    void *options = fixture_options(method, "chunk=7 head_chunk=5 budget=2 sampler_seed=3 loss=all deferral=1");
    double **sums = calloc(f->model.parameter_count, sizeof *sums), saved = 0;
    size_t whole = 0, tokens = f->context * f->batch_size;
    assert_non_null(sums);
    trainer_begin(&f->trainer, 1, 1);
    double flops = walked(f, method, options);
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        const struct parameter *p = &f->model.parameters[i];
        size_t rows = p->value.rows, cols = p->value.cols;
        if (p->projected) {
            sums[i] = numbers_of(f->device, p->grad);
            assert_false(all_zero(sums[i], tensor_count(p->grad))); // before its turn a matrix trains, too
            saved += 2 * (double)tokens * ((double)(rows * cols) - (double)(RANK * (rows + cols)));
        } else if (p->projector.data) {
            assert_string_equal(p->name, "model.layers.0.mlp.gate_proj.weight");
            whole++;
        }
    }
    assert_int_equal(whole, 1);
    f->model.update = 0;
    double of_whole = walked(f, method, options);
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        const struct parameter *p = &f->model.parameters[i];
        assert_false(p->projected);
        if (sums[i]) {
            double *expected = projected(f, p);
            size_t count = RANK * (p->value.rows > p->value.cols ? p->value.rows : p->value.cols);
            if (!(relative_l2(sums[i], expected, count) < 1e-13))
                fail_msg("%s: %s is off by %.1e", method->name, p->name, relative_l2(sums[i], expected, count));
            free(expected);
            free(sums[i]);
        }
    }
    if (method->exact && of_whole - flops != saved)
        fail_msg("%s: %g FLOPs less, expected %g", method->name, of_whole - flops, saved);
    free(sums);
    options_free(&method->options, options);
}

// Sums that are projected in the walk are the projected sums of that walk, whatever the method, the objective's
// pass or where gradients are kept; and one matrix's, the longest's at first, are whole. Per token a gradient
// of W: [m, n] takes 2 m n FLOPs, and its projection 2 r (m + n).
static void projected_sums_are_sums_projected(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        for (size_t run = 0; run < 3 && !(*m)->no_gradient; run++) {
            struct fixture f = fixture_default();
            f.gradients_place = run == 1 ? PLACE_HOST : PLACE_DEVICE;
            f.objective = run == 2 ? objective_find("dpo") : NULL;
            fixture_set_optimizer(&f, optimizer_find("galore"), "rank=%d sums=projected interval=2", RANK);
            fixture_open(&f);
            check_sums(&f, *m);
            fixture_close(&f);
        }
    }
}

// Directions that are not yet found have nothing to do with the weights, of one seed, too.
static void random_directions_are_not_the_weights(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    double products = 0, squares = 0, of_directions = 0;
    size_t count = 0;
    fixture_set_optimizer(&f, optimizer_find("galore"), "rank=%d sums=projected seed=%zu", RANK, (size_t)f.seed);
    fixture_open(&f);
    for (size_t i = 0; i < f.model.parameter_count; i++) {
        const struct parameter *p = &f.model.parameters[i];
        if (p->projector.data) {
            double *weights = numbers_of(f.device, p->value), *directions = numbers_of(f.device, p->projector);
            for (size_t j = 0; j < tensor_count(p->projector); j++, count++) {
                products += weights[j] * directions[j];
                squares += weights[j] * weights[j];
                of_directions += directions[j] * directions[j];
            }
            free(directions);
            free(weights);
        }
    }
    assert_true(of_directions > 0 && count > 1000);
    assert_true(fabs(products) < 5 * sqrt(squares * of_directions / (double)count));
    fixture_close(&f);
}

// Each matrix's turn comes once in as many updates as there are matrices, or in `interval` if these are more; no
// other gradient of a matrix is alive then, not even while the one before gives way.
static void each_matrix_has_its_turn(void **state)
{
    (void)state;
    enum { MATRICES = 21 };
    static const size_t intervals[] = {1, 30};
    for (size_t k = 0; k < COUNT(intervals); k++) {
        size_t period = intervals[k] < MATRICES ? MATRICES : intervals[k], turns[MATRICES] = {0};
        struct fixture f = fixture_default();
        fixture_set_optimizer(&f, optimizer_find("galore"), "rank=%d sums=projected interval=%zu", RANK,
                              intervals[k]);
        fixture_open(&f);
        for (size_t t = 1; t <= 2 * period; t++) {
            size_t place = 0, whole = 0;
            trainer_begin(&f.trainer, t, 1);
            size_t before = f.device->arena.live_bytes;
            arena_reset_peak(&f.device->arena);
            trainer_zero(&f.trainer);
            size_t now = f.device->arena.live_bytes;
            assert_int_equal(f.device->arena.peak_bytes, before > now ? before : now);
            for (size_t i = 0; i < f.model.parameter_count; i++) {
                const struct parameter *p = &f.model.parameters[i];
                if (p->projector.data) {
                    turns[place++] += !p->projected;
                    whole += !p->projected;
                }
            }
            assert_int_equal(place, MATRICES);
            assert_int_equal(whole, (t - 1) % period < MATRICES);
        }
        for (size_t i = 0; i < MATRICES; i++)
            assert_int_equal(turns[i], 2);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_formulas),
        cmocka_unit_test(natural_steps_are_those_of_a_dense_inverse),
        cmocka_unit_test(natural_gradients_keep_their_digits),
        cmocka_unit_test(rounding_has_no_bias),
        cmocka_unit_test(projected_sums_are_sums_projected),
        cmocka_unit_test(random_directions_are_not_the_weights),
        cmocka_unit_test(each_matrix_has_its_turn),
    };
    return cmocka_run_group_tests_name("GaLore", tests, NULL, NULL);
}
