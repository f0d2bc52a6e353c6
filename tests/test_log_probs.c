// Log-probs by a forward pass: those of a step, for all chunks; without the adapter those of the base model; their
// memory is planned, and less than any step's.
#include "harness/machine/environment.h"
#include "methods/schedule/log_probs.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct fixture with_pads(void)
{
    static int32_t targets[4 * 23];
    struct fixture f = fixture_default();
    for (int i = 0; i < 4 * 23; i++)
        targets[i] = i % 23 > 16 + i / 23 ? NO_TARGET : (5 * i + 2) % 31;
    f.batch_size = 4;
    f.targets = targets;
    return f;
}

// [T B], to be freed.
static double *pass(struct fixture *f, struct log_prob_options options)
{
    size_t rows = f->context * f->batch_size, live = f->device->arena.live_bytes;
    struct tensor log_prob = tensor_new(f->device, rows, 1, dtype_statistic(f->device->ops->dtype), CATEGORY_DATA);
    double *values = malloc(rows * sizeof *values);
    CHECK(values);
    log_prob_pass(&f->model, &f->batch, log_prob, options);
    tensor_read(f->device, log_prob, values);
    tensor_free(f->device, &log_prob);
    assert_int_equal(f->device->status.code, STATUS_OK);
    assert_int_equal(f->device->arena.live_bytes, live);
    return values;
}

// Their mean is the loss, in f64, f32 and bf16; chunks change nothing but roundings.
static void test_the_loss_is_their_mean(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        double tolerance;
    } cases[] = {{DTYPE_F64, 1e-14}, {DTYPE_F32, 1e-6}, {DTYPE_BF16, 1e-2}};
    static const struct log_prob_options options[] = {{.chunk = 23},
                                                      {.chunk = 5, .head_chunk = 3},
                                                      {.chunk = 1, .head_chunk = 1},
                                                      {.chunk = 64, .head_chunk = 64}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fixture f = with_pads();
        struct step_report report = {0};
        f.dtype = cases[c].dtype;
        f.rounding = DTYPE_BF16;
        f.config.qk_norm = f.config.tied = c == 0;
        fixture_open(&f);
        free(fixture_step(&f, "full", NULL, &report));
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            double *log_prob = pass(&f, options[i]), sum = 0;
            for (size_t r = 0; r < f.context * f.batch_size; r++) {
                bool none = f.targets[r % f.batch_size * f.context + r / f.batch_size] < 0;
                assert_true(none == (log_prob[r] == 0));
                sum -= log_prob[r];
            }
            double error = fabs(sum / (double)f.batch.normaliser.rows - report.sums.loss);
            assert_true(error <= cases[c].tolerance * report.sums.loss);
            free(log_prob);
        }
        step_report_free(&report);
        fixture_close(&f);
    }
}

// Without the adapter bit for bit those of the model itself, with it others; and the next forward has it again.
static void test_without_adapter(void **state)
{
    (void)state;
    struct fixture plain = with_pads(), adapted = with_pads();
    struct log_prob_options with = {.chunk = 7, .head_chunk = 4}, without = with;
    without.without_adapter = true;
    adapted.lora = (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V | LORA_DOWN};
    fixture_open(&plain);
    fixture_open(&adapted);
    double *expected = pass(&plain, with), *off = pass(&adapted, without), *on = pass(&adapted, with);
    size_t rows = plain.context * plain.batch_size;
    assert_memory_equal(off, expected, rows * sizeof *off);
    assert_true(relative_l2(on, expected, rows) > 1e-4);
    free(on);
    free(off);
    free(expected);
    fixture_close(&adapted);
    fixture_close(&plain);
}

// Every method's pair costs log 2 where this model's own log-probs are the reference.
static void test_as_reference(void **state)
{
    (void)state;
    struct fixture f = with_pads();
    f.objective = objective_find("dpo");
    fixture_open(&f);
    log_prob_pass(&f.model, &f.batch, f.batch.reference, (struct log_prob_options){.chunk = 5});
    for (const struct method *const *m = methods; *m; m++) {
        struct step_report report = {0};
        void *options = fixture_options(*m, "chunk=4 budget=2 loss=all deferral=1");
        free(fixture_step(&f, (*m)->name, options, &report));
        assert_true(fabs(report.sums.loss - log(2)) <= 1e-14 || strcmp((*m)->name, "null") == 0);
        options_free(&(*m)->options, options);
        step_report_free(&report);
    }
    fixture_close(&f);
}

static struct arena arena_of(struct fixture *f, const char *device, struct log_prob_options options,
                             struct counters *counters)
{
    struct status status = {0};
    struct trainer_options model_options = fixture_trainer_options(f);
    f->device = device_open(device, f->dtype, 0, &status);
    assert_non_null(f->device);
    trainer_open(&f->trainer, &f->model, &f->config, &model_options, f->device);
    random_weights_set(&f->model, 1, f->rounding);
    int32_t *ids = calloc(f->context * f->batch_size, sizeof *ids);
    batch_open(&f->batch, f->device, ids, NULL, f->context, f->batch_size);
    f->device->counters = (struct counters){0};
    free(pass(f, options));
    struct arena arena = f->device->arena;
    *counters = f->device->counters;
    batch_close(&f->batch, f->device);
    trainer_close(&f->trainer);
    device_close(f->device);
    free(ids);
    return arena;
}

// The plan says what it takes and counts what it does; per token it is one hidden state and one layer's keys and
// values, whatever the number of layers.
static void test_planned(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct fixture f = fixture_default();
        struct counters counted, planned;
        size_t peaks[2];
        f.dtype = dtypes[i];
        f.config.layers = 5;
        f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q};
        for (int longer = 0; longer < 2; longer++) {
            f.context = longer ? 160 : 80;
            struct log_prob_options options = {.chunk = 8, .head_chunk = 8};
            struct arena measured = arena_of(&f, "cpu", options, &counted);
            struct arena plan = arena_of(&f, "plan-cpu", options, &planned);
            assert_int_equal(plan.peak_bytes, measured.peak_bytes);
            assert_memory_equal(plan.peak_by_category, measured.peak_by_category, sizeof plan.peak_by_category);
            assert_memory_equal(&planned, &counted, sizeof planned);
            peaks[longer] = measured.peak_bytes;
        }
        size_t e = dtype_bytes(f.dtype), statistic = dtype_bytes(dtype_statistic(f.dtype));
        size_t per_token =
            (f.config.width + 2 * f.config.kinds[0].kv_heads * f.config.kinds[0].head_dim) * e + 2 * 4 + statistic;
        double found = (double)(peaks[1] - peaks[0]) / (80.0 * (double)f.batch_size);
        assert_true(fabs(found - (double)per_token) <= 0.02 * (double)per_token + 1);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_loss_is_their_mean),
        cmocka_unit_test(test_without_adapter),
        cmocka_unit_test(test_as_reference),
        cmocka_unit_test(test_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
