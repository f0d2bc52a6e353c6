// Unfused: passes over memory that others spare are made all the same, of every method: the gradients and the peak
// are those of a step without them, to the bit, its operations and bytes are more, and each is planned as measured.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct taken {
    struct counters counters;
    size_t peak_bytes;
    double loss, *gradients;
};

static struct taken take_step(struct fixture *f, const struct method *method, const char *how, bool unfused)
{
    struct step_report report = {0};
    void *options = fixture_options(method, "%s", how);
    f->device->unfused = unfused;
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    struct taken taken = {f->device->counters, f->device->arena.peak_bytes, report.sums.loss,
                          f->device->ops->dataless ? NULL : fixture_gradients(f)};
    step_report_free(&report);
    options_free(&method->options, options);
    return taken;
}

// Operations of full backprop that are spared: of each layer a norm, and the copies of residuals that no norm or
// factor of an output stands before.
static uint64_t spared_by_full(const struct fixture *f)
{
    uint64_t spared = 0;
    for (size_t l = 0; l < f->config.layers; l++) {
        const struct layer *w = &f->model.layers[l];
        bool scaled = f->config.residual_scale != 0;
        bool onto = f->config.parallel; // the second block of a parallel layer adds to the first one's output
        spared +=
            (w->mixer.norm != NULL) + (!w->mixer.out_norm && !scaled && !onto) + (!w->mlp.out_norm && !scaled);
    }
    return spared;
}

static void check(struct fixture *f, struct fixture *plan, const struct method *method, const char *how)
{
    struct taken taken[2];
    for (int unfused = 0; unfused < 2; unfused++) {
        taken[unfused] = take_step(f, method, how, unfused);
        struct taken planned = take_step(plan, method, how, unfused);
        if (memcmp(&planned.counters, &taken[unfused].counters, sizeof planned.counters) != 0 ||
            planned.peak_bytes != taken[unfused].peak_bytes)
            fail_msg("%s %s, %s: not as planned", method->name, how, unfused ? "unfused" : "fused");
    }
    size_t bytes = f->gradient_count * sizeof *taken[0].gradients;
    if (taken[0].loss != taken[1].loss || memcmp(taken[0].gradients, taken[1].gradients, bytes) != 0)
        fail_msg("%s %s: other bits", method->name, how);
    // Layers without a norm of their input have nothing to spare.
    bool spares = f->model.layers[0].mixer.norm;
    bool fewer = taken[0].counters.launches < taken[1].counters.launches &&
                 taken[0].counters.bytes_moved < taken[1].counters.bytes_moved;
    if (taken[0].peak_bytes != taken[1].peak_bytes || taken[0].counters.flops != taken[1].counters.flops ||
        fewer != spares) {
        fail_msg("%s %s: peak %zu and %zu, %d and %d operations, %.0f and %.0f bytes", method->name, how,
                 taken[0].peak_bytes, taken[1].peak_bytes, (int)taken[0].counters.launches,
                 (int)taken[1].counters.launches, taken[0].counters.bytes_moved, taken[1].counters.bytes_moved);
    }
    if (strcmp(method->name, "full") == 0)
        assert_int_equal(taken[1].counters.launches - taken[0].counters.launches, spared_by_full(f));
    free(taken[0].gradients);
    free(taken[1].gradients);
}

static void the_same_with_more_passes(void **state)
{
    (void)state;
    static const char *const walks[] = {"chunk=5 budget=2", "chunk=64 keep=all budget=1",
                                        "chunk=7 segments=2 budget=3", "chunk=6 inner=checkpoint budget=2"};
    const size_t kinds = fixture_families() + 1; // the last one: Qwen3's norms
    for (size_t variant = 0; variant < 2 * kinds; variant++) {
        struct fixture f = fixture_default();
        struct status status = {0};
        fixture_choose_family(&f, variant % kinds);
        f.dtype = variant < kinds ? DTYPE_F32 : DTYPE_F64;
        f.config.layers = 3;
        f.config.qk_norm |= variant % kinds == kinds - 1;
        f.batch_size = 1 + variant % 2;
        f.context = 23;
        fixture_open(&f);
        struct fixture plan = f;
        struct trainer_options options = fixture_trainer_options(&f);
        plan.device = device_open("plan-cpu", f.dtype, 0, &status);
        assert_non_null(plan.device);
        trainer_open(&plan.trainer, &plan.model, &plan.config, &options, plan.device);
        fixture_open_batch(&f, plan.device, &plan.batch, (struct row_range){0, f.batch_size});
        for (const struct method *const *m = methods; *m; m++) {
            for (size_t w = variant % STRIDE; (*m)->exact && w < sizeof walks / sizeof *walks; w += STRIDE) {
                char far[80];
                snprintf(far, sizeof far, "%s offload=%s", walks[w], (*m)->by_layer ? "inputs" : "kv");
                check(&f, &plan, *m, walks[w]);
                if (strcmp((*m)->name, "full") != 0)
                    check(&f, &plan, *m, far);
            }
        }
        batch_close(&plan.batch, plan.device);
        trainer_close(&plan.trainer);
        device_close(plan.device);
        fixture_close(&f);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_with_more_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
