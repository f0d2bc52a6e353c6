// Layers of made-up kinds (running_sum.c, gated.c), alone and in turn with attention and dense MLPs, under every
// method: gradients are those of full backprop; work and peak are as planned, and the peak grows by no less than
// the lower bound. The suites that tests/check_new_block runs besides have these kinds in place of the others.
#include "harness/step/ranks_possible.h"
#include "kernels/model/flops.h"
#include "tests/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LAYERS 6

// Numbers in mixers[] and mlps[] by layer: 0 is the made-up one.
static const uint8_t blocks[][2][LAYERS] = {
    {{0}, {0}}, {{0, 0, 1, 0, 0, 1}, {0}}, {{1, 1, 1, 0, 1, 1}, {0, 1, 1, 1, 1, 0}}, {{1, 1, 1, 1, 1, 1}, {0}}};
#define KINDS (sizeof blocks / sizeof *blocks)

static void set_blocks(struct config *config, size_t index)
{
    for (size_t k = 0; k < CONFIG_KINDS; k++) {
        config->kinds[k] = config->kinds[0];
        config->kinds[k].mixer = k / 2;
        config->kinds[k].mlp = k % 2;
    }
    for (size_t l = 0; l < LAYERS; l++)
        config->kind_of[l] = (uint8_t)(2 * blocks[index][0][l] + blocks[index][1][l]);
}

static struct fixture fixture_of(size_t index, const char *device)
{
    struct fixture f = fixture_default();
    f.config.layers = LAYERS;
    f.config.norms = index == 1 ? NORMS_AROUND : index == 2 ? NORMS_AFTER : NORMS_BEFORE;
    set_blocks(&f.config, index);
    f.device_name = device;
    return f;
}

struct taken {
    struct counters counters;
    size_t peak_bytes;
    double loss, *gradients;
};

static struct taken take_step(struct fixture *f, const struct method *method, void *options)
{
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    struct taken taken = {f->device->counters, f->device->arena.peak_bytes, report.sums.loss,
                          f->device->ops->dataless ? NULL : fixture_gradients(f)};
    step_report_free(&report);
    return taken;
}

// Whether the method offloads that, if it is asked to.
static bool takes(const struct method *method, const char *text)
{
    const struct option *option = option_find(&method->options, "offload");
    const char *asked = strstr(text, "offload=");
    char last[32] = "";
    if (strstr(text, "segments=") && !option_find(&method->options, "segments"))
        return false;
    if (asked)
        sscanf(asked, strchr(asked, ',') ? "offload=%*[^,],%31[^ ]" : "offload=%31[^ ]", last);
    return !asked || (option && option_offers(option, last));
}

static void check(struct fixture *f, struct fixture *plan, const struct method *method, const char *text,
                  const struct taken *full)
{
    void *options = fixture_options(method, "%s", text);
    if (method->make_exact)
        method->make_exact(options, f->context);
    struct taken taken = take_step(f, method, options), planned = take_step(plan, method, options);
    double error = relative_l2(taken.gradients, full->gradients, f->gradient_count);
    if (!method->no_gradient && !(error <= 1e-13))
        fail_msg("%s %s: relative L2 %.2e", method->name, text, error);
    if (memcmp(&planned.counters, &taken.counters, sizeof planned.counters) != 0 ||
        planned.peak_bytes != taken.peak_bytes)
        fail_msg("%s %s: peak %zu, planned %zu; %.0f FLOPs, planned %.0f", method->name, text, taken.peak_bytes,
                 planned.peak_bytes, taken.counters.flops, planned.counters.flops);
    free(taken.gradients);
    options_free(&method->options, options);
}

static void every_method_takes_every_kind(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk=4",
                                        "chunk=5 segments=2 keep=all",
                                        "chunk=4 segments=3 inner=checkpoint",
                                        "chunk=23 attention=kept segments=2",
                                        "chunk=6 offload=kv segments=2",
                                        "chunk=4 offload=kv inner=checkpoint",
                                        "chunk=7 offload=inputs segments=3",
                                        "chunk=5 offload=inputs,input_gradients"};
    for (size_t i = 0; i < KINDS; i++) {
        struct fixture f = fixture_of(i, "cpu"), plan = fixture_of(i, "plan-cpu");
        fixture_open(&f);
        fixture_open(&plan);
        void *defaults = options_new(&method_find("full")->options);
        struct taken full = take_step(&f, method_find("full"), defaults);
        for (const struct method *const *m = methods; *m; m++)
            for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
                if (takes(*m, texts[j]))
                    check(&f, &plan, *m, texts[j], &full);
        if (i == 0)
            assert_true(full.counters.flops == model_flops(&f.config, &f.lora, &f.batch));
        free(full.gradients);
        options_free(&method_find("full")->options, defaults);
        fixture_close(&plan);
        fixture_close(&f);
    }
}

// In the tiny preset's sizes, where activations outgrow what a step takes besides.
static void the_peak_grows_by_the_lower_bound(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "segments=2", "segments=3 attention=kept", "segments=2 offload=kv"};
    for (size_t i = 0; i < KINDS * (sizeof texts / sizeof *texts); i++) {
        for (const struct method *const *m = methods; *m; m++) {
            double lower_bound = 0;
            size_t peaks[2] = {0};
            for (size_t j = 0; takes(*m, texts[i / KINDS]) && j < 2; j++) {
                struct fixture f = fixture_of(i % KINDS, "plan-cpu");
                struct config sizes = *config_preset("tiny");
                set_blocks(&sizes, i % KINDS);
                sizes.layers = LAYERS;
                f.config = sizes;
                f.context = 2048 << j;
                f.batch_size = 1;
                fixture_open(&f);
                void *options = fixture_options(*m, "chunk=128 head_chunk=128 budget=%zu deferral=1 %s",
                                                f.context / 128, texts[i / KINDS]);
                peaks[j] = take_step(&f, *m, options).peak_bytes;
                lower_bound = (*m)->lower_bound_bytes_per_token(&f.model, options, f.context);
                options_free(&(*m)->options, options);
                fixture_close(&f);
            }
            double growth = (double)(peaks[1] - peaks[0]) / 2048;
            if (!(growth >= lower_bound && (growth <= 1.25 * lower_bound || lower_bound == 0 || i % KINDS > 0)))
                fail_msg("kinds %zu, %s %s: %.0f bytes per token, lower bound %.0f", i % KINDS, (*m)->name,
                         texts[i / KINDS], growth, lower_bound);
        }
    }
}

static void ranks_do_not_share_tokens_of_a_state(void **state)
{
    (void)state;
    struct fixture f = fixture_of(2, "cpu");
    const struct method *full = method_find("full");
    void *options = options_new(&full->options);
    struct trial trial = {.config = f.config, .method = full, .options = options};
    trial.parallel.data = trial.parallel.stage = 1;
    trial.parallel.sequence = 2;
    struct status status = {0};
    assert_false(ranks_fit(&trial, &status));
    assert_string_equal(status.message,
                        "layer 3, running_sum, takes no sequence ranks: leave parallel.sequence out");
    options_free(&full->options, options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_method_takes_every_kind),
                                       cmocka_unit_test(the_peak_grows_by_the_lower_bound),
                                       cmocka_unit_test(ranks_do_not_share_tokens_of_a_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
