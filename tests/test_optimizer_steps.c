// Optimizers and steps: updates in the walk are those behind it, what a step takes is as planned, and what is
// resident with Llama-3-8B is as derived.
#include "kernels/transformer/unit.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 64 };
#define COUNT(array) (sizeof(array) / sizeof *(array))

// Every optimizer, with the options that change what is kept.
static const struct kind {
    const char *optimizer, *options;
} kinds[] = {
    {"sgd", ""},
    {"sgd", "momentum=0.9"},
    {"adamw", ""},
    {"adamw", "state=f32 round=stochastic"},
    {"adamw", "state=bf16"},
    {"adamw", "master=f32"},
    {"adam8bit", "round=stochastic"},
    {"bcd", "order=descending interval=1"},
    {"bcd", "order=random seed=3 interval=1 master=none"},
};

static const char *const whens[] = {"", " when=walk"};

// The MLP's matrices have 4096 elements.
static void set_kind(struct fixture *f, const struct kind *kind, bool in_walk)
{
    f->config.width = f->config.ffn = WIDTH;
    fixture_set_optimizer(f, optimizer_find(kind->optimizer), "rate=0.05 decay=0.1 %s%s", kind->options,
                          whens[in_walk]);
}

static void every_optimizer_is_tested(void **state)
{
    (void)state;
    for (size_t i = 0; optimizers[i]; i++) {
        size_t times = 0;
        for (size_t k = 0; k < COUNT(kinds); k++) {
            times += optimizer_find(kinds[k].optimizer) == optimizers[i];
        }
        assert_true(times > 0);
    }
}

// The most bytes of gradients where a unit's are complete.
struct recorder {
    struct unit_listener listener;
    size_t most;
};

static void record(struct unit_listener *listener, struct model *model, size_t unit)
{
    (void)unit;
    struct recorder *recorder = (struct recorder *)listener;
    size_t now = model->device->arena.live_by_category[CATEGORY_GRADIENTS];
    recorder->most = now > recorder->most ? now : recorder->most;
}

static void take_steps(struct fixture *f, const char *device, const struct method *method,
                       struct recorder *recorder)
{
    struct status status = {0};
    struct step_report report = {0};
    struct model_options model_options = fixture_model_options(f);
    void *options = fixture_options(method, "chunk=7 head_chunk=5 budget=2 sampler_seed=3");
    f->device = device_open(device, f->dtype, 0, &status);
    assert_non_null(f->device);
    model_open(&f->model, &f->config, &model_options, f->device);
    model_randomize(&f->model, f->seed, f->rounding);
    f->model.listener = recorder ? &recorder->listener : NULL;
    int32_t *ids = calloc(f->context * f->batch_size, sizeof *ids);
    batch_open(&f->batch, f->device, ids, NULL, f->context, f->batch_size);
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    for (size_t t = 1; t <= 2; t++) {
        optimizer_begin(&f->model, t, 1);
        model_zero_gradients(&f->model);
        method_step(method, &f->model, &f->batch, options, &report);
        optimizer_step(&f->model);
    }
    assert_int_equal(f->device->status.code, STATUS_OK);
    options_free(&method->options, options);
    step_report_free(&report);
    free(ids);
}

static void steps_take_what_is_planned(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2 * COUNT(kinds); k++) {
        for (const struct method *const *m = methods; *m; m++) {
            struct arena arenas[2];
            struct counters counters[2];
            for (size_t d = 0; d < 2; d++) {
                struct fixture f = fixture_default();
                f.dtype = DTYPE_BF16;
                f.context = 12;
                set_kind(&f, &kinds[k / 2], k % 2);
                take_steps(&f, d ? "plan-cpu" : "cpu", *m, NULL);
                arenas[d] = f.device->arena;
                counters[d] = f.device->counters;
                fixture_close(&f);
            }
            if (arenas[0].peak_bytes != arenas[1].peak_bytes ||
                memcmp(arenas[0].peak_by_category, arenas[1].peak_by_category, sizeof arenas[0].peak_by_category) !=
                    0 ||
                memcmp(&counters[0], &counters[1], sizeof counters[0]) != 0) {
                fail_msg("%s, %s %s%s: planned peak %zu bytes, measured %zu", (*m)->name, kinds[k / 2].optimizer,
                         kinds[k / 2].options, whens[k % 2], arenas[1].peak_bytes, arenas[0].peak_bytes);
            }
        }
    }
}

// Weights and states after two steps.
static double *trained(struct fixture *f, const struct method *method, struct recorder *recorder, size_t *count)
{
    double *all = NULL;
    take_steps(f, "cpu", method, recorder);
    *count = 0;
    for (size_t unit = 0; unit < unit_count(&f->model); unit++) {
        struct parameters parameters = unit_parameters(&f->model, unit);
        unit_acquire(&f->model, unit);
        for (size_t i = 0; i < parameters.count; i++) {
            const struct parameter *p = &parameters.items[i];
            const struct tensor tensors[] = {p->value, p->state[0], p->state[1], p->state[2], p->state[3]};
            for (size_t s = 0; s < COUNT(tensors); s++) {
                if (tensors[s].data) {
                    all = realloc(all, (*count + tensor_count(tensors[s])) * sizeof *all);
                    assert_non_null(all);
                    tensor_read(f->device, tensors[s], all + *count);
                    *count += tensor_count(tensors[s]);
                }
            }
        }
        unit_release(&f->model, unit);
    }
    return all;
}

// The bits of updates within the walk are those of updates behind it, wherever weights and states are kept; and
// where rows are walked the gradients of one unit are alive at a time, and those of a tied table.
static void updates_in_the_walk_are_those_behind_it(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        bool offered = option_find(&optimizer_find(kinds[k].optimizer)->options, "when");
        for (const struct method *const *m = methods; offered && *m; m++) {
            double *results[4];
            size_t counts[4], peaks[4], largest = 0, table = 0;
            bool tied = k % 2;
            for (size_t r = 0; r < COUNT(results); r++) {
                struct fixture f = fixture_default();
                f.dtype = DTYPE_BF16;
                f.context = 12;
                f.config.tied = tied;
                f.weights_place = r == 2 ? PLACE_HOST : PLACE_DEVICE;
                f.optimizer_place = r == 3 ? PLACE_HOST : PLACE_DEVICE;
                set_kind(&f, &kinds[k], r > 0);
                struct recorder recorder = {.listener.done = record};
                results[r] = trained(&f, *m, &recorder, &counts[r]);
                peaks[r] = recorder.most;
                for (size_t unit = 0; unit < unit_count(&f.model); unit++) {
                    struct parameters parameters = unit_parameters(&f.model, unit);
                    size_t bytes = 0;
                    for (size_t i = 0; i < parameters.count; i++) {
                        bytes += arena_rounded(tensor_count(parameters.items[i].value) * sizeof(float));
                        assert_true(r == 0 || !parameters.items[i].grad.data);
                    }
                    table = unit == UNIT_EMBEDDING ? bytes : table;
                    largest = unit > UNIT_EMBEDDING && bytes > largest ? bytes : largest;
                }
                fixture_close(&f);
            }
            for (size_t r = 1; r < COUNT(results); r++) {
                if (counts[r] != counts[0] || memcmp(results[r], results[0], counts[0] * sizeof(double)) != 0) {
                    fail_msg("%s, %s %s, run %zu: other bits", (*m)->name, kinds[k].optimizer, kinds[k].options, r);
                }
                if ((*m)->rows && strcmp((*m)->name, "null") != 0) {
                    assert_int_equal(peaks[r], tied ? table + largest : largest > table ? largest : table);
                }
            }
            for (size_t r = 0; r < COUNT(results); r++) {
                free(results[r]);
            }
        }
    }
}

// A walk without an update leaves the gradients where they can be read; the next one begins with none.
static void a_walk_alone_leaves_gradients(void **state)
{
    (void)state;
    struct step_report report = {0};
    struct fixture f = fixture_default();
    set_kind(&f, &kinds[0], false);
    fixture_open(&f);
    double *expected = fixture_step(&f, "full", NULL, &report), *found;
    fixture_close(&f);
    f = fixture_default();
    set_kind(&f, &kinds[0], true);
    fixture_open(&f);
    for (size_t i = 0; i < f.model.parameter_count; i++) {
        f.gradient_count += tensor_count(f.model.parameters[i].value);
    }
    const struct method *streambp = method_find("streambp");
    void *options = options_new(&streambp->options);
    for (int i = 0; i < 2; i++) {
        model_zero_gradients(&f.model);
        method_step(streambp, &f.model, &f.batch, options, &report);
        found = fixture_gradients(&f);
        assert_true(relative_l2(found, expected, f.gradient_count) < 1e-13);
        free(found);
    }
    model_zero_gradients(&f.model);
    assert_int_equal(f.device->arena.live_by_category[CATEGORY_GRADIENTS], 0);
    options_free(&streambp->options, options);
    step_report_free(&report);
    free(expected);
    fixture_close(&f);
}

static void a_state_that_the_model_cannot_have_is_refused(void **state)
{
    (void)state;
    struct config config = fixture_default().config;
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        void *options = options_new(&(*o)->options);
        struct status status = {0};
        assert_true(!(*o)->check || (*o)->check(options, &config, DTYPE_F32, &status));
        if (options_set(&(*o)->options, options, "state", "bf16")) {
            assert_true((*o)->check(options, &config, DTYPE_BF16, &status));
            assert_false((*o)->check(options, &config, DTYPE_F32, &status));
            assert_non_null(strstr(status.message, "state \"bf16\" is of a model in bf16"));
        }
        options_free(&(*o)->options, options);
    }
}

// GiB of optimizer state beside the weights of Llama-3-8B in bf16, gradients summed in f32: 14.96 GiB of weights;
// of gradients 29.92 behind the walk, and in it, of the embedding or the head, 1.96.
static void resident_bytes_are_those_derived(void **state)
{
    (void)state;
    static const struct {
        struct kind kind;
        double state_gib;
    } rows[] = {
        {{"sgd", ""}, 0},
        {{"sgd", "momentum=0.9"}, 29.92},
        {{"adamw", ""}, 59.83},
        {{"adamw", "master=f32"}, 89.75},
        {{"adamw", "state=bf16"}, 29.92},
        {{"adam8bit", ""}, 15.19},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct status status = {0};
        struct fixture f = fixture_default();
        f.dtype = DTYPE_BF16;
        set_kind(&f, &rows[i].kind, false);
        f.config = *config_preset("llama-3-8b");
        struct model_options options = fixture_model_options(&f);
        f.device = device_open("plan-cuda", f.dtype, 0, &status);
        assert_non_null(f.device);
        model_open(&f.model, &f.config, &options, f.device);
        const size_t *live = f.device->arena.live_by_category;
        assert_true(fabs((double)live[CATEGORY_WEIGHTS] / 0x1p30 - 14.96) < 0.01);
        assert_true(fabs((double)live[CATEGORY_GRADIENTS] / 0x1p30 - 29.92) < 0.01);
        double gib = (double)live[CATEGORY_OPTIMIZER] / 0x1p30;
        if (!(fabs(gib - rows[i].state_gib) < 0.01)) {
            fail_msg("%s %s: %.2f GiB of state", rows[i].kind.optimizer, rows[i].kind.options, gib);
        }
        fixture_close(&f);
        f = fixture_default();
        f.dtype = DTYPE_BF16;
        set_kind(&f, &rows[i].kind, true);
        f.config = *config_preset("llama-3-8b");
        struct recorder recorder = {.listener.done = record};
        take_steps(&f, "plan-cuda", method_find("checkpoint"), &recorder);
        assert_true(fabs((double)recorder.most / 0x1p30 - 1.96) < 0.01);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_is_tested),
        cmocka_unit_test(steps_take_what_is_planned),
        cmocka_unit_test(updates_in_the_walk_are_those_behind_it),
        cmocka_unit_test(a_walk_alone_leaves_gradients),
        cmocka_unit_test(a_state_that_the_model_cannot_have_is_refused),
        cmocka_unit_test(resident_bytes_are_those_derived),
    };
    return cmocka_run_group_tests_name("optimizers and steps", tests, NULL, NULL);
}
