// Kept attention: a step that keeps attention's results, instead of recomputing them, has the gradients of one
// that recomputes, for every method that has the option; planned as measured; and impossible combinations are
// refused.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool keeps_attention(const struct method *method)
{
    return option_find(&method->options, "attention") != NULL;
}

struct taken {
    struct counters counters;
    size_t peak_bytes, by_category[CATEGORY_COUNT];
    double loss;
};

// Gradients of a step, to be freed; on a device without data zeros.
static double *take_step(struct fixture *f, const struct method *method, void *options, struct taken *taken)
{
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    *taken = (struct taken){f->device->counters, f->device->arena.peak_bytes, {0}, report.sums.loss};
    memcpy(taken->by_category, f->device->arena.peak_by_category, sizeof taken->by_category);
    step_report_free(&report);
    options_free(&method->options, options);
    return f->device->ops->dataless ? NULL : fixture_gradients(f);
}

static void assert_planned(const struct fixture *f, const struct method *method, void *options,
                           const struct taken *measured)
{
    struct status status = {0};
    struct fixture plan = *f;
    struct taken taken;
    struct trainer_options model_options = fixture_trainer_options(f);
    plan.device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(plan.device);
    trainer_open(&plan.trainer, &plan.model, &plan.config, &model_options, plan.device);
    fixture_open_batch(f, plan.device, &plan.batch, (struct row_range){0, f->batch_size});
    take_step(&plan, method, options, &taken);
    assert_memory_equal(&taken.counters, &measured->counters, sizeof taken.counters);
    assert_int_equal(taken.peak_bytes, measured->peak_bytes);
    assert_memory_equal(taken.by_category, measured->by_category, sizeof taken.by_category);
    batch_close(&plan.batch, plan.device);
    trainer_close(&plan.trainer);
    device_close(plan.device);
}

// The forward of a whole row is its rebuild, to the bit; a chunk's keys are projected in other blocks than a row's,
// and rounded otherwise.
static void assert_same(struct fixture *f, const char *what)
{
    static const char *const walks[] = {"chunk=5",
                                        "chunk=64 keep=all",
                                        "chunk=4 segments=2",
                                        "chunk=6 segment_starts=0,1",
                                        "chunk=7 segments=3 head_chunk=3",
                                        "offload=inputs",
                                        "offload=inputs segments=2"};
    const double max = f->dtype == DTYPE_F64 ? 1e-13 : f->dtype == DTYPE_F32 ? 1e-5 : 2e-2;
    fixture_open(f);
    for (const struct method *const *m = methods; *m; m++) {
        for (size_t w = 0; keeps_attention(*m) && w < COUNT(walks); w++) {
            struct status status = {0};
            struct taken rebuilt, kept;
            void *options = fixture_options(*m, "%s attention=kept", walks[w]);
            bool valid = (*m)->check(options, &f->config, f->context, &status);
            bool chunked = option_find(&(*m)->options, "chunk") != NULL;
            if (!valid) {
                options_free(&(*m)->options, options);
                continue;
            }
            double *found = take_step(f, *m, options, &kept);
            assert_planned(f, *m, fixture_options(*m, "%s attention=kept", walks[w]), &kept);
            double *expected = take_step(f, *m, fixture_options(*m, "%s", walks[w]), &rebuilt);
            bool same =
                memcmp(found, expected, f->gradient_count * sizeof *found) == 0 && kept.loss == rebuilt.loss;
            double off = relative_l2(found, expected, f->gradient_count);
            if (chunked ? !(off <= max) : !same)
                fail_msg("%s, %s, %s: relative L2 %.2e", what, (*m)->name, walks[w], off);
            // Segments of one layer keep no attention; others save work and keep bytes.
            bool ones = strstr(walks[w], "segments=3") && f->config.layers == 3;
            assert_true(ones || kept.counters.flops < rebuilt.counters.flops);
            free(expected);
            free(found);
        }
    }
    fixture_close(f);
}

static void gradients_are_those_of_rebuilt_rows(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    const size_t kinds = fixture_families() + 1; // the last one: Qwen3's norms
    for (size_t variant = 0; variant < kinds * COUNT(dtypes); variant++) {
        struct fixture f = fixture_default();
        const char *family = fixture_choose_family(&f, variant % kinds);
        f.dtype = dtypes[variant / kinds];
        f.config.layers = 3 + variant % 2;
        f.config.qk_norm |= variant % kinds == kinds - 1;
        f.batch_size = 1 + variant % 3;
        f.context = variant % 4 == 1 ? 1 : 23;
        f.document = variant % 4 == 3 ? 7 : 0;
        f.lora = variant % 4 == 3 ? (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_O} : f.lora;
        assert_same(&f, family ? family : "Qwen3's");
    }
}

// Rows that come from the host chunk by chunk do not bring what attention gave.
static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    static const char *const offloads[] = {"inputs", "inputs,input_gradients"};
    const struct method *method = method_find("streambp");
    for (size_t i = 0; i < COUNT(offloads); i++) {
        struct status status = {0};
        void *options = fixture_options(method, "attention=kept offload=%s", offloads[i]);
        assert_false(method->check(options, &f.config, f.context, &status));
        assert_int_equal(status.code, STATUS_BAD_INPUT);
        assert_non_null(strstr(status.message, "attention=kept cannot be combined with offload"));
        options_free(&method->options, options);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_rebuilt_rows),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests_name("kept_attention", tests, NULL, NULL);
}
