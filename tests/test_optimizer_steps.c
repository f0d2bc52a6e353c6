// Optimizers and steps: updates within the backward pass equal those after it, a step's memory is as planned, and
// resident bytes with Llama-3-8B are as derived.
#include "kernels/model/unit.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
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
    {"galore", "rank=5 interval=1"},
    {"galore", "rank=5 state=f32 form=torch"},
    {"galore", "rank=64 state=8bit round=stochastic"},
    {"galore", "rank=5 sums=projected"},
    {"galore", "rank=64 state=8bit sums=projected round=stochastic"},
    {"natural-galore", "rank=5 history=3"},
    {"natural-galore", "rank=5 sums=projected state=bf16"},
    {"bread-sgd", "interval=1"},
    {"bread-sgd", "interval=1 expand=above round=stochastic"},
    {"bread-lora", "interval=1"},
    {"bread-lora", "interval=1 expand=above factor_state=reset ratio=16"},
    {"adam8bit", "embedding_state=8bit"},
};

static const char *const whens[] = {" when=end", " when=backward"};

// The MLP's matrices, the embedding and the head have 4096 elements.
static void set_kind(struct fixture *f, const struct kind *kind, bool in_backward)
{
    const struct optimizer *optimizer = optimizer_find(kind->optimizer);
    f->config.width = f->config.ffn = f->config.vocab = WIDTH;
    if (!strstr(kind->optimizer, "galore")) // which refuses them
        fixture_set_experts(&f->config, 2, 4, 2);
    if (optimizer->lora == LORA_BESIDE)
        f->lora = (struct lora){.rank = 8, .alpha = 32, .targets = (1u << LORA_PROJECTIONS) - 1};
    fixture_set_optimizer(f, optimizer, "rate=0.05 decay=0.1 %s%s", kind->options, whens[in_backward]);
}

static void every_optimizer_is_tested(void **state)
{
    (void)state;
    for (size_t i = 0; optimizers[i]; i++) {
        size_t times = 0;
        for (size_t k = 0; k < COUNT(kinds); k++)
            times += optimizer_find(kinds[k].optimizer) == optimizers[i];
        assert_true(times > 0);
    }
}

static size_t gradient_bytes(const struct model *model, size_t unit)
{
    struct parameters parameters = unit_parameters(model, unit);
    size_t bytes = 0;
    for (size_t i = 0; i < parameters.count; i++)
        bytes += parameters.items[i].grad.data ? arena_rounded(tensor_bytes(parameters.items[i].grad)) : 0;
    return bytes;
}

// The most bytes of gradients where a unit's are complete; and of a unit, and where it is complete of all others
// but a tied table's.
struct recorder {
    struct unit_listener listener;
    size_t max, max_of_unit, others;
};

static void record(struct unit_listener *listener, struct model *model, size_t unit)
{
    struct recorder *recorder = (struct recorder *)listener;
    size_t now = model->device->arena.live_by_category[CATEGORY_GRADIENTS], own = gradient_bytes(model, unit);
    size_t table = model->config.tied && unit != UNIT_EMBEDDING ? gradient_bytes(model, UNIT_EMBEDDING) : 0;
    recorder->max = now > recorder->max ? now : recorder->max;
    recorder->max_of_unit = own > recorder->max_of_unit ? own : recorder->max_of_unit;
    recorder->others += now - own - table;
}

static void take_steps(struct fixture *f, const char *device, const struct method *method,
                       struct recorder *recorder)
{
    struct status status = {0};
    struct step_report report = {0};
    struct trainer_options model_options = fixture_trainer_options(f);
    void *options = fixture_options(method, "chunk=7 head_chunk=5 budget=2 sampler_seed=3");
    f->device = device_open(device, f->dtype, 0, &status);
    assert_non_null(f->device);
    trainer_open(&f->trainer, &f->model, &f->config, &model_options, f->device);
    random_weights_set(&f->model, f->seed, f->rounding);
    f->model.listener = recorder ? &recorder->listener : NULL;
    int32_t *ids = calloc(f->context * f->batch_size, sizeof *ids);
    batch_open(&f->batch, f->device, ids, NULL, f->context, f->batch_size);
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    for (size_t t = 1; t <= 2; t++)
        fixture_take_step(&f->trainer, method, &f->batch, options, t, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    options_free(&method->options, options);
    step_report_free(&report);
    free(ids);
}

static void steps_take_what_is_planned(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2 * COUNT(kinds); k += stride()) {
        for (const struct method *const *m = methods; *m; m++) {
            struct arena arenas[2], hosts[2];
            struct counters counters[2];
            for (size_t d = 0; d < 2; d++) {
                struct fixture f = fixture_default();
                f.dtype = DTYPE_BF16;
                f.context = 12;
                set_kind(&f, &kinds[k / 2], k % 2);
                take_steps(&f, d ? "plan-cpu" : "cpu", *m, NULL);
                arenas[d] = f.device->arena;
                hosts[d] = f.device->host;
                counters[d] = f.device->counters;
                fixture_close(&f);
            }
            if (arenas[0].peak_bytes != arenas[1].peak_bytes || hosts[0].peak_bytes != hosts[1].peak_bytes ||
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
            for (size_t s = 0; s < PARAMETER_STATES + 2; s++) {
                struct tensor t = s < PARAMETER_STATES    ? p->state[s]
                                  : s == PARAMETER_STATES ? p->projector
                                                          : p->value;
                if (t.data) {
                    all = realloc(all, (*count + tensor_count(t)) * sizeof *all);
                    assert_non_null(all);
                    tensor_read(f->device, t, all + *count);
                    *count += tensor_count(t);
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
    for (size_t k = 0; k < COUNT(kinds); k += stride()) {
        bool offered = option_find(&optimizer_find(kinds[k].optimizer)->options, "when");
        for (const struct method *const *m = methods; offered && *m; m++) {
            double *results[4];
            size_t counts[4];
            struct recorder recorders[4];
            bool tied = k % 2;
            for (size_t r = 0; r < COUNT(results); r++) {
                struct fixture f = fixture_default();
                f.dtype = DTYPE_BF16;
                f.context = 12;
                f.config.tied = tied;
                f.weights_place = r == 2 ? PLACE_HOST : PLACE_DEVICE;
                f.optimizer_place = r == 3 ? PLACE_HOST : PLACE_DEVICE;
                set_kind(&f, &kinds[k], r > 0);
                recorders[r] = (struct recorder){.listener.done = record};
                results[r] = trained(&f, *m, &recorders[r], &counts[r]);
                assert_true(r == 0 || f.device->arena.live_by_category[CATEGORY_GRADIENTS] == 0);
                fixture_close(&f);
            }
            for (size_t r = 1; r < COUNT(results); r++) {
                if (counts[r] != counts[0] || memcmp(results[r], results[0], counts[0] * sizeof(double)) != 0)
                    fail_msg("%s, %s %s, run %zu: other bits", (*m)->name, kinds[k].optimizer, kinds[k].options, r);
                if ((*m)->by_layer && strcmp((*m)->name, "null") != 0) {
                    assert_int_equal(recorders[r].others, 0);
                    assert_true(recorders[r].max_of_unit < recorders[0].max / 2);
                }
            }
            for (size_t r = 0; r < COUNT(results); r++)
                free(results[r]);
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
    for (size_t i = 0; i < f.model.parameter_count; i++)
        f.gradient_count += tensor_count(f.model.parameters[i].value);
    const struct method *streambp = method_find("streambp");
    void *options = options_new(&streambp->options);
    for (int i = 0; i < 2; i++) {
        fixture_take_step(&f.trainer, streambp, &f.batch, options, 0, &report);
        found = fixture_gradients(&f);
        assert_true(relative_l2(found, expected, f.gradient_count) < 1e-13);
        free(found);
    }
    trainer_zero(&f.trainer);
    assert_int_equal(f.device->arena.live_by_category[CATEGORY_GRADIENTS], 0);
    options_free(&streambp->options, options);
    step_report_free(&report);
    free(expected);
    fixture_close(&f);
}

// All weights after two steps.
static double *stepped(const struct kind *kind, double rate, double factor, size_t *count)
{
    struct fixture f = fixture_default();
    struct step_report report = {0};
    const struct method *full = method_find("full");
    void *options = options_new(&full->options);
    double *all = NULL;
    f.dtype = f.rounding = strstr(kind->options, "bf16") ? DTYPE_BF16 : DTYPE_F64;
    set_kind(&f, kind, false);
    *(double *)((char *)f.optimizer_options + option_find(&f.optimizer->options, "rate")->offset) = rate;
    fixture_open(&f);
    for (size_t t = 1; t <= 2; t++) {
        trainer_begin(&f.trainer, t, factor);
        trainer_zero(&f.trainer);
        method_step(full, &f.model, &f.batch, options, &report);
        trainer_update(&f.trainer);
    }
    *count = 0;
    for (size_t i = 0; i < f.model.parameter_count; i++) {
        struct tensor w = f.model.parameters[i].value;
        double *values = numbers_of(f.device, w);
        all = realloc(all, (*count + tensor_count(w)) * sizeof *all);
        assert_non_null(all);
        memcpy(all + *count, values, tensor_count(w) * sizeof *all);
        *count += tensor_count(w);
        free(values);
    }
    options_free(&full->options, options);
    step_report_free(&report);
    fixture_close(&f);
    return all;
}

// A schedule's factor of the rate and a rate that much lower are the same, bit for bit.
static void schedules_are_of_the_rate(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        size_t count, other;
        double *halved = stepped(&kinds[k], 0.05, 0.5, &count), *half = stepped(&kinds[k], 0.025, 1, &other);
        assert_int_equal(count, other);
        if (memcmp(halved, half, count * sizeof *half) != 0) {
            fail_msg("%s %s: largest difference %.2e", kinds[k].optimizer, kinds[k].options,
                     largest_difference(halved, half, count));
        }
        free(half);
        free(halved);
    }
}

static void a_state_that_the_model_cannot_have_is_refused(void **state)
{
    (void)state;
    struct config config = fixture_default().config;
    for (const struct optimizer *const *o = optimizers; *o; o++) {
        void *options = options_new(&(*o)->options);
        struct status status = {0};
        assert_true(!(*o)->check || (*o)->check(options, &config, DTYPE_F32, &status));
        options_set(&(*o)->options, options, "momentum", "0.5"); // of which sgd's state is
        if (options_set(&(*o)->options, options, "state", "bf16")) {
            assert_true((*o)->check(options, &config, DTYPE_BF16, &status));
            assert_false((*o)->check(options, &config, DTYPE_F32, &status));
            assert_non_null(strstr(status.message, "state \"bf16\" requires"));
            assert_true(options_set(&(*o)->options, options, "state", "gradient"));
        }
        static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
        bool rounds = options_set(&(*o)->options, options, "round", "stochastic");
        for (size_t d = 0; d < COUNT(dtypes); d++) {
            bool fine = !rounds || dtypes[d] == DTYPE_BF16;
            struct status why = {0};
            assert_int_equal(optimizer_check(*o, options, &config, dtypes[d], &why), fine);
            assert_true(fine || strstr(why.message, "round \"stochastic\" requires weights in bf16"));
        }
        options_free(&(*o)->options, options);
    }
}

// GiB of optimizer state and gradients, summed in f32, beside the weights of Llama-3-8B in bf16, 14.96 GiB. In the
// walk gradients of the embedding or the head are the most.
static void resident_bytes_are_those_derived(void **state)
{
    (void)state;
    static const struct {
        struct kind kind;
        double state_gib, gradients_gib, walked_gib; // behind the walk; in it, where that is offered
    } rows[] = {
        {{"sgd", ""}, 0, 29.92, 1.96},
        {{"sgd", "momentum=0.9"}, 29.92, 29.92, 1.96},
        {{"adamw", ""}, 59.83, 29.92, 1.96},
        {{"adamw", "master=f32"}, 89.75, 29.92, 1.96},
        {{"adamw", "state=bf16"}, 29.92, 29.92, 1.96},
        {{"adam8bit", ""}, 18.11, 29.92, 1.96},
        {{"adam8bit", "embedding_state=8bit"}, 15.19, 29.92, 1.96},
        {{"galore", "rank=128 state=bf16"}, 4.99, 29.92, 1.96},
        {{"galore", "rank=128 state=8bit"}, 2.62, 29.92, 1.96},
        {{"galore", "rank=256 state=bf16"}, 6.07, 29.92, 1.96},
        {{"galore", "rank=256 state=8bit"}, 3.25, 29.92, 1.96},
        {{"galore", "rank=1024 state=bf16"}, 12.54, 29.92, 1.96},
        {{"galore", "rank=1024 state=8bit"}, 7.04, 29.92, 1.96},
        {{"natural-galore", "rank=128 state=bf16"}, 14.06, 29.92, 1.96},
        {{"bcd", ""}, 2.44, 0.81, 0},
        {{"bread-sgd", ""}, 2.44, 26.00, 0.81},
        {{"bread-lora", ""}, 2.67, 0.89, 0}, // factors: 0.04 GiB of weights, 12 bytes of state each
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct status status = {0};
        struct fixture f = fixture_default();
        f.dtype = DTYPE_BF16;
        set_kind(&f, &rows[i].kind, false);
        f.config = *config_preset("llama-3-8b");
        struct trainer_options options = fixture_trainer_options(&f);
        f.device = device_open("plan-cuda", f.dtype, 0, &status);
        assert_non_null(f.device);
        trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
        const size_t *live = f.device->arena.live_by_category;
        double weights = 14.96 + (f.lora.rank ? 0.04 : 0);
        assert_true(fabs((double)live[CATEGORY_WEIGHTS] / 0x1p30 - weights) < 0.01);
        assert_true(fabs((double)live[CATEGORY_GRADIENTS] / 0x1p30 - rows[i].gradients_gib) < 0.01);
        double gib = (double)live[CATEGORY_OPTIMIZER] / 0x1p30;
        if (!(fabs(gib - rows[i].state_gib) < 0.01))
            fail_msg("%s %s: %.2f GiB of state", rows[i].kind.optimizer, rows[i].kind.options, gib);
        fixture_close(&f);
        if (!rows[i].walked_gib)
            continue;
        f = fixture_default();
        f.dtype = DTYPE_BF16;
        set_kind(&f, &rows[i].kind, true);
        f.config = *config_preset("llama-3-8b");
        struct recorder recorder = {.listener.done = record};
        take_steps(&f, "plan-cuda", method_find("checkpoint"), &recorder);
        assert_true(fabs((double)recorder.max / 0x1p30 - rows[i].walked_gib) < 0.01);
        fixture_close(&f);
    }
}

// The gradients that seco holds of Llama-3-8B where they are projected as they are summed: of embedding, head and
// gains as they are, of the longest matrix too, and of the others R.
static void projected_sums_take_what_is_derived(void **state)
{
    (void)state;
    static const size_t ranks[] = {128, 256, 1024};
    static const double gibs[] = {5.04, 5.95, 11.38}; // with the longest matrix's R beside itself
    for (size_t i = 0; i < COUNT(ranks); i++) {
        struct fixture f = fixture_default();
        f.dtype = DTYPE_BF16;
        fixture_set_optimizer(&f, optimizer_find("galore"), "rank=%zu sums=projected", ranks[i]);
        f.config = *config_preset("llama-3-8b");
        struct recorder recorder = {.listener.done = record};
        f.context = 4096;
        take_steps(&f, "plan-cuda", method_find("seco"), &recorder);
        assert_int_equal(f.device->status.code, STATUS_OK);
        double own = (double)(ranks[i] * f.config.ffn * sizeof(float));
        assert_true(fabs(((double)recorder.max + own) / 0x1p30 - gibs[i]) < 0.01);
        fixture_close(&f);
    }
}

// Weights and state of the 7B model of GaLore's Table 3, which prints 18 G for rank 1024 in 8 bits, and 26 G for
// 8-bit Adam.
static void published_memory_is_near(void **state)
{
    (void)state;
    static const struct {
        struct kind kind;
        double published_gib;
    } rows[] = {{{"galore", "rank=1024 state=8bit"}, 18}, {{"adam8bit", "embedding_state=8bit"}, 26}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct status status = {0};
        struct fixture f = fixture_default();
        f.dtype = DTYPE_BF16;
        set_kind(&f, &rows[i].kind, true);
        f.config = *config_preset("llama-3-8b");
        f.config.kinds[0].kv_heads = 32;
        f.config.ffn = 11008;
        f.config.vocab = 32000;
        struct trainer_options options = fixture_trainer_options(&f);
        f.device = device_open("plan-cuda", f.dtype, 0, &status);
        assert_non_null(f.device);
        trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
        const size_t *live = f.device->arena.live_by_category;
        double gib = (double)(live[CATEGORY_WEIGHTS] + live[CATEGORY_OPTIMIZER]) / 0x1p30;
        if (!(fabs(gib - rows[i].published_gib) < 0.05 * rows[i].published_gib))
            fail_msg("%s: %.2f GiB, published %g", rows[i].kind.optimizer, gib, rows[i].published_gib);
        fixture_close(&f);
    }
}

// BAdam, arXiv 2404.02827, Table 2: gigabytes of Llama-3-8B with a layer's gradient in f32, its copy and its
// moments.
static void bytes_are_those_that_badam_prints(void **state)
{
    (void)state;
    static const struct {
        enum category category;
        double gigabytes;
    } parts[] = {{CATEGORY_WEIGHTS, 16.1}, {CATEGORY_GRADIENTS, 0.9}, {CATEGORY_OPTIMIZER, 2.6}};
    static const struct kind bcd = {"bcd", ""};
    struct status status = {0};
    struct fixture f = fixture_default();
    f.dtype = DTYPE_BF16;
    set_kind(&f, &bcd, false);
    f.config = *config_preset("llama-3-8b");
    struct trainer_options options = fixture_trainer_options(&f);
    f.device = device_open("plan-cuda", f.dtype, 0, &status);
    assert_non_null(f.device);
    trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
    for (size_t i = 0; i < COUNT(parts); i++) {
        double found = (double)f.device->arena.live_by_category[parts[i].category] / 1e9;
        assert_true(fabs(found / parts[i].gigabytes - 1) < 0.05);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_is_tested),
        cmocka_unit_test(steps_take_what_is_planned),
        cmocka_unit_test(updates_in_the_walk_are_those_behind_it),
        cmocka_unit_test(a_walk_alone_leaves_gradients),
        cmocka_unit_test(schedules_are_of_the_rate),
        cmocka_unit_test(a_state_that_the_model_cannot_have_is_refused),
        cmocka_unit_test(resident_bytes_are_those_derived),
        cmocka_unit_test(bytes_are_those_that_badam_prints),
        cmocka_unit_test(projected_sums_take_what_is_derived),
        cmocka_unit_test(published_memory_is_near),
    };
    return cmocka_run_group_tests_name("optimizers and steps", tests, NULL, NULL);
}
