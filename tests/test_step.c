// Contract of a step, for every method: a loop over the array, so that a new one is tested by existing.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Four chunks of 23 tokens and a shorter one; the same chunks in every step, for the seed is the same.
#define OPTIONS "chunk=5 head_chunk=3 budget=3"

static void check_micro_batches(struct fixture f)
{
    int32_t targets[4 * 23];
    for (int i = 0; i < 4 * 23; i++)
        targets[i] = i % 3 == 0 || i / 23 == 2 ? NO_TARGET : i % 31; // the third sequence has none at all
    f.batch_size = 4;
    f.targets = targets;
    fixture_open(&f);
    struct batch whole = f.batch;
    // One sequence and three, unless that makes no pairs.
    struct status status = {0};
    size_t first_count = objective_check(f.objective, f.objective_settings, 1, 1, &status) ? 1 : 2;
    bool adds_up = objective_check(f.objective, f.objective_settings, 4, 2, &status); // else it is refused
    for (const struct method *const *m = methods; *m && adds_up; m++) {
        bool sums = objective_has_sums(f.objective, f.objective_settings);
        void *options = fixture_options(*m, OPTIONS " loss=%s", sums ? "all" : "sampled");
        if (!method_check_objective(*m, options, f.objective, f.objective_settings, &status)) {
            options_free(&(*m)->options, options);
            continue;
        }
        struct step_report report = {0};
        double *expected = fixture_step(&f, (*m)->name, options, &report), loss = report.sums.loss, sum = 0;
        trainer_zero(&f.trainer);
        for (size_t first = 0, count = first_count; first < f.batch_size; first += count, count = 4 - first) {
            struct batch micro;
            batch_open(&micro, f.device, f.ids + first * f.context, targets + first * f.context, f.context, count);
            fixture_set_objective(&f, f.device, &micro, first);
            micro.normaliser = whole.normaliser;
            method_step(*m, &f.model, &micro, options, &report);
            sum += report.sums.loss;
            batch_close(&micro, f.device);
        }
        double *found = fixture_gradients(&f);
        if (!(relative_l2(found, expected, f.gradient_count) <= 1e-13) ||
            !(fabs(sum - loss) <= 1e-13 * fmax(1, fabs(loss)))) {
            fail_msg("%s %s, %s: relative L2 %.2e, loss %.17g, of one batch %.17g", f.objective->name, f.settings,
                     (*m)->name, relative_l2(found, expected, f.gradient_count), sum, loss);
        }
        options_free(&(*m)->options, options);
        free(found);
        free(expected);
        step_report_free(&report);
    }
    fixture_close(&f);
}

// Several micro-batches, each added to what the one before left, are one batch.
static void test_micro_batches_add_up(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    for (size_t i = 0; fixture_choose_objective(&f, i); i++)
        check_micro_batches(f);
}

// Calls of a step about its units.
struct record {
    struct unit_listener listener;
    const char *method;
    size_t told[8];  // by unit
    double *then[8]; // its gradient at that moment
};

// The gradient of a unit; to be freed.
static double *gradient_of(struct model *model, size_t unit, size_t *count)
{
    struct parameters parameters = unit_parameters(model, unit);
    *count = 0;
    for (size_t i = 0; i < parameters.count; i++)
        *count += tensor_count(parameters.items[i].grad);
    double *values = malloc((*count + 1) * sizeof *values), *next = values;
    CHECK(values);
    for (size_t i = 0; i < parameters.count; i++) {
        if (parameters.items[i].grad.data) {
            tensor_read(model->device, parameters.items[i].grad, next);
            next += tensor_count(parameters.items[i].grad);
        }
    }
    return values;
}

static void record_done(struct unit_listener *listener, struct model *model, size_t unit)
{
    struct record *record = (struct record *)listener;
    size_t count;
    assert_true(unit < unit_count(model));
    if (record->told[unit]++)
        fail_msg("%s: unit %zu is done twice", record->method, unit);
    record->then[unit] = gradient_of(model, unit, &count);
}

static void check_done(struct fixture *f, const struct method *method, void *options)
{
    struct record record = {.listener = {.done = record_done}, .method = method->name};
    struct step_report report = {0};
    size_t sum = 0;
    f->model.listener = &record.listener;
    free(fixture_step(f, method->name, options, &report));
    options_free(&method->options, options);
    f->model.listener = NULL;
    for (size_t unit = 0; unit < unit_count(&f->model); unit++) {
        size_t count;
        double *now = gradient_of(&f->model, unit, &count);
        if (record.told[unit] != 1 || memcmp(record.then[unit], now, count * sizeof *now) != 0)
            fail_msg("%s: unit %zu is %s", method->name, unit, record.told[unit] ? "not done yet" : "never done");
        sum += count;
        free(now);
        free(record.then[unit]);
    }
    assert_int_equal(sum, f->gradient_count); // no parameter is without a unit
    step_report_free(&report);
}

// At each done a unit's gradient is what it is at the end of the step.
static void test_done_is_done(void **state)
{
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        struct fixture f = fixture_default();
        f.config.tied = variant == 1;
        f.lora =
            variant == 2 ? (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_DOWN} : (struct lora){0};
        fixture_open(&f);
        for (const struct method *const *m = methods; *m; m++)
            check_done(&f, *m, fixture_options(*m, OPTIONS));
        for (const struct method *const *m = methods; *m; m++)
            check_done(&f, *m, fixture_options(*m, OPTIONS " segments=2"));
        const struct method *spaco = method_find("spaco");
        check_done(&f, spaco, fixture_options(spaco, OPTIONS " sampler=fixed")); // no chunk is drawn
        fixture_close(&f);
    }
}

// Weights that are there between acquire and release alone; else they are NaN.
struct absent {
    struct unit_listener listener;
    double *values[8]; // by unit, while it is absent
};

static void leave(struct unit_listener *listener, struct model *model, size_t unit)
{
    struct absent *absent = (struct absent *)listener;
    struct parameters parameters = unit_parameters(model, unit);
    size_t count = 0;
    assert_null(absent->values[unit]); // it was there
    for (size_t i = 0; i < parameters.count; i++)
        count += tensor_count(parameters.items[i].value);
    double *next = absent->values[unit] = malloc(count * sizeof *next);
    CHECK(next);
    for (size_t i = 0; i < parameters.count; i++) {
        struct tensor value = parameters.items[i].value;
        memcpy(next, value.data, tensor_bytes(value));
        memset(value.data, 0xff, tensor_bytes(value));
        next += tensor_count(value);
    }
}

static void come(struct unit_listener *listener, struct model *model, size_t unit)
{
    struct absent *absent = (struct absent *)listener;
    struct parameters parameters = unit_parameters(model, unit);
    const double *next = absent->values[unit];
    assert_non_null(next); // it was not there
    for (size_t i = 0; i < parameters.count; i++) {
        struct tensor value = parameters.items[i].value;
        memcpy(value.data, next, tensor_bytes(value));
        next += tensor_count(value);
    }
    free(absent->values[unit]);
    absent->values[unit] = NULL;
}

static void check_absent(struct fixture *f, const struct method *method, void *options)
{
    struct absent absent = {.listener = {.acquire = come, .release = leave}};
    struct step_report report = {0};
    double *expected = fixture_step(f, method->name, options, &report), loss = report.sums.loss;
    for (size_t unit = 0; unit < unit_count(&f->model); unit++)
        leave(&absent.listener, &f->model, unit);
    f->model.listener = &absent.listener;
    double *found = fixture_step(f, method->name, options, &report);
    options_free(&method->options, options);
    f->model.listener = NULL;
    for (size_t unit = 0; unit < unit_count(&f->model); unit++)
        come(&absent.listener, &f->model, unit); // and so it is absent after the step
    if (memcmp(found, expected, f->gradient_count * sizeof *found) != 0 || report.sums.loss != loss)
        fail_msg("%s: a weight is read that was not acquired", method->name);
    free(found);
    free(expected);
    step_report_free(&report);
}

static void test_weights_are_acquired(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct fixture f = fixture_default();
        f.config.tied = variant & 1;
        f.config.qk_norm = f.config.qkv_bias = variant & 2;
        f.lora = variant == 3 ? (struct lora){.rank = 3, .alpha = 8, .targets = 127} : (struct lora){0};
        fixture_open(&f);
        for (const struct method *const *m = methods; *m; m++) {
            check_absent(&f, *m,
                         fixture_options(*m, OPTIONS " keep=%s inner=%s loss=%s segments=%d",
                                         variant & 1 ? "all" : "lean", variant & 2 ? "checkpoint" : "none",
                                         variant & 1 ? "all" : "sampled", variant ? variant : 2));
        }
        fixture_close(&f);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_micro_batches_add_up),
                                       cmocka_unit_test(test_done_is_done),
                                       cmocka_unit_test(test_weights_are_acquired)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
