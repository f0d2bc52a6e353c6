// Block coordinate descent: under every method the gradient of the active layer is that of full backprop, no other
// layer has one or changes, and a layer's first update is AdamW's; layers become active in the given order.
#include "kernels/model/unit.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { LAYERS = 4 };

static const struct lora factors = {.rank = 3, .alpha = 5, .targets = LORA_Q | LORA_V | LORA_DOWN};

static struct fixture fixture_with(struct lora lora, const char *optimizer, const char *options)
{
    struct fixture f = fixture_default();
    f.lora = lora;
    f.config.layers = LAYERS;
    f.config.tied = true;
    f.config.qk_norm = f.config.qkv_bias = true;
    if (optimizer)
        fixture_set_optimizer(&f, optimizer_find(optimizer), "%s", options);
    return f;
}

static struct fixture fixture_of(const char *optimizer, const char *options)
{
    return fixture_with((struct lora){0}, optimizer, options);
}

static double *read_values(struct fixture *f, struct tensor t)
{
    double *values = malloc((tensor_count(t) + 1) * sizeof *values);
    assert_non_null(values);
    tensor_read(f->device, t, values);
    return values;
}

static void walk(struct fixture *f, const struct method *method, const char *text)
{
    void *options = fixture_options(method, "%s", text);
    struct step_report report = {0};
    size_t live = f->device->arena.live_bytes, host = f->device->host.live_bytes;
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    assert_int_equal(f->device->arena.live_bytes, live);
    assert_int_equal(f->device->host.live_bytes, host);
    options_free(&method->options, options);
    step_report_free(&report);
}

static const struct {
    const char *method, *options;
} walks[] = {
    {"full", "head_chunk=5"},
    {"checkpoint", ""},
    {"checkpoint", "segments=2 offload=inputs"},
    {"checkpoint", "segment_starts=0,1,3"},
    {"streambp", "chunk=7"},
    {"streambp", "chunk=7 segments=2 offload=inputs"},
    {"streambp", "chunk=7 segment_starts=0,2 offload=inputs,input_gradients"},
    {"seco", "chunk=7"},
    {"seco", "chunk=7 inner=checkpoint"},
    {"seco", "chunk=7 segments=2 offload=kv"},
    {"seco", "chunk=7 segment_starts=0,1,3"},
    {"spaco", "chunk=7 budget=4 loss=all"},
};

// Every unit once.
struct counter {
    struct unit_listener listener;
    size_t done[LAYERS + 2];
};

static void count_done(struct unit_listener *listener, struct model *model, size_t unit)
{
    (void)model;
    ((struct counter *)listener)->done[unit]++;
}

static void check_gradients(struct lora lora)
{
    struct fixture whole = fixture_with(lora, NULL, NULL);
    fixture_open(&whole);
    walk(&whole, method_find("full"), "");
    for (size_t w = 0; w < COUNT(walks); w++) {
        struct fixture f = fixture_with(lora, "bcd", "interval=1");
        fixture_open(&f);
        for (size_t t = 1; t <= LAYERS; t++) {
            struct counter counter = {.listener.done = count_done};
            f.model.listener = &counter.listener;
            trainer_begin(&f.trainer, t, 1);
            walk(&f, method_find(walks[w].method), walks[w].options);
            for (size_t unit = 0; unit < LAYERS + 2; unit++) {
                struct parameters parameters = unit_parameters(&f.model, unit);
                assert_int_equal(counter.done[unit], 1);
                for (size_t i = 0; i < parameters.count; i++) {
                    struct parameter *p = &parameters.items[i];
                    if (unit != unit_of_layer(t - 1) || (lora.rank && !strstr(p->name, "lora_"))) {
                        assert_null(p->grad.data);
                        assert_null(p->state[0].data);
                        continue;
                    }
                    const struct parameter *of = model_parameter(&whole.model, p->name);
                    double *found = read_values(&f, p->grad), *expected = read_values(&whole, of->grad);
                    double error = relative_l2(found, expected, tensor_count(p->grad));
                    if (!(error < 1e-13))
                        fail_msg("%s %s: %s is off by %.1e", walks[w].method, walks[w].options, p->name, error);
                    free(found);
                    free(expected);
                }
            }
        }
        fixture_close(&f);
    }
    fixture_close(&whole);
}

static void the_gradient_is_that_of_full(void **state)
{
    (void)state;
    check_gradients((struct lora){0});
    check_gradients(factors);
}

// The lowest layer that trains computes no gradient of its input. If its norm trains, the gradient reaches the
// norm, and for LoRA not even that: compared with a step that trains all factors, three projections' products are
// missing besides gradients of factors.
static void a_pass_ends_at_the_projections(void **state)
{
    (void)state;
    struct fixture all = fixture_with(factors, "adamw", ""), one = fixture_with(factors, "bcd", "");
    fixture_open(&all);
    fixture_open(&one);
    const struct config *c = &all.config;
    double n = (double)(all.context * all.batch_size), d = (double)c->width, r = (double)factors.rank;
    double q = (double)(c->kinds[0].heads * c->kinds[0].head_dim),
           kv = (double)(c->kinds[0].kv_heads * c->kinds[0].head_dim);
    // grad_y B is one product, for the factors and for the input.
    double of_factors = 2 * n * r * ((2 * d + q) + (2 * d + kv) + (2 * (double)c->ffn + d)) * (LAYERS - 1);
    double of_inputs = 2 * n * d * (q + 2 * kv) + 2 * n * r * (d + d);
    all.device->counters = one.device->counters = (struct counters){0};
    walk(&all, method_find("full"), "");
    walk(&one, method_find("full"), "");
    assert_true(all.device->counters.flops - one.device->counters.flops == of_factors + of_inputs);
    fixture_close(&all);
    fixture_close(&one);
}

// With the bits of full backprop for both.
static void an_update_is_that_of_adamw_on_one_layer(void **state)
{
    (void)state;
    struct fixture before = fixture_of(NULL, NULL), all = fixture_of("adamw", "rate=0.01 decay=0.1"),
                   one = fixture_of("bcd", "rate=0.01 decay=0.1 interval=2 order=descending master=none");
    fixture_open(&before);
    fixture_open(&all);
    fixture_open(&one);
    for (size_t t = 1; t <= 2; t++) { // the same gradients twice
        trainer_begin(&one.trainer, t, 1);
        trainer_begin(&all.trainer, t, 1);
        if (t == 1) {
            walk(&all, method_find("full"), "");
            walk(&one, method_find("full"), "");
        }
        trainer_update(&all.trainer);
        trainer_update(&one.trainer);
    }
    for (size_t unit = 0; unit < LAYERS + 2; unit++) {
        struct parameters parameters = unit_parameters(&one.model, unit);
        for (size_t i = 0; i < parameters.count; i++) {
            bool active = unit == unit_of_layer(LAYERS - 1);
            struct fixture *as = active ? &all : &before;
            const struct parameter *p = &parameters.items[i], *of = model_parameter(&as->model, p->name);
            double *found = read_values(&one, p->value), *expected = read_values(as, of->value);
            assert_memory_equal(found, expected, tensor_count(p->value) * sizeof *found);
            free(found);
            free(expected);
        }
    }
    // The next layer's turn: its state is new.
    trainer_begin(&one.trainer, 3, 1);
    assert_int_equal(one.model.lowest_trained, LAYERS - 2);
    assert_int_equal(one.trainer.update.age, 1);
    const struct parameter *p = one.model.layers[LAYERS - 2].mlp.out->weight;
    double *moment = read_values(&one, p->state[0]);
    for (size_t i = 0; i < tensor_count(p->value); i++)
        assert_true(moment[i] == 0);
    free(moment);
    fixture_close(&before);
    fixture_close(&all);
    fixture_close(&one);
}

static void blocks_are_active_in_order(void **state)
{
    (void)state;
    struct fixture f = fixture_of("bcd", "interval=3 lowest=1");
    fixture_open(&f);
    for (size_t t = 1; t <= 30; t++) {
        trainer_begin(&f.trainer, t, 1);
        assert_int_equal(f.model.lowest_trained, 1 + (t - 1) / 3 % (LAYERS - 1));
        assert_int_equal(f.trainer.update.age, (t - 1) % 3 + 1);
    }
    fixture_close(&f);
    size_t turns[8 * LAYERS];
    bool differs = false;
    f = fixture_of("bcd", "interval=1 order=random seed=5");
    fixture_open(&f);
    for (size_t round = 0; round < 8; round++) {
        size_t seen = 0;
        for (size_t i = 0; i < LAYERS; i++) {
            trainer_begin(&f.trainer, round * LAYERS + i + 1, 1);
            seen |= (size_t)1 << f.model.lowest_trained;
            turns[round * LAYERS + i] = f.model.lowest_trained;
            differs |= turns[round * LAYERS + i] != turns[i];
        }
        assert_int_equal(seen, (1 << LAYERS) - 1);
    }
    assert_true(differs);
    for (size_t t = 8 * LAYERS; t > 0; t--) { // the same, whatever came before
        trainer_begin(&f.trainer, t, 1);
        assert_int_equal(f.model.lowest_trained, turns[t - 1]);
    }
    fixture_close(&f);
}

// Rows below the layer that trains keep nothing: what a walk takes falls from layer 1 to the highest, and is less
// there than for layer 0, whose input is the embedding.
static void less_is_kept_above(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT(walks); w++) {
        size_t peaks[LAYERS];
        double flops[LAYERS];
        struct fixture f = fixture_of("bcd", "interval=1");
        fixture_open(&f);
        for (size_t t = 1; t <= LAYERS; t++) {
            trainer_begin(&f.trainer, t, 1);
            arena_reset_peak(&f.device->arena);
            arena_reset_peak(&f.device->host);
            f.device->counters = (struct counters){0};
            walk(&f, method_find(walks[w].method), walks[w].options);
            peaks[t - 1] = f.device->arena.peak_bytes + f.device->host.peak_bytes;
            flops[t - 1] = f.device->counters.flops;
        }
        for (size_t l = 1; l < LAYERS; l++) {
            if (!(flops[l] < flops[l - 1] && (l == 1 || peaks[l] <= peaks[l - 1]))) {
                fail_msg("%s %s: layer %zu takes %zu bytes, the one below %zu", walks[w].method, walks[w].options,
                         l, peaks[l], peaks[l - 1]);
            }
        }
        assert_true(peaks[LAYERS - 1] < peaks[0]);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_is_that_of_full),
        cmocka_unit_test(a_pass_ends_at_the_projections),
        cmocka_unit_test(an_update_is_that_of_adamw_on_one_layer),
        cmocka_unit_test(blocks_are_active_in_order),
        cmocka_unit_test(less_is_kept_above),
    };
    return cmocka_run_group_tests_name("block coordinate descent", tests, NULL, NULL);
}
