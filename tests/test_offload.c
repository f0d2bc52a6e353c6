// Offload: a step with offloaded tensors has the same gradients, bit for bit, and the moved and host bytes of the
// formulas; planned as measured. Late copies show a missing wait.
#include "harness/machine/environment.h"
#include "kernels/device/ops.h"
#include "tests/fixture.h"
#include "tests/late.h"
#include "tests/offloaded.h"
#include "tests/sanitized.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double *gradients(struct fixture *f, const struct setting *setting, bool offloads, const char *text)
{
    void *options = options_with(setting, offloads, text);
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    arena_reset_peak(&f->device->host);
    double *found = fixture_step(f, setting->method, options, &report);
    options_done(setting, options);
    assert_int_equal(f->device->host.live_bytes, 0);
    step_report_free(&report);
    return found;
}

// The same step on the plan: its counters and its arenas.
static void plan(const struct fixture *f, const struct setting *setting, bool offloads, const char *text,
                 struct device *copy)
{
    struct status status = {0};
    struct fixture planned = *f;
    void *options = options_with(setting, offloads, text);
    struct step_report report = {0};
    struct trainer_options model_options = fixture_trainer_options(f);
    planned.device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(planned.device);
    trainer_open(&planned.trainer, &planned.model, &planned.config, &model_options, planned.device);
    batch_open(&planned.batch, planned.device, NULL, NULL, f->context, f->batch_size);
    fixture_set_documents(f, planned.device, &planned.batch, 0);
    planned.device->counters = (struct counters){0};
    trainer_zero(&planned.trainer); // as the fixture does
    method_step(method_find(setting->method), &planned.model, &planned.batch, options, &report);
    options_done(setting, options);
    assert_int_equal(planned.device->status.code, STATUS_OK);
    *copy = *planned.device;
    step_report_free(&report);
    batch_close(&planned.batch, planned.device);
    trainer_close(&planned.trainer);
    device_close(planned.device);
}

static void assert_planned(const struct fixture *f, const struct setting *setting, bool offloads, const char *text)
{
    struct device planned;
    plan(f, setting, offloads, text, &planned);
    assert_int_equal(planned.arena.peak_bytes, f->device->arena.peak_bytes);
    assert_memory_equal(planned.arena.peak_by_category, f->device->arena.peak_by_category,
                        sizeof planned.arena.peak_by_category);
    assert_int_equal(planned.host.peak_bytes, f->device->host.peak_bytes);
    assert_memory_equal(planned.host.peak_by_category, f->device->host.peak_by_category,
                        sizeof planned.host.peak_by_category);
    assert_memory_equal(&planned.counters, &f->device->counters, sizeof planned.counters);
}

static const char *const texts[] = {"chunk=5 budget=3 sampler=uniform", "chunk=64 budget=1 keep=all",
                                    "chunk=4 budget=2 loss=all inner=checkpoint segments=2 first_chunk=10",
                                    "chunk=4 sampler=fixed drawn_chunks=0,2,3 compensation=capped segments=3",
                                    "chunk=7 budget=1 segment_starts=0,1"};

// One model with every setting, with and without stages.
static void assert_same(struct fixture *f)
{
    fixture_open(f);
    for (size_t i = 0; i < COUNT(settings) * COUNT(texts); i++) {
        if ((i + i / COUNT(texts)) % stride())
            continue;
        const struct setting *setting = &settings[i / COUNT(texts)];
        const char *text = texts[i % COUNT(texts)];
        const struct method *method = method_find(setting->method);
        struct status status = {0};
        void *options = options_with(setting, true, text);
        bool valid = method->check(options, &f->config, f->context, &status);
        options_done(setting, options);
        if (!valid)
            continue;
        double *kept = gradients(f, setting, false, text);
        double flops = f->device->counters.flops;
        assert_int_equal(f->device->host.peak_bytes, 0);
        assert_planned(f, setting, false, text);
        double *offloaded = gradients(f, setting, true, text);
        if (memcmp(offloaded, kept, f->gradient_count * sizeof *kept) != 0 || f->device->counters.flops != flops) {
            fail_msg("%s %s, %s, %s, %zu layers, %zu tokens: relative L2 %.2e, FLOPs %.0f, kept here %.0f",
                     dtype_name(f->dtype), setting->method, setting->offload, text, f->config.layers, f->context,
                     relative_l2(offloaded, kept, f->gradient_count), f->device->counters.flops, flops);
        }
        assert_planned(f, setting, true, text);
        free(offloaded);
        free(kept);
    }
    fixture_close(f);
}

static void gradients_are_the_same_bits(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    static const size_t layers[] = {1, 2, 3, 5}, contexts[] = {23, 12, 1};
    for (size_t i = 0; i < COUNT(dtypes) * COUNT(layers); i++) {
        struct fixture f = fixture_default();
        f.dtype = dtypes[i / COUNT(layers)];
        f.config.layers = layers[i % COUNT(layers)];
        f.config.tied = f.config.layers == 2;
        f.config.qk_norm = f.config.layers == 3;
        f.context = contexts[i % COUNT(contexts)];
        f.document = f.config.layers == 3 ? 7 : 0;
        f.config.kinds[0].window = f.config.layers == 5 ? 6 : 0;
        if (f.config.layers % 2)
            fixture_choose(&f, i % 3 ? "DeepSeek" : "Kimi");
        f.batch_size = 1 + i % 2;
        f.lora = f.config.layers == 5 ? (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V}
                                      : (struct lora){0};
        assert_same(&f);
    }
    struct fixture f = fixture_default(); // more rows than a block
    f.config.layers = 2;
    f.context = 351;
    f.batch_size = 3;
    f.dtype = DTYPE_F32;
    assert_same(&f);
}

// Two rows' inputs and the gradient, however many layers there are.
static void the_device_keeps_two_rows(void **state)
{
    (void)state;
    size_t peaks[2][2];
    struct fixture f = fixture_default();
    f.context = 64;
    for (size_t i = 0; i < 2; i++) {
        f.config.layers = i ? 12 : 4;
        for (int offload = 0; offload < 2; offload++) {
            struct device planned;
            plan(&f, &settings[0], offload, "chunk=64", &planned);
            peaks[i][offload] = planned.arena.peak_by_category[CATEGORY_HIDDEN_CHECKPOINTS];
        }
    }
    size_t input = f.context * f.batch_size * f.config.width * sizeof(double);
    assert_int_equal(peaks[0][0], 5 * input);
    assert_int_equal(peaks[1][0], 13 * input);
    assert_int_equal(peaks[0][1], 3 * input);
    assert_int_equal(peaks[1][1], 3 * input);
}

// Rows of width d that go out and come in, rows of attention that do both, and what the host holds at a time.
struct moved {
    size_t out, in, attended, held_bytes;
};

// Bytes of a row: its input, and what attention gives.
struct row_bytes {
    size_t input, o, logsumexp;
};

// sizes: of the stages, from the top.
static struct moved rows_moved(const struct setting *setting, struct row_bytes row, const size_t *sizes,
                               size_t count, bool embeds)
{
    bool attention = strcmp(setting->with, "attention=kept") == 0;
    bool streams = strcmp(setting->method, "streambp") == 0;
    bool gradient = strcmp(setting->offload, "inputs,input_gradients") == 0;
    struct moved moved = {0};
    for (size_t j = 0; j < count; j++) {
        bool lowest = j + 1 == count, kept = !lowest || (!streams && count == 1);
        // Its own input, read for the way up again and for the way down; its rows' on the way up, of which a lower
        // stage's highest is read at once where rows do not come by chunk.
        size_t rows = kept + sizes[j] - 1 - (j > 0 && sizes[j] > 1 && !streams);
        size_t held = count - 1 - j + sizes[j] - 1 + (kept && count == 1);
        moved.out += rows;
        moved.in += (streams ? 2 : 1) * rows + (j > 0 && sizes[j] > 1 && !lowest);
        if (j > 0 && sizes[j] > 1 && !streams)
            held--;
        // A lower stage's highest row attends when it is walked, and not on the way up.
        size_t attended = attention ? sizes[j] - (j > 0) : 0, held_bytes = held * arena_rounded(row.input);
        held_bytes += attended * (arena_rounded(row.o) + arena_rounded(row.logsumexp));
        moved.attended += attended;
        moved.held_bytes = held_bytes > moved.held_bytes ? held_bytes : moved.held_bytes;
    }
    if (gradient) {
        size_t layers = 0;
        for (size_t j = 0; j < count; j++)
            layers += sizes[j];
        moved.out += layers + embeds;
        moved.in += layers + embeds;
        moved.held_bytes += arena_rounded(row.input);
    }
    return moved;
}

static void the_link_carries_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t count, sizes[6];
    } cases[] = {{"segments=1", 1, {6}},
                 {"segment_starts=0,3,5", 3, {1, 2, 3}},
                 {"segment_starts=0,2,4", 3, {2, 2, 2}},
                 {"segments=6", 6, {1, 1, 1, 1, 1, 1}},
                 {"segment_starts=0,1", 2, {5, 1}}};
    for (int lora = 0; lora < 2; lora++) {
        struct fixture f = fixture_default();
        f.config.layers = 6;
        f.lora = lora ? (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q} : (struct lora){0};
        fixture_open(&f);
        size_t numbers = f.context * f.batch_size * sizeof(double);
        struct row_bytes row = {numbers * f.config.width,
                                numbers * f.config.kinds[0].heads * f.config.kinds[0].head_dim,
                                numbers * f.config.kinds[0].heads};
        for (size_t i = 0; i < COUNT(settings) * COUNT(cases); i++) {
            const struct setting *setting = &settings[i / COUNT(cases)];
            if (strcmp(setting->offload, "kv") == 0)
                continue;
            const char *text = cases[i % COUNT(cases)].text;
            struct moved moved =
                rows_moved(setting, row, cases[i % COUNT(cases)].sizes, cases[i % COUNT(cases)].count, !lora);
            char chunked[64];
            snprintf(chunked, sizeof chunked, "chunk=5 %s", text);
            free(gradients(&f, setting, true, chunked));
            const double *link = f.device->counters.link_bytes;
            double attended = (double)(moved.attended * (row.o + row.logsumexp));
            double out = (double)(moved.out * row.input) + attended, in = (double)(moved.in * row.input) + attended;
            if (link[QUEUE_OUT] != out || link[QUEUE_IN] != in || f.device->host.peak_bytes != moved.held_bytes) {
                fail_msg("%s %s %s %s: out %.0f, in %.0f, held %zu; expected %.0f, %.0f, %zu", setting->method,
                         setting->offload, setting->with, text, link[QUEUE_OUT], link[QUEUE_IN],
                         f.device->host.peak_bytes, out, in, moved.held_bytes);
            }
            assert_int_equal(f.device->host.peak_by_category[CATEGORY_HIDDEN_CHECKPOINTS],
                             f.device->host.peak_bytes);
        }
        fixture_close(&f);
    }
}

// Bytes of a layer of the fixture in f64: chunks of 5 in 23 tokens, of which SpaCO draws two. Keys and values: the
// first pass copies out those of every chunk, and each chunk reads the prefix, except in the highest layer; each
// drawn chunk reads it and its own again in the recomputed forward and in the backward; a chunk at once, as the
// last one, reads the prefix in its only forward. SeCO also moves their gradients: the rightmost chunk reads none,
// the others all up to their end, and each writes those to its left.
static void the_link_carries_keys_and_values(void **state)
{
    (void)state;
    static const size_t starts[] = {0, 5, 10, 15, 20, 23};
    for (size_t i = 0; i < COUNT(settings); i++) {
        bool seco = strcmp(settings[i].method, "seco") == 0;
        if (strcmp(settings[i].offload, "kv") != 0)
            continue;
        struct fixture f = fixture_default();
        fixture_open(&f);
        size_t out = 0, in = 0, layers = f.config.layers;
        for (size_t c = 0; c < 5; c++) {
            bool drawn = seco || c == 1 || c == 4, at_once = !drawn && strcmp(settings[i].method, "deferred") == 0;
            bool cached = c < 4 && !at_once;
            out += layers * (starts[c + 1] - starts[c]);
            in += cached ? (layers - 1) * starts[c] : 0;
            in += drawn || at_once ? layers * (cached ? starts[c + 1] : starts[c]) + layers * starts[c + 1] : 0;
            in += seco && c < 4 ? layers * starts[c + 1] : 0;
            out += seco ? layers * starts[c] : 0;
        }
        free(gradients(&f, &settings[i], true, "chunk=5 sampler=fixed drawn_chunks=1,4 draw=fixed later_chunks=1"));
        size_t token = f.batch_size * 2 * f.config.kinds[0].kv_heads * f.config.kinds[0].head_dim *
                       sizeof(double); // B 2 G D e
        const double *link = f.device->counters.link_bytes;
        assert_true(link[QUEUE_OUT] == (double)(out * token) && link[QUEUE_IN] == (double)(in * token));
        size_t kept = 2 * layers * arena_rounded(f.context * token / 2);
        assert_int_equal(f.device->host.peak_by_category[CATEGORY_KV_CACHE], kept);
        assert_int_equal(f.device->host.peak_by_category[CATEGORY_KV_GRADIENTS], seco ? kept : 0);
        assert_int_equal(f.device->host.peak_bytes, seco ? 2 * kept : kept);
        fixture_close(&f);
    }
}

// Growth of the planned peaks per token of Llama-3-8B in bf16, dK and dV in f32, and the copies: of inputs to the
// byte, of keys and values, in chunks of 128 tokens, nearly what they are where the chunks are many.
static void places_hold_the_formula(void **state)
{
    (void)state;
    static const struct {
        size_t setting;
        const char *text;
        double device, host;   // bytes per token
        double linear, square; // bytes over the link: per token, and per token and chunk to the left
    } cases[] = {
        {1, "segments=1", 8192 + 12288, 31 * 8192, 3 * 31 * 8192, 0},
        {2, "segments=1", 12288, 32 * 8192, (3 * 31 + 2 * 32) * 8192, 0},
        {2, "segment_starts=0,4,8,12,16,20,24,28", 12288, 11 * 8192, (3 * 31 + 6 + 2 * 32) * 8192, 0},
        {3, "segments=1", 2 * 12288, 32 * 12288, 0, 32 * (3 * 4096 + 2 * 8192)},
        {3, "segments=32", 12288 + 31 * 8192, 12288, 0, 32 * (3 * 4096 + 2 * 8192)},
        {3, "segment_starts=0,16", 2 * 12288 + 8192, 16 * 12288, 0, 32 * (3 * 4096 + 2 * 8192) + 16 * 4096},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct setting *setting = &settings[cases[i].setting];
        double device[2], host[2], link[2], lower_bound_bytes = 0;
        for (size_t k = 0; k < 2; k++) {
            struct status status = {0};
            struct fixture f = {.config = *config_preset("llama-3-8b"), .context = 8192 << k};
            struct trainer_options model_options = {.lora = {.rank = 8, .alpha = 16, .targets = LORA_Q | LORA_V},
                                                    .kv_gradient_dtype = DTYPE_F32,
                                                    .gradient_dtype = DTYPE_F32};
            char text[128];
            snprintf(text, sizeof text, "chunk=128 %s", cases[i].text);
            void *options = options_with(setting, true, text);
            struct step_report report = {0};
            f.device = device_open("plan-cpu", DTYPE_BF16, 0, &status);
            assert_non_null(f.device);
            trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
            batch_open(&f.batch, f.device, NULL, NULL, f.context, 1);
            size_t before = f.device->arena.live_bytes;
            const struct method *method = method_find(setting->method);
            lower_bound_bytes = method->lower_bound_bytes_per_token(&f.model, options, f.context);
            method_step(method, &f.model, &f.batch, options, &report);
            options_done(setting, options);
            assert_int_equal(f.device->status.code, STATUS_OK);
            device[k] = (double)(f.device->arena.peak_bytes - before);
            host[k] = (double)f.device->host.peak_bytes;
            link[k] = f.device->counters.link_bytes[QUEUE_OUT] + f.device->counters.link_bytes[QUEUE_IN];
            step_report_free(&report);
            batch_close(&f.batch, f.device);
            trainer_close(&f.trainer);
            device_close(f.device);
        }
        double grown = (device[1] - device[0]) / 8192, far = (host[1] - host[0]) / 8192;
        // T^2 / 2 C of chunks to the left.
        double tokens = 16384, pairs = tokens * tokens / 256;
        double copies = cases[i].linear * tokens + cases[i].square * pairs;
        if (lower_bound_bytes != cases[i].device || grown < cases[i].device || grown > 1.02 * cases[i].device ||
            far != cases[i].host || fabs(link[1] / copies - 1) > (cases[i].square > 0 ? 0.02 : 0)) {
            fail_msg("%s %s %s: device %.0f (floor %.0f, formula %.0f), host %.0f (%.0f), link over formula %.4f",
                     setting->method, setting->offload, cases[i].text, grown, lower_bound_bytes, cases[i].device,
                     far, cases[i].host, link[1] / copies);
        }
    }
}

// Copies that happen as late as they may, and one kind of wait left out.
static void no_wait_can_be_left_out(void **state)
{
    (void)state;
    static const struct {
        enum queue of, for_;
    } waits[] = {{0, 0}, {QUEUE_COMPUTE, QUEUE_OUT}, {QUEUE_COMPUTE, QUEUE_IN}, {QUEUE_IN, QUEUE_OUT}};
    static const char *const cut[] = {"chunk=5 budget=4", "chunk=5 budget=4 segments=3",
                                      "chunk=4 budget=4 segments=2"};
    struct fixture f = fixture_default();
    f.config.layers = 5;
    fixture_open(&f);
    for (size_t s = 0; s < COUNT(settings) * COUNT(cut); s++) {
        if ((s + s / COUNT(cut)) % stride())
            continue;
        const struct setting *setting = &settings[s / COUNT(cut)];
        const char *text = cut[s % COUNT(cut)];
        bool segments = strstr(text, "segments") && option_find(&method_find(setting->method)->options, "segments");
        double *kept = gradients(&f, setting, false, text);
        for (size_t i = 0; i < COUNT(waits); i++) {
            late_open(f.device, waits[i].of, waits[i].for_);
            double *offloaded = gradients(&f, setting, true, text);
            late_synchronize(f.device);
            bool same = !late.stale && memcmp(offloaded, kept, f.gradient_count * sizeof *kept) == 0;
            // Inputs alone are read by nobody but what waited for the copy out; and the last chunk's keys, values
            // and gradients are read again after the last copy out, but not by a stage's forward alone.
            bool kv = strcmp(setting->offload, "kv") == 0, inputs = strcmp(setting->offload, "inputs") == 0;
            bool needed = i > 0 && !(i == 3 && inputs) && !(i == 1 && kv && !segments);
            if (same == needed) {
                fail_msg("%s %s, %s: without the wait of queue %d for queue %d the gradients are %s",
                         setting->method, setting->offload, text, waits[i].of, waits[i].for_,
                         same ? "right" : "wrong");
            }
            free(offloaded);
            late_close(f.device);
        }
        free(kept);
    }
    fixture_close(&f);
}

// Whatever fits or not, nothing is left behind, and the next step has its gradients.
static void a_full_host_is_a_result(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(settings); i++) {
        const struct setting *setting = &settings[i];
        const char *text = "chunk=5 budget=4 segments=2";
        double *kept = gradients(&f, setting, true, text);
        size_t live = f.device->arena.live_bytes, peak = f.device->host.peak_bytes;
        for (size_t part = 1; part <= 8; part++) {
            void *options = options_with(setting, true, text);
            struct step_report report = {0};
            arena_limit(&f.device->host, peak * part / 8, NULL);
            late_open(f.device, 0, 0);
            method_step(method_find(setting->method), &f.model, &f.batch, options, &report);
            options_done(setting, options);
            late_close(f.device);
            assert_int_equal(f.device->status.code, part == 8 ? STATUS_OK : STATUS_OOM);
            assert_true(part == 8 || strstr(f.device->status.message, "bytes too few so far (limits.host_memory)"));
            assert_int_equal(f.device->arena.live_bytes, live);
            assert_int_equal(f.device->host.live_bytes, 0);
            f.device->status = (struct status){0};
            step_report_free(&report);
        }
        arena_limit(&f.device->host, 0, NULL);
        double *again = gradients(&f, setting, true, text);
        assert_memory_equal(again, kept, f.gradient_count * sizeof *kept);
        free(again);
        free(kept);
    }
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_same_bits),  cmocka_unit_test(the_device_keeps_two_rows),
        cmocka_unit_test(the_link_carries_the_formula), cmocka_unit_test(the_link_carries_keys_and_values),
        cmocka_unit_test(places_hold_the_formula),      cmocka_unit_test(no_wait_can_be_left_out),
        cmocka_unit_test(a_full_host_is_a_result),
    };
    return cmocka_run_group_tests_name("offload", tests, NULL, NULL);
}
