// Every objective against central differences; token mean in three operations against the one that it runs as;
// every method under every objective against full backprop. Loops over the arrays: a new entry is tested by
// existing.
#include "harness/run/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Logits of a batch as small as all cases allow: four sequences of six tokens, of which one has no target and each
// of the others ends a document or two within.
enum { CONTEXT = 6, BATCH = 4, ROWS = CONTEXT * BATCH, VOCAB = 7 };

struct logits {
    struct device *device;
    struct batch batch;
    struct tensor logits, loss;
    double start[ROWS * VOCAB];
};

static int32_t target_of(int b, int t)
{
    bool none = b == 2 || t == CONTEXT - 1 || (b == 1 && t < 3) || (b == 3 && t == 2);
    return none ? NO_TARGET : (5 * b + 3 * t) % VOCAB;
}

static void logits_open(struct logits *l, const struct objective *objective, const double *weights)
{
    struct status status = {0};
    int32_t ids[ROWS] = {0}, targets[ROWS];
    struct random random = random_named(5, "logits");
    l->device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(l->device);
    for (int i = 0; i < ROWS; i++) {
        targets[i] = target_of(i / CONTEXT, i % CONTEXT);
    }
    for (int i = 0; i < ROWS * VOCAB; i++) {
        l->start[i] = 2 * random_normal(&random, (uint64_t)i);
    }
    batch_open(&l->batch, l->device, ids, targets, CONTEXT, BATCH);
    batch_set_objective(&l->batch, l->device, objective, weights);
    l->logits = tensor_new(l->device, ROWS, VOCAB, DTYPE_F64, CATEGORY_LOGITS);
    l->loss = tensor_new(l->device, 1, 1, DTYPE_F64, CATEGORY_DATA);
}

static void logits_close(struct logits *l)
{
    tensor_free(l->device, &l->loss);
    tensor_free(l->device, &l->logits);
    batch_close(&l->batch, l->device);
    device_close(l->device);
}

// The objective's loss with one logit moved; grad: the gradient there, if it is wanted.
static double loss_at(struct logits *l, size_t element, double by, double *grad)
{
    double values[ROWS * VOCAB], loss;
    memcpy(values, l->start, sizeof values);
    values[element] += by;
    tensor_write(l->device, l->logits, values);
    op_zero(l->device, l->loss);
    for (size_t row = 0; row < ROWS; row += 10) { // blocks, of which the last is shorter
        size_t rows = ROWS - row < 10 ? ROWS - row : 10;
        objective_apply(l->device, &l->batch, tensor_rows(l->logits, row, rows), row, (struct loss_weights){1, 1},
                        grad, l->loss);
    }
    if (grad) {
        tensor_read(l->device, l->logits, grad);
    }
    tensor_read(l->device, l->loss, &loss);
    assert_int_equal(l->device->status.code, STATUS_OK);
    return loss;
}

// What the objective means, said once more.
static double expected_loss(const struct logits *l, const double *weights)
{
    const struct objective *objective = l->batch.objective;
    double loss = 0, total = 0, log_prob[BATCH][CONTEXT];
    int counts[BATCH] = {0}, rows = 0;
    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < CONTEXT; t++) {
            const double *row = l->start + (t * BATCH + b) * VOCAB;
            double sum = 0;
            for (int j = 0; j < VOCAB; j++) {
                sum += exp(row[j]);
            }
            int32_t target = target_of(b, t);
            counts[b] += target >= 0;
            log_prob[b][t] = target < 0 ? 0 : log(exp(row[target]) / sum);
        }
        rows += counts[b];
    }
    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < CONTEXT; t++) {
            double weight = objective->averaging == MEAN_BY_WEIGHT        ? weights[b * CONTEXT + t]
                            : objective->averaging == MEAN_OVER_SEQUENCES ? 1.0 / (counts[b] ? counts[b] : 1)
                                                                          : 1;
            double p = objective->rows == ROW_DFT ? exp(log_prob[b][t]) : 1;
            loss -= weight * p * log_prob[b][t];
            total += target_of(b, t) < 0 ? 0 : weight;
        }
    }
    return loss / (objective->averaging == MEAN_OVER_SEQUENCES ? BATCH
                   : objective->averaging == MEAN_OVER_ROWS    ? rows
                                                               : total);
}

// What the derivative by a logit is of: the objective itself, but where it holds a factor fixed, the mean by these
// factors as weights.
static void differences_open(struct logits *l, const struct objective *objective, const double *weights)
{
    double fixed[ROWS], sum = 0;
    if (objective->rows != ROW_DFT) {
        logits_open(l, objective, weights);
        return;
    }
    logits_open(l, objective, NULL);
    for (int i = 0; i < ROWS; i++) {
        int b = i / CONTEXT, t = i % CONTEXT;
        const double *row = l->start + (t * BATCH + b) * VOCAB;
        double all = 0;
        for (int j = 0; j < VOCAB; j++) {
            all += exp(row[j]);
        }
        fixed[i] = target_of(b, t) < 0 ? 0 : exp(row[target_of(b, t)]) / all;
        sum += fixed[i];
    }
    double rows = (double)l->batch.normaliser.rows;
    logits_close(l);
    logits_open(l, objective_find("weighted-mean"), fixed);
    assert_true(fabs(l->batch.normaliser.weight - sum) < 1e-12);
    l->batch.normaliser.weight = rows; // DFT divides by their number
}

static void test_central_differences(void **state)
{
    (void)state;
    double weights[ROWS];
    for (int i = 0; i < ROWS; i++) {
        weights[i] = i % 5 / 4.0;
    }
    for (const struct objective *const *o = objectives; *o; o++) {
        bool given = (*o)->averaging == MEAN_BY_WEIGHT;
        struct logits l, d;
        double grad[ROWS * VOCAB];
        logits_open(&l, *o, given ? weights : NULL);
        differences_open(&d, *o, given ? weights : NULL);
        double loss = loss_at(&l, 0, 0, grad), expected = expected_loss(&l, weights);
        if (!(fabs(loss - expected) <= 1e-14 * expected)) {
            fail_msg("%s: loss %.17g, expected %.17g", (*o)->name, loss, expected);
        }
        for (size_t i = 0; i < ROWS * VOCAB; i++) {
            double h = 1e-3;
            double near = loss_at(&d, i, h, NULL) - loss_at(&d, i, -h, NULL);
            double far = loss_at(&d, i, 2 * h, NULL) - loss_at(&d, i, -2 * h, NULL);
            double numeric = (8 * near - far) / (12 * h);
            if (!(fabs(numeric - grad[i]) <= 1e-8) ||
                (target_of((int)(i / VOCAB) % BATCH, (int)(i / VOCAB) / BATCH) < 0 && grad[i] != 0)) {
                fail_msg("%s: logit %zu: gradient %.12g, central differences %.12g", (*o)->name, i, grad[i],
                         numeric);
            }
        }
        logits_close(&d);
        logits_close(&l);
    }
}

// A batch of which nothing counts has loss 0 and gradient 0.
static void test_nothing_counts(void **state)
{
    (void)state;
    static const double weights[ROWS];
    for (const struct objective *const *o = objectives; *o; o++) {
        struct logits l;
        double grad[ROWS * VOCAB];
        logits_open(&l, *o, (*o)->averaging == MEAN_BY_WEIGHT ? weights : NULL);
        l.batch.normaliser.rows = 0;
        int32_t none[ROWS];
        for (int i = 0; i < ROWS; i++) {
            none[i] = NO_TARGET;
        }
        op_upload(l.device, l.batch.targets, none);
        assert_true(loss_at(&l, 0, 0, grad) == 0);
        for (int i = 0; i < ROWS * VOCAB; i++) {
            assert_true(grad[i] == 0);
        }
        logits_close(&l);
    }
}

// Token mean runs as one operation; weights of 1 make the same of three. Equally long sequences make it of sequence
// mean.
static void test_token_mean_three_ways(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.objective = objective_find("token-mean");
    fixture_open(&f);
    const struct method *full = method_find("full");
    void *options = fixture_options(full, "head_chunk=4");
    struct step_report report = {0};
    double *expected = fixture_step(&f, "full", options, &report), loss = report.loss;
    for (size_t i = 0; i < f.context * f.batch_size; i++) {
        f.weights[i] = 1;
    }
    static const char *const names[] = {"weighted-mean", "sequence-mean"};
    for (int i = 0; i < 2; i++) {
        f.objective = objective_find(names[i]);
        fixture_set_objective(&f, f.device, &f.batch, 0);
        double *found = fixture_step(&f, "full", options, &report);
        assert_true(relative_l2(found, expected, f.gradient_count) <= 1e-15 * 8);
        assert_true(fabs(report.loss - loss) <= 1e-15 * 8 * loss);
        free(found);
    }
    options_free(&full->options, options);
    free(expected);
    step_report_free(&report);
    fixture_close(&f);
}

static void check_method(const struct objective *objective, const char *method, const void *options,
                         struct fixture *f, const double *expected, double loss)
{
    struct step_report report = {0};
    double *found = fixture_step(f, method, options, &report);
    double l2 = relative_l2(found, expected, f->gradient_count);
    if (!(l2 <= 1e-13) || !(fabs(report.loss - loss) <= 1e-13 * loss)) {
        fail_msg("%s under %s: relative L2 %.2e, loss %.17g, of full %.17g", method, objective->name, l2,
                 report.loss, loss);
    }
    free(found);
    step_report_free(&report);
}

// Documents of several lengths side by side: a row where one ends has no target, nor have the pads behind the last.
static void test_methods_agree(void **state)
{
    (void)state;
    for (const struct objective *const *o = objectives; *o; o++) {
        struct fixture f = fixture_default();
        int32_t targets[3 * 23];
        for (int i = 0; i < 3 * 23; i++) {
            int b = i / 23, t = i % 23;
            bool none = t == 6 + 3 * b || t == 15 || t >= 18 + b || (b == 1 && t < 5);
            targets[i] = none ? NO_TARGET : (7 * i + 3) % 31;
        }
        f.batch_size = 3;
        f.targets = targets;
        f.objective = *o;
        fixture_open(&f);
        struct step_report report = {0};
        double *expected = fixture_step(&f, "full", NULL, &report), loss = report.loss;
        assert_true(isfinite(loss) && loss > 0);
        for (const struct method *const *m = methods; *m; m++) {
            if (!(*m)->exact && !(*m)->make_exact) {
                continue;
            }
            for (int variant = 0; variant < 3; variant++) {
                static const char *const texts[] = {"chunk=1", "chunk=5 head_chunk=2 loss=all",
                                                    "chunk=64 head_chunk=0"};
                void *options = fixture_options(*m, "%s", texts[variant]);
                if ((*m)->make_exact) {
                    (*m)->make_exact(options, f.context);
                }
                check_method(*o, (*m)->name, options, &f, expected, loss);
                options_free(&(*m)->options, options);
            }
        }
        free(expected);
        step_report_free(&report);
        fixture_close(&f);
    }
}

// Each has a gradient of its own: none is another by a slip.
static void test_objectives_differ(void **state)
{
    (void)state;
    double *gradients[16];
    size_t count = 0, size = 0;
    for (const struct objective *const *o = objectives; *o; o++) {
        struct fixture f = fixture_default();
        int32_t targets[2 * 23];
        for (int i = 0; i < 2 * 23; i++) {
            targets[i] = i < 9 ? NO_TARGET : i % 31;
        }
        f.targets = targets;
        f.objective = *o;
        fixture_open(&f);
        struct step_report report = {0};
        assert_true(count < sizeof gradients / sizeof *gradients);
        gradients[count++] = fixture_step(&f, "full", NULL, &report);
        size = f.gradient_count;
        step_report_free(&report);
        fixture_close(&f);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_true(relative_l2(gradients[i], gradients[j], size) > 0.01);
        }
    }
    for (size_t i = 0; i < count; i++) {
        free(gradients[i]);
    }
}

// In f32 and bf16 near f64.
static void test_narrow_dtypes(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    static const double bounds[] = {1e-5, 3e-2};
    for (const struct objective *const *o = objectives; *o; o++) {
        for (int i = 0; i < 2; i++) {
            struct fixture f64 = fixture_default();
            f64.rounding = dtypes[i];
            f64.objective = *o;
            struct fixture f = f64;
            f.dtype = dtypes[i];
            fixture_open(&f64);
            fixture_open(&f);
            const struct method *seco = method_find("seco");
            void *options = fixture_options(seco, "chunk=8");
            struct step_report report = {0};
            double *expected = fixture_step(&f64, "full", NULL, &report), loss = report.loss;
            double *found = fixture_step(&f, "seco", options, &report);
            options_free(&seco->options, options);
            double error = relative_l2(found, expected, f.gradient_count);
            assert_true(error <= bounds[i] && error > 0);
            assert_true(fabs(report.loss - loss) <= bounds[i] * loss);
            free(found);
            free(expected);
            step_report_free(&report);
            fixture_close(&f);
            fixture_close(&f64);
        }
    }
}

// An objective of more than rows: half the sum of the squares of what each sequence's rows cost, L = sum of S^2 /
// 2, so that dL/df = S.
static double sums[8];

static void gather(struct device *device, const struct batch *batch, struct tensor log_prob, size_t first_row)
{
    double values[64];
    assert_true(log_prob.rows <= sizeof values / sizeof *values);
    tensor_read(device, log_prob, values);
    static size_t next; // blocks come in order
    assert_int_equal(first_row, first_row ? next : 0);
    next = first_row + log_prob.rows;
    for (size_t b = 0; first_row == 0 && b < batch->batch; b++) {
        sums[b] = 0;
    }
    for (size_t r = 0; r < log_prob.rows; r++) {
        sums[(first_row + r) % batch->batch] -= values[r];
    }
}

static void settle(struct device *device, const struct batch *batch, struct tensor loss)
{
    double weights[64], total = 0;
    for (size_t r = 0; r < batch->context * batch->batch; r++) {
        weights[r] = sums[r % batch->batch];
    }
    for (size_t b = 0; b < batch->batch; b++) {
        total += sums[b] * sums[b] / 2;
        sums[b] = NAN; // of the next step only what that gathers
    }
    tensor_write(device, batch->weights, weights);
    tensor_write(device, loss, &total);
}

static const struct objective squares = {
    .name = "squares", .rows = ROW_LIKELIHOOD, .averaging = AS_SETTLED, .gather = gather, .settle = settle};

static double squares_at(struct fixture *f, struct tensor weight, size_t element, double by)
{
    struct step_report report = {0};
    ((double *)weight.data)[element] += by;
    free(fixture_step(f, "full", NULL, &report));
    ((double *)weight.data)[element] -= by;
    step_report_free(&report);
    return report.loss;
}

// Every method has the first pass that such an objective wants: its file knows no more of it.
static void test_a_first_pass(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    int32_t targets[2 * 23];
    for (int i = 0; i < 2 * 23; i++) {
        targets[i] = i % 5 ? i % 31 : NO_TARGET;
    }
    f.targets = targets;
    f.objective = &squares;
    fixture_open(&f);
    struct step_report report = {0};
    double *expected = fixture_step(&f, "full", NULL, &report), loss = report.loss, h = 1e-3, largest = 0;
    struct tensor gain = f.model.final_norm->value;
    const double *grad = expected + f.gradient_count - tensor_count(f.model.head->grad) - gain.cols;
    for (size_t i = 0; i < gain.cols; i++) {
        largest = fmax(largest, fabs(grad[i]));
    }
    assert_true(largest > 0);
    for (size_t i = 0; i < gain.cols; i++) {
        double near = squares_at(&f, gain, i, h) - squares_at(&f, gain, i, -h);
        double far = squares_at(&f, gain, i, 2 * h) - squares_at(&f, gain, i, -2 * h);
        assert_true(fabs((8 * near - far) / (12 * h) - grad[i]) <= 1e-8 * largest);
    }
    for (const struct method *const *m = methods; *m; m++) {
        for (int variant = 0; variant < 5 && ((*m)->exact || (*m)->make_exact); variant++) {
            static const char *const texts[] = {"chunk=1", "chunk=5 head_chunk=2 loss=all", "chunk=64 head_chunk=0",
                                                "chunk=5 stages=2", "chunk=4 stages=3 loss=all inner=checkpoint"};
            void *options = fixture_options(*m, "%s", texts[variant]);
            if ((*m)->make_exact) {
                (*m)->make_exact(options, f.context);
            }
            check_method(&squares, (*m)->name, options, &f, expected, loss);
            options_free(&(*m)->options, options);
        }
    }
    // The loss is that of all columns, whatever is drawn.
    const struct method *spaco = method_find("spaco");
    void *two = fixture_options(spaco, "chunk=5 budget=2");
    free(fixture_step(&f, "spaco", two, &report));
    options_free(&spaco->options, two);
    assert_true(fabs(report.loss - loss) <= 1e-13 * loss);
    free(expected);
    step_report_free(&report);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_differences),   cmocka_unit_test(test_nothing_counts),
        cmocka_unit_test(test_token_mean_three_ways), cmocka_unit_test(test_methods_agree),
        cmocka_unit_test(test_objectives_differ),     cmocka_unit_test(test_narrow_dtypes),
        cmocka_unit_test(test_a_first_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
