// Every method under every objective against full backprop; token mean in three operations against the one that it
// runs as. Loops over the arrays: a new entry is tested by existing.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Token mean runs as one operation; weights of 1 make the same of three. Equally long sequences make it of sequence
// mean. cap: of logits.
static void check_token_mean(double cap)
{
    struct fixture f = fixture_default();
    f.config.logit_cap = cap;
    f.objective = objective_find("token-mean");
    fixture_open(&f);
    const struct method *full = method_find("full");
    void *options = fixture_options(full, "head_chunk=4");
    struct step_report report = {0};
    double *expected = fixture_step(&f, "full", options, &report), loss = report.sums.loss;
    for (size_t i = 0; i < f.context * f.batch_size; i++)
        f.weights[i] = 1;
    static const char *const names[] = {"weighted-mean", "sequence-mean"};
    for (int i = 0; i < 2; i++) {
        f.objective = objective_find(names[i]);
        fixture_set_objective(&f, f.device, &f.batch, 0);
        double *found = fixture_step(&f, "full", options, &report);
        assert_true(relative_l2(found, expected, f.gradient_count) <= 1e-15 * 8);
        assert_true(fabs(report.sums.loss - loss) <= 1e-15 * 8 * loss);
        free(found);
    }
    options_free(&full->options, options);
    free(expected);
    step_report_free(&report);
    fixture_close(&f);
}

static void test_token_mean_three_ways(void **state)
{
    (void)state;
    check_token_mean(0);
    check_token_mean(2);
}

static void check_method(const char *method, const void *options, struct fixture *f, const double *expected,
                         double loss)
{
    struct step_report report = {0};
    double *found = fixture_step(f, method, options, &report);
    double l2 = relative_l2(found, expected, f->gradient_count);
    if (!(l2 <= 1e-13) || !(fabs(report.sums.loss - loss) <= 1e-13 * fmax(1, fabs(loss)))) {
        fail_msg("%s under %s %s: relative L2 %.2e, loss %.17g, of full %.17g", method, f->objective->name,
                 f->settings, l2, report.sums.loss, loss);
    }
    free(found);
    step_report_free(&report);
}

// Documents of several lengths side by side: a row where one ends has no target, nor have the pads behind the last.
static void open_documents(struct fixture *f)
{
    static int32_t targets[4 * 23];
    for (int i = 0; i < 4 * 23; i++) {
        int b = i / 23, t = i % 23;
        bool none = t == 6 + 3 * b || t == 15 || t >= 18 + b || (b == 1 && t < 5);
        targets[i] = none ? NO_TARGET : (7 * i + 3) % 31;
    }
    f->batch_size = 4;
    f->targets = targets;
    fixture_open(f);
}

static void test_methods_agree(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk=1", "chunk=5 head_chunk=2 loss=all", "chunk=64 head_chunk=0",
                                        "chunk=5 segments=2", "chunk=4 segments=3 loss=all inner=checkpoint"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    struct fixture f = fixture_default();
    for (size_t n = 0; fixture_choose_objective(&f, n); n++) {
        open_documents(&f);
        struct step_report report = {0};
        double *expected = fixture_step(&f, "full", NULL, &report), loss = report.sums.loss;
        assert_true(isfinite(loss) && loss != 0);
        for (const struct method *const *m = methods; *m; m++) {
            for (size_t i = 0; i < TEXTS && ((*m)->exact || (*m)->make_exact); i++) {
                if (*f.settings && i != n % TEXTS) // all of them for an objective as it is by default
                    continue;
                void *options = fixture_options(*m, "%s", texts[i]);
                if ((*m)->make_exact)
                    (*m)->make_exact(options, f.context);
                check_method((*m)->name, options, &f, expected, loss);
                options_free(&(*m)->options, options);
            }
        }
        if (objective_gathers(&f.batch)) { // the loss is that of all chunks, whatever is drawn
            const struct method *spaco = method_find("spaco");
            void *two = fixture_options(spaco, "chunk=5 budget=2");
            free(fixture_step(&f, "spaco", two, &report));
            options_free(&spaco->options, two);
            assert_true(fabs(report.sums.loss - loss) <= 1e-13 * fmax(1, fabs(loss)));
        }
        free(expected);
        step_report_free(&report);
        fixture_close(&f);
    }
}

// One pair's slope multiplied in afterwards is the same gradient with less work; where it cannot be, the first pass
// is walked.
static void test_deferred(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "", "kind=robust smoothing=0.1", "kind=ipo", "kind=hinge", "kind=simpo", "ld_alpha=0.3"};
    static const char *const texts[] = {"chunk=1 budget=23 loss=all", "chunk=5 budget=2 loss=all head_chunk=2",
                                        "chunk=5 segments=2 loss=all budget=5", "chunk=64 budget=1 loss=all"};
    static const char *const methods_of_chunks[] = {"seco", "spaco"};
    int32_t targets[2 * 23]; // of the second sequence fewer than of the first
    for (int i = 0; i < 2 * 23; i++)
        targets[i] = i % 23 < 4 || i > 23 + 14 ? NO_TARGET : i % 31;
    for (size_t i = 0; i < 6 * 4 * 2; i++) {
        const struct method *method = method_find(methods_of_chunks[i % 2]);
        void *options = fixture_options(method, "%s", texts[i / 2 % 4]);
        double *gradients[2], losses[2], flops[2];
        for (int off = 0; off < 2; off++) {
            struct fixture f = fixture_default();
            struct step_report report = {0};
            f.objective = objective_find("dpo");
            f.targets = targets;
            f.lora =
                i % 4 < 2 ? (struct lora){0} : (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_UP};
            snprintf(f.settings, sizeof f.settings, "%s%s%s", kinds[i / 8], i < 8 ? "" : " ",
                     off ? "defer=off" : "");
            fixture_open(&f);
            f.device->counters.flops = 0;
            gradients[off] = fixture_step(&f, method->name, options, &report);
            flops[off] = f.device->counters.flops;
            losses[off] = report.sums.loss;
            if (off && !(relative_l2(gradients[0], gradients[1], f.gradient_count) <= 1e-13)) {
                fail_msg("%s, %s %s: relative L2 %.2e", method->name, texts[i / 2 % 4], f.settings,
                         relative_l2(gradients[0], gradients[1], f.gradient_count));
            }
            step_report_free(&report);
            fixture_close(&f);
        }
        assert_true(fabs(losses[0] - losses[1]) <= 1e-13 * fmax(1, losses[1]));
        assert_true(flops[0] < flops[1]);
        free(gradients[0]);
        free(gradients[1]);
        options_free(&method->options, options);
    }
}

static void ignore(struct unit_listener *listener, struct model *model, size_t unit)
{
    (void)listener, (void)model, (void)unit;
}

// Whoever takes a unit's gradient before the walk ends, the host or a listener, takes the right one.
static void test_not_deferred(void **state)
{
    (void)state;
    struct unit_listener listener = {.done = ignore};
    double *expected = NULL;
    for (int i = 0; i < 3; i++) {
        struct fixture f = fixture_default();
        struct step_report report = {0};
        f.objective = objective_find("dpo");
        f.gradients_place = i == 1 ? PLACE_HOST : PLACE_DEVICE;
        snprintf(f.settings, sizeof f.settings, "defer=%s", i ? "auto" : "off");
        fixture_open(&f);
        f.model.listener = i == 2 ? &listener : NULL;
        void *options = fixture_options(method_find("seco"), "chunk=5");
        double *found = fixture_step(&f, "seco", options, &report);
        expected = i ? expected : found;
        assert_memory_equal(found, expected, f.gradient_count * sizeof *found);
        options_free(&method_find("seco")->options, options);
        step_report_free(&report);
        f.model.listener = NULL;
        assert_true(objective_defers(&f.batch) == (i > 0));
        f.batch.normaliser.pairs = 2; // of a step with more: gradients are sums with those of other pairs
        assert_false(objective_defers(&f.batch));
        fixture_close(&f);
        if (i)
            free(found);
    }
    free(expected);
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
        for (int i = 0; i < 2 * 23; i++)
            targets[i] = i < 9 ? NO_TARGET : i % 31;
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
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(relative_l2(gradients[i], gradients[j], size) > 0.01);
    for (size_t i = 0; i < count; i++)
        free(gradients[i]);
}

// In f32 and bf16 near f64. A ratio near a bound may lie on the other side of it.
static void test_narrow_dtypes(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    static const double bounds[] = {1e-5, 3e-2};
    struct fixture chosen = fixture_default();
    for (size_t n = 0; fixture_choose_objective(&chosen, n); n++) {
        for (int i = *chosen.settings ? (int)n % 2 : 0; i < 2;
             i += *chosen.settings ? 2 : 1) { // both for an objective as it is by default
            struct fixture f64 = chosen;
            f64.rounding = dtypes[i];
            struct fixture f = f64;
            f.dtype = dtypes[i];
            fixture_open(&f64);
            fixture_open(&f);
            const struct method *seco = method_find("seco");
            void *options = fixture_options(seco, "chunk=8");
            struct step_report report = {0};
            double *expected = fixture_step(&f64, "full", NULL, &report), loss = report.sums.loss;
            double *found = fixture_step(&f, "seco", options, &report);
            options_free(&seco->options, options);
            double error = relative_l2(found, expected, f.gradient_count);
            if (!(error <= bounds[i] && error > 0 &&
                  fabs(report.sums.loss - loss) <= bounds[i] * fmax(1, fabs(loss)))) {
                fail_msg("%s %s, %s: relative L2 %.2e, loss %.9g, in f64 %.9g", f.objective->name, f.settings,
                         dtype_name(f.dtype), error, report.sums.loss, loss);
            }
            free(found);
            free(expected);
            step_report_free(&report);
            fixture_close(&f);
            fixture_close(&f64);
        }
    }
}

// A batch for which the host has no room is the device's failure, and ends nothing.
static void test_no_room(void **state)
{
    (void)state;
    static const int32_t none;
    struct batch batch;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(device);
    batch_open(&batch, device, &none, NULL, (size_t)1 << 40, 1);
    assert_int_equal(device->status.code, STATUS_OOM);
    const struct objective *mean = objective_find("sequence-mean");
    void *settings = options_new(&mean->options);
    batch_set_objective(&batch, device, mean, settings, NULL);
    batch_close(&batch, device);
    options_free(&mean->options, settings);
    device_close(device);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_mean_three_ways),
        cmocka_unit_test(test_methods_agree),
        cmocka_unit_test(test_deferred),
        cmocka_unit_test(test_not_deferred),
        cmocka_unit_test(test_objectives_differ),
        cmocka_unit_test(test_narrow_dtypes),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
