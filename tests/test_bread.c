// BREAD in both forms: without its additions it is block coordinate descent, bit for bit, every update is that of
// its optimizer, frozen weights stay, and states stay or go as the options say.
#include "kernels/model/unit.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { LAYERS = 4, TABLES = 2 };

static const struct lora factors = {.rank = 3, .alpha = 5, .targets = LORA_Q | LORA_V | LORA_DOWN};
static const struct {
    const char *method, *options;
} walks[] = {
    {"full", ""},
    {"checkpoint", "segments=2 offload=inputs"},
    {"streambp", "chunk=7 segment_starts=0,2 offload=inputs,input_gradients"},
    {"seco", "chunk=7"},
    {"seco", "chunk=7 segments=2"},
};

static struct fixture fixture_of(enum dtype dtype, struct lora lora, const char *optimizer, const char *options)
{
    struct fixture f = fixture_default();
    f.config.layers = LAYERS;
    f.config.qk_norm = f.config.qkv_bias = true;
    f.lora = lora;
    f.dtype = dtype;
    fixture_set_optimizer(&f, optimizer_find(optimizer), "rate=0.01 decay=0.1 %s", options);
    return f;
}

static void step(struct fixture *f, size_t t, const char *method, const char *text)
{
    const struct method *m = method_find(method);
    void *options = fixture_options(m, "%s", text);
    struct step_report report = {0};
    fixture_take_step(&f->trainer, m, &f->batch, options, t, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    options_free(&m->options, options);
    step_report_free(&report);
}

static double *read_values(const struct fixture *f, struct tensor t)
{
    double *values = malloc((tensor_count(t) + 1) * sizeof *values);
    assert_non_null(values);
    tensor_read(f->device, t, values);
    return values;
}

// Whether a parameter of one has the bits of another model's.
static bool is_equal(const struct fixture *f, const struct parameter *p, const struct fixture *g,
                     const struct parameter *q)
{
    double *a = read_values(f, p->value), *b = read_values(g, q->value);
    bool equal = memcmp(a, b, tensor_count(p->value) * sizeof *a) == 0;
    free(a);
    free(b);
    return equal;
}

// Every weight of g, which has no factors, is that of f.
static void expect_same_weights(const struct fixture *f, const struct fixture *g, const char *what)
{
    for (size_t i = 0; i < g->model.parameter_count; i++) {
        const struct parameter *q = &g->model.parameters[i], *p = model_parameter(&f->model, q->name);
        if (!is_equal(f, p, g, q))
            fail_msg("%s: %s has other bits", what, q->name);
    }
}

// Without the other layers' part what is left is bcd. A factor of 0, which no --lora has, is none of oneDNN's in
// bf16.
static void without_the_expansion_it_is_bcd(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    static const char *const turns[] = {"interval=2 order=descending", "interval=1 order=random round=stochastic"};
    struct lora nothing = factors;
    nothing.alpha = 0;
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        for (size_t w = 0; w < COUNT(walks); w++) {
            for (size_t o = 0; o < COUNT(turns); o++) {
                char sgd[100];
                bool rows = method_find(walks[w].method)->by_layer;
                snprintf(sgd, sizeof sgd, "%s ratio=0 when=%s", turns[o], rows ? "backward" : "end");
                struct fixture bcd = fixture_of(dtypes[d], (struct lora){0}, "bcd", turns[o]),
                               by_sgd = fixture_of(dtypes[d], (struct lora){0}, "bread-sgd", sgd),
                               by_lora = fixture_of(dtypes[d], nothing, "bread-lora", turns[o]);
                fixture_open(&bcd);
                fixture_open(&by_sgd);
                fixture_open(&by_lora);
                for (size_t t = 1; t <= 5; t++) {
                    step(&bcd, t, walks[w].method, walks[w].options);
                    step(&by_sgd, t, walks[w].method, walks[w].options);
                    if (dtypes[d] != DTYPE_BF16)
                        step(&by_lora, t, walks[w].method, walks[w].options);
                }
                expect_same_weights(&by_sgd, &bcd, "bread-sgd");
                if (dtypes[d] != DTYPE_BF16)
                    expect_same_weights(&by_lora, &bcd, "bread-lora");
                fixture_close(&bcd);
                fixture_close(&by_sgd);
                fixture_close(&by_lora);
            }
        }
    }
}

static bool is_in(const struct model *model, const struct parameter *p, size_t layer)
{
    return unit_of(model, p) == unit_of_layer(layer);
}

// Layer 1 is the active one: it moves as with AdamW, those above as with SGD, those below with `all` alone;
// embedding and head stay.
static void one_step_is_adamw_and_sgd(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT(walks); w++) {
        for (int above = 0; above < 2; above++) {
            char text[120];
            bool rows = method_find(walks[w].method)->by_layer;
            snprintf(text, sizeof text, "lowest=1 ratio=3 expand=%s when=%s master=none", above ? "above" : "all",
                     rows ? "backward" : "end");
            struct lora none = {0};
            struct fixture f = fixture_of(DTYPE_F64, none, "bread-sgd", text),
                           before = fixture_of(DTYPE_F64, none, "sgd", ""),
                           adamw = fixture_of(DTYPE_F64, none, "adamw", ""),
                           sgd = fixture_of(DTYPE_F64, none, "sgd", "");
            fixture_open(&f);
            fixture_open(&before);
            fixture_open(&adamw);
            fixture_open(&sgd);
            fixture_close(&sgd);
            sgd = fixture_default();
            sgd.config = f.config;
            fixture_set_optimizer(&sgd, optimizer_find("sgd"), "rate=0.03");
            fixture_open(&sgd);
            step(&f, 1, walks[w].method, walks[w].options);
            step(&adamw, 1, walks[w].method, walks[w].options);
            step(&sgd, 1, walks[w].method, walks[w].options);
            for (size_t i = 0; i < f.model.parameter_count; i++) {
                const struct parameter *p = &f.model.parameters[i];
                size_t unit = unit_of(&f.model, p);
                bool layer = unit >= unit_of_layer(0) && unit < unit_of_head(&f.model);
                const struct fixture *as = is_in(&f.model, p, 1)                          ? &adamw
                                           : layer && (!above || unit > unit_of_layer(1)) ? &sgd
                                                                                          : &before;
                if (!is_equal(&f, p, as, &as->model.parameters[i]))
                    fail_msg("%s %s, %s: %s has other bits", walks[w].method, walks[w].options, text, p->name);
            }
            fixture_close(&f);
            fixture_close(&before);
            fixture_close(&adamw);
            fixture_close(&sgd);
        }
    }
}

// Turns of two updates, upwards. After each update: what has moved since the last.
static void what_is_frozen_stays(void **state)
{
    (void)state;
    static const char *const expands[] = {"all", "above"};
    for (size_t w = 0; w < COUNT(walks); w++) {
        for (size_t e = 0; e < COUNT(expands); e++) {
            char text[64];
            snprintf(text, sizeof text, "interval=2 expand=%s", expands[e]);
            struct fixture f = fixture_of(DTYPE_F64, factors, "bread-lora", text);
            fixture_open(&f);
            double **before = calloc(f.model.parameter_count, sizeof *before);
            assert_non_null(before);
            for (size_t t = 1; t <= 2 * LAYERS; t++) {
                size_t active = (t - 1) / 2;
                for (size_t i = 0; i < f.model.parameter_count; i++)
                    before[i] = read_values(&f, f.model.parameters[i].value);
                step(&f, t, walks[w].method, walks[w].options);
                for (size_t i = 0; i < f.model.parameter_count; i++) {
                    const struct parameter *p = &f.model.parameters[i];
                    size_t unit = unit_of(&f.model, p), count = tensor_count(p->value);
                    bool layer = unit >= unit_of_layer(0) && unit < unit_of_head(&f.model);
                    bool moves = layer && (parameter_is_factor(p)
                                               ? e ? unit > unit_of_layer(active) : unit != unit_of_layer(active)
                                               : unit == unit_of_layer(active));
                    double *after = read_values(&f, p->value);
                    if ((memcmp(before[i], after, count * sizeof *after) != 0) != moves) {
                        fail_msg("%s %s, update %zu: %s %s", walks[w].method, walks[w].options, t, p->name,
                                 moves ? "stays" : "moves");
                    }
                    free(after);
                    free(before[i]);
                }
            }
            free(before);
            fixture_close(&f);
        }
    }
}

// States of layer 3's factor while layers 0 to 3, and 0 again, are active.
static void states_of_factors_stay_or_go(void **state)
{
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        struct fixture f =
            fixture_of(DTYPE_F64, factors, "bread-lora", reset ? "interval=1 factor_state=reset" : "interval=1");
        fixture_open(&f);
        const struct parameter *p =
            model_parameter(&f.model, "base_model.model.model.layers.3.self_attn.v_proj.lora_B.weight");
        for (size_t t = 1; t <= LAYERS + 1; t++) {
            double *before = t > 1 && p->state[0].data ? read_values(&f, p->state[0]) : NULL;
            trainer_begin(&f.trainer, t, 1);
            assert_int_equal(f.trainer.seen[3], reset ? 0 : t <= LAYERS ? t - 1 : LAYERS - 1);
            assert_true(p->trains == (t != 4));
            assert_true((p->state[0].data != NULL) == (!reset || t != 4)); // it rests, or is gone
            double *after = p->state[0].data ? read_values(&f, p->state[0]) : NULL;
            for (size_t i = 0; before && after && i < tensor_count(p->value); i++) {
                assert_true(after[i] == (reset ? 0 : before[i]));
                assert_true(before[i] != 0);
            }
            free(before);
            free(after);
            step(&f, t, "streambp", "chunk=7");
        }
        fixture_close(&f);
    }
}

// The factors' updates are AdamW's of all updates that they take part in; and with a higher rate of B B's alone are
// as many times as long.
static void factors_move_as_with_adamw(void **state)
{
    (void)state;
    struct fixture f = fixture_of(DTYPE_F64, factors, "bread-lora", "interval=1 order=descending ratio=1"),
                   g = fixture_of(DTYPE_F64, factors, "bread-lora", "interval=1 order=descending ratio=16"),
                   lora = fixture_of(DTYPE_F64, factors, "adamw", ""),
                   before = fixture_of(DTYPE_F64, factors, "adamw", "");
    fixture_open(&f);
    fixture_open(&g);
    fixture_open(&lora);
    fixture_open(&before);
    step(&f, 1, "full", "");
    step(&g, 1, "full", "");
    step(&lora, 1, "full", "");
    for (size_t i = 0; i < f.model.parameter_count; i++) {
        const struct parameter *p = &f.model.parameters[i];
        if (parameter_is_factor(p) && !is_in(&f.model, p, LAYERS - 1)) {
            assert_true(is_equal(&f, p, &lora, &lora.model.parameters[i]));
            double *was = read_values(&before, before.model.parameters[i].value),
                   *by_one = read_values(&f, p->value), *by_16 = read_values(&g, g.model.parameters[i].value);
            for (size_t k = 0; k < tensor_count(p->value); k++) {
                double times = strstr(p->name, "lora_A") ? 1 : 16;
                assert_true(fabs(by_16[k] - was[k] - times * (by_one[k] - was[k])) < 1e-12);
                assert_true(by_one[k] != was[k]);
            }
            free(by_16);
            free(by_one);
            free(was);
        }
    }
    fixture_close(&f);
    fixture_close(&g);
    fixture_close(&lora);
    fixture_close(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_expansion_it_is_bcd),
        cmocka_unit_test(one_step_is_adamw_and_sgd),
        cmocka_unit_test(what_is_frozen_stays),
        cmocka_unit_test(states_of_factors_stay_or_go),
        cmocka_unit_test(factors_move_as_with_adamw),
    };
    return cmocka_run_group_tests_name("BREAD", tests, NULL, NULL);
}
