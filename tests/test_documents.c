// Packed documents and sliding windows in a whole step, beyond every method's own tests: packing as if each
// document ran alone; a window over all tokens changes nothing; counts are those of visible pairs.
#include "harness/machine/environment.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define OPTIONS      "chunk=5 head_chunk=3 budget=5" // spaco draws all

// Tokens [start, end) of the fixture's sequence b.
struct document {
    size_t b, start, end;
};

static size_t documents_of(const struct fixture *f, struct document *documents)
{
    size_t count = 0;
    for (size_t b = 0; b < f->batch_size; b++) {
        for (size_t t = 0, end; t < f->context; t = end) {
            end = t + 1;
            while (end < f->context &&
                   f->batch.starts[end * f->batch_size + b] == f->batch.starts[t * f->batch_size + b])
                end++;
            documents[count++] = (struct document){b, t, end};
        }
    }
    return count;
}

// Adds the gradient of one document alone; its loss.
static double step_alone(struct fixture *f, const struct method *method, const void *options, struct document d)
{
    struct step_report report = {0};
    struct batch alone;
    batch_open(&alone, f->device, f->ids + d.b * f->context + d.start, NULL, d.end - d.start, 1);
    batch_set_chunks(&alone, f->device, config_chunk(&f->config));
    alone.normaliser = f->batch.normaliser;
    method_step(method, &f->model, &alone, options, &report);
    batch_close(&alone, f->device);
    double loss = report.sums.loss;
    step_report_free(&report);
    return loss;
}

static void packed_is_as_if_alone(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 4, 7, 11, 23};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct fixture f = fixture_default();
        struct document documents[64];
        f.document = lengths[i];
        f.config.kinds[0].window = i % 2 ? 3 : 0;
        f.config.qk_norm = i == 2;
        if (i % 3 == 0)
            fixture_choose(&f, i ? "DeepSeek" : "Kimi");
        if (i == 4)
            fixture_choose(&f, "Llama 4");
        f.context = 23;
        fixture_open(&f);
        size_t count = documents_of(&f, documents);
        assert_true(count > 2 && f.batch.normaliser.rows == f.context * f.batch_size - count);
        for (const struct method *const *m = methods; *m; m++) {
            if (!(*m)->exact)
                continue;
            struct step_report report = {0};
            void *options = fixture_options(*m, OPTIONS);
            double *packed = fixture_step(&f, (*m)->name, options, &report), loss = 0;
            trainer_zero(&f.trainer);
            for (size_t n = 0; n < count; n++)
                loss += step_alone(&f, *m, options, documents[n]);
            double *alone = fixture_gradients(&f);
            if (!(relative_l2(packed, alone, f.gradient_count) <= 1e-13) ||
                !(fabs(loss - report.sums.loss) <= 1e-13 * fabs(loss))) {
                fail_msg("%s, documents of %zu: relative L2 %.2e, loss %.17g, alone %.17g", (*m)->name, lengths[i],
                         relative_l2(packed, alone, f.gradient_count), report.sums.loss, loss);
            }
            options_free(&(*m)->options, options);
            free(alone);
            free(packed);
            step_report_free(&report);
        }
        fixture_close(&f);
    }
}

// Latent attention projects a block of keys at a time, beside documents, too: the gradient is that of one block.
static void blocks_of_latents_take_less_memory(void **state)
{
    (void)state;
    for (size_t document = 0; document <= 37; document += 37) {
        double *gradients[2];
        size_t peaks[2], count = 0;
        for (int i = 0; i < 2; i++) {
            struct fixture f = fixture_default();
            fixture_choose(&f, "DeepSeek");
            f.context = 96;
            f.document = document;
            f.latent_block = i ? 12 : 96;
            fixture_open(&f);
            assert_int_equal(f.batch.key_block, i && document ? 12 : 0);
            arena_reset_peak(&f.device->arena);
            struct step_report report = {0};
            void *options = fixture_options(method_find("seco"), OPTIONS);
            gradients[i] = fixture_step(&f, "seco", options, &report);
            options_free(&method_find("seco")->options, options);
            peaks[i] = f.device->arena.peak_by_category[CATEGORY_WORKSPACE];
            count = f.gradient_count;
            step_report_free(&report);
            fixture_close(&f);
        }
        assert_true(relative_l2(gradients[1], gradients[0], count) <= 1e-13);
        assert_true(2 * peaks[1] < peaks[0]);
        free(gradients[1]);
        free(gradients[0]);
    }
}

// To the bit, in every dtype; a shorter one is another gradient.
static void a_window_of_all_is_none(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 23, 24, 1000000, 21};
    for (enum dtype dtype = DTYPE_F64; dtype <= DTYPE_BF16; dtype++) {
        double *expected = NULL;
        for (size_t i = 0; i < COUNT(windows); i++) {
            struct step_report report = {0};
            struct fixture f = fixture_default();
            f.dtype = dtype;
            f.config.kinds[0].window = windows[i];
            fixture_open(&f);
            void *options = fixture_options(method_find("seco"), OPTIONS);
            double *found = fixture_step(&f, "seco", options, &report);
            options_free(&method_find("seco")->options, options);
            bool same = i == 0 || memcmp(found, expected, f.gradient_count * sizeof *found) == 0;
            assert_int_equal(same, windows[i] != 21);
            if (i == 0)
                expected = found;
            else
                free(found);
            step_report_free(&report);
            fixture_close(&f);
        }
        free(expected);
    }
}

// Pairs of queries and keys, by the definition.
static double pairs_of(const struct fixture *f, size_t window)
{
    double pairs = 0;
    for (size_t row = 0; row < f->context * f->batch_size; row++) {
        size_t t = row / f->batch_size, start = f->batch.starts ? (size_t)f->batch.starts[row] : 0;
        for (size_t key = start; key <= t; key++)
            pairs += window == 0 || key + window > t;
    }
    return pairs;
}

// FLOPs of a step: what masks leave out is not counted, and nothing else changes.
static void flops_are_of_what_is_seen(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 1, 6, 23, 0, 0, 5}, documents[] = {0, 0, 0, 0, 1, 9, 9};
    static const char *const names[] = {"full", "seco"};
    for (size_t n = 0; n < COUNT(names); n++) {
        double others = 0; // all but attention's
        for (size_t i = 0; i < COUNT(windows); i++) {
            struct step_report report = {0};
            struct fixture f = fixture_default();
            fixture_set_windows(&f.config, windows[i], 2);
            f.document = documents[i];
            fixture_open(&f);
            void *options = fixture_options(method_find(names[n]), "chunk=64");
            f.device->counters = (struct counters){0};
            free(fixture_step(&f, names[n], options, &report));
            options_free(&method_find(names[n])->options, options);
            // Forward 4 per pair and element of a head, backward 10.
            double heads = (double)(f.config.kinds[0].heads * f.config.kinds[0].head_dim), attention = 0;
            for (size_t l = 0; l < f.config.layers; l++)
                attention += (4 + 10) * heads * pairs_of(&f, config_kind(&f.config, l)->window);
            others = i == 0 ? f.device->counters.flops - attention : others;
            assert_true(others > 0 && f.device->counters.flops == others + attention);
            step_report_free(&report);
            fixture_close(&f);
        }
    }
}

// A step of the method, whose gradient must be `full`, on either device; its bytes of gradients of keys and values,
// on the device and on the host, are those of so many tokens.
static void check_slides(struct fixture *f, struct fixture *plan, const char *name, const double *full,
                         const char *text, size_t tokens, size_t host_tokens)
{
    struct counters counters[2];
    const struct method *method = method_find(name);
    void *options = fixture_options(method, "%s", text);
    if (method->make_exact)
        method->make_exact(options, f->context);
    for (int planned = 0; planned < 2; planned++) {
        struct fixture *on = planned ? plan : f;
        struct device *device = on->device;
        struct step_report report = {0};
        device->counters = (struct counters){0};
        arena_reset_peak(&device->arena);
        arena_reset_peak(&device->host);
        double *found = NULL, error = 0;
        if (planned) {
            fixture_take_step(&on->trainer, method, &on->batch, options, 0, &report);
        } else {
            found = fixture_step(on, name, options, &report);
            error = relative_l2(found, full, f->gradient_count);
        }
        const struct layer_kind *kind = &f->config.kinds[0];
        size_t token = f->batch_size * 2 * kind->kv_heads * kind->head_dim * sizeof(double);
        counters[planned] = device->counters;
        if (!(error <= 1e-13) || device->arena.peak_by_category[CATEGORY_KV_GRADIENTS] != tokens * token ||
            device->host.peak_by_category[CATEGORY_KV_GRADIENTS] != host_tokens * token) {
            fail_msg("%s %s, %zu tokens, window %zu: relative L2 %.2e; gradients of %.1f tokens, not %zu, on the "
                     "host of %.1f, not %zu",
                     name, text, f->context, kind->window, error,
                     (double)device->arena.peak_by_category[CATEGORY_KV_GRADIENTS] / token, tokens,
                     (double)device->host.peak_by_category[CATEGORY_KV_GRADIENTS] / token, host_tokens);
        }
        step_report_free(&report);
        free(found);
    }
    assert_memory_equal(&counters[0], &counters[1], sizeof counters[0]);
    options_free(&method->options, options);
}

// Gradients of a windowed layer's keys and values have min(T, w - 1 + C) rows where chunks of C run from the right:
// a window that ends within a chunk, at its end, beyond it, after several, of one token, no shorter than T.
static void gradients_of_windows_slide(void **state)
{
    (void)state;
    static const struct {
        size_t context, chunk, window, document;
    } cases[] = {{100, 16, 9, 0}, {100, 7, 20, 0}, {64, 16, 16, 0}, {64, 16, 17, 0}, {64, 16, 33, 13},
                 {50, 3, 1, 0},   {40, 64, 5, 0},  {100, 7, 94, 0}, {40, 7, 33, 0},  {90, 8, 30, 50}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f = fixture_default();
        f.config.kinds[0].head_dim = 8;
        size_t T = f.context = cases[i].context, C = cases[i].chunk, w = cases[i].window, whole = i % 2;
        fixture_set_windows(&f.config, w, whole << 2);
        f.document = cases[i].document;
        struct fixture plan = f;
        plan.device_name = "plan-cpu";
        fixture_open(&f);
        fixture_open(&plan);
        struct step_report report = {0};
        double *full = fixture_step(&f, "full", NULL, &report);
        size_t slides = w - 1 + C < T ? w - 1 + C : T, max = whole ? T : slides,
               all = (3 - whole) * slides + whole * T;
        const struct {
            const char *method, *options;
            size_t tokens, host_tokens;
        } runs[] = {{"seco", "", all, 0},
                    {"seco", "inner=checkpoint", all, 0},
                    {"seco", "segments=3", max, 0},
                    {"seco", "offload=kv", 2 * max, all},
                    {"seco", "offload=kv segments=3 inner=checkpoint", max, max},
                    {"streambp", "", max, 0},
                    {"spaco", "", 3 * T, 0}};
        for (size_t n = 0; n < COUNT(runs); n++) {
            char text[80];
            snprintf(text, sizeof text, "chunk=%zu %s", C, runs[n].options);
            check_slides(&f, &plan, runs[n].method, full, text, runs[n].tokens, runs[n].host_tokens);
        }
        free(full);
        step_report_free(&report);
        fixture_close(&plan);
        fixture_close(&f);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_is_as_if_alone),      cmocka_unit_test(blocks_of_latents_take_less_memory),
        cmocka_unit_test(a_window_of_all_is_none),    cmocka_unit_test(flops_are_of_what_is_seen),
        cmocka_unit_test(gradients_of_windows_slide),
    };
    return cmocka_run_group_tests_name("documents", tests, NULL, NULL);
}
