// Segments: a step that keeps only some layers' inputs has the same gradients, bit for bit; kept bytes and
// recomputation are those of the formulas.
#include "harness/machine/environment.h"
#include "methods/schedule/chunks.h"
#include "methods/schedule/segments.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Which methods have segments: those with the option.
static bool has_segments(const struct method *method)
{
    return option_find(&method->options, "segments") != NULL;
}

static const char *const layouts[] = {"segments=2",         "segments=3",         "segments=5",
                                      "segment_starts=0,1", "segment_starts=0,4", "segment_starts=0,2,3"};
static const char *const walks[] = {
    "chunk=5 head_chunk=3 budget=3 sampler=uniform",
    "chunk=64 budget=1 keep=all attention=kept",
    "chunk=4 budget=2 sampler=bernoulli loss=all inner=checkpoint",
    "chunk=4 sampler=fixed drawn_chunks=0,2,3 compensation=capped",
};

static void assert_same(struct fixture *f, const char *what)
{
    struct step_report report = {0};
    for (const struct method *const *m = methods; *m; m++) {
        for (size_t w = 0; has_segments(*m) && w < COUNT(walks); w++) {
            void *options = fixture_options(*m, "%s", walks[w]);
            double *expected = fixture_step(f, (*m)->name, options, &report), loss = report.sums.loss;
            options_free(&(*m)->options, options);
            for (size_t s = 0; s < COUNT(layouts); s++) {
                struct status status = {0};
                options = fixture_options(*m, "%s %s", walks[w], layouts[s]);
                if ((*m)->check(options, &f->config, f->context, &status)) {
                    double *found = fixture_step(f, (*m)->name, options, &report);
                    if (memcmp(found, expected, f->gradient_count * sizeof *found) != 0 ||
                        report.sums.loss != loss) {
                        fail_msg("%s: %s, %s, %s: relative L2 %.2e, loss %.17g, without segments %.17g", what,
                                 (*m)->name, walks[w], layouts[s], relative_l2(found, expected, f->gradient_count),
                                 report.sums.loss, loss);
                    }
                    free(found);
                }
                options_free(&(*m)->options, options);
            }
            free(expected);
        }
    }
    step_report_free(&report);
}

static void gradients_are_the_same_bits(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t variant = 0; variant < 3 * COUNT(dtypes); variant++) {
        if ((variant + variant / 3) % stride())
            continue;
        struct fixture f = fixture_default();
        f.dtype = dtypes[variant / 3];
        f.config.layers = variant % 3 == 1 ? 2 : 5;
        f.config.tied = variant % 3 == 1;
        f.config.qk_norm = variant % 3 == 2;
        f.batch_size = 1 + variant % 3;
        f.context = variant % 3 == 1 ? 3 : 23;
        f.document = variant % 3 == 0 ? 7 : 0;
        f.config.kinds[0].window = variant % 3 == 2 ? 6 : 0;
        f.lora =
            variant % 3 == 2 ? (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V} : (struct lora){0};
        if (variant % 3 == 0) {
            fixture_choose_family(&f, variant / 3);
            f.config.tied = false; // the two ends' sums into one table have an order, by chunks or by segments
        }
        fixture_open(&f);
        assert_same(&f, dtype_name(f.dtype));
        fixture_close(&f);
    }
}

// All ways to cut so many layers into so many segments: the least that any keeps, and of those the fewest rows
// twice.
static void cut(size_t *sizes, size_t count, size_t i, size_t left, struct segment_cost cost, double *least,
                size_t *highest)
{
    if (i + 1 == count) {
        double kept = 0;
        sizes[i] = left; // the lowest
        for (size_t j = 0; j < count; j++) {
            double now =
                (double)(count - 1 - j) * cost.input + (double)sizes[j] * cost.layer + (j ? cost.below : cost.top);
            kept = fmax(kept, now);
        }
        if (kept < *least || (kept == *least && sizes[0] > *highest)) {
            *least = kept;
            *highest = sizes[0];
        }
        return;
    }
    for (size_t size = 1; size + (count - i - 1) <= left; size++) {
        sizes[i] = size;
        cut(sizes, count, i + 1, left - size, cost, least, highest);
    }
}

static void sizes_keep_least(void **state)
{
    (void)state;
    // Costs of full-row schedules; of chunks with grouped heads and with as many key heads as query heads; of
    // schedules that keep attention's results.
    static const struct segment_cost costs[] = {
        {2, 2, -2, -2, 0}, {2, 3, 0, 2, 0}, {1, 4, 0, 1, 0}, {4, 1, 0, 4, 0}, {2, 5, -2, -5, 0}};
    for (size_t i = 0; i < COUNT(costs); i++) {
        for (size_t layers = 1; layers <= 12; layers++) {
            for (size_t count = 1; count <= layers; count++) {
                size_t sizes[12], highest = 0;
                double least = INFINITY;
                cut(sizes, count, 0, layers, costs[i], &least, &highest);
                struct segments segments = segments_of(&(struct segment_options){.count = count}, layers, costs[i]);
                assert_true(segments_kept(&segments, costs[i], NULL) == least);
                struct segment top = segments.items[count - 1];
                assert_int_equal(top.end - top.first, highest);
                size_t next = 0;
                for (size_t s = 0; s < count; s++) {
                    assert_int_equal(segments.items[s].first, next);
                    assert_true(segments.items[s].end > next);
                    next = segments.items[s].end;
                }
                assert_int_equal(next, layers);
                segments_free(&segments);
            }
        }
    }
    // 1, 2, 3, .. from the top.
    struct segments segments = segments_of(&(struct segment_options){.count = 4}, 10, costs[0]);
    assert_int_equal(segments.items[1].first, 4);
    assert_int_equal(segments.items[2].first, 7);
    assert_int_equal(segments.items[3].first, 9);
    segments_free(&segments);
}

// FLOPs of layers' forward over a chunk: all, keys' and values' projections, and the down-projection.
struct work {
    double all, keys, down;
};

static struct work work_of(const struct fixture *f, struct span chunk)
{
    const struct config *c = &f->config;
    double d = (double)c->width, q = (double)(c->kinds[0].heads * c->kinds[0].head_dim),
           kv = (double)(c->kinds[0].kv_heads * c->kinds[0].head_dim);
    double n = (double)(chunk.count * f->batch_size), pairs = 0;
    for (size_t i = 0; i < chunk.count; i++)
        pairs += (double)((chunk.start + i + 1) * f->batch_size);
    struct work work = {.keys = 4 * n * d * kv, .down = 2 * n * d * (double)c->ffn};
    work.all = 4 * n * d * q + work.keys + 3 * work.down + 4 * q * pairs;
    return work;
}

// Cost of segments, as row.h and chunk_schedule.h state. sizes: from the top.
static double added(const struct fixture *f, bool chunks, bool inner, const size_t *sizes, size_t count)
{
    double flops = 0;
    struct chunks grid = chunks_of(f->context, 5);
    for (size_t j = 0; j < count; j++) {
        double m = (double)sizes[j];
        if (!chunks && j > 0)
            flops += (m - 1) * work_of(f, (struct span){0, f->context}).all;
        for (size_t c = 0; chunks && j > 0 && c < grid.count; c++) {
            struct work work = work_of(f, chunk_span(grid, c));
            flops += c + 1 < grid.count ? (m - 1) * work.all + work.keys : m * work.all;
            flops -= inner ? work.all - work.keys : work.down;
        }
    }
    return flops;
}

static double flops_of(struct fixture *f, const struct method *method, const char *text)
{
    struct step_report report = {0};
    void *options = fixture_options(method, "%s", text);
    f->device->counters = (struct counters){0};
    free(fixture_step(f, method->name, options, &report));
    options_free(&method->options, options);
    step_report_free(&report);
    return f->device->counters.flops;
}

static void work_is_the_closed_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t count, sizes[2][6]; // of rows, of chunks; from the top
    } cases[] = {{"segments=2", 2, {{3, 3}, {3, 3}}},
                 {"segments=3", 3, {{1, 2, 3}, {2, 2, 2}}},
                 {"segments=6", 6, {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}}},
                 {"segment_starts=0,1", 2, {{5, 1}, {5, 1}}},
                 {"segment_starts=0,4", 2, {{2, 4}, {2, 4}}},
                 {"segment_starts=0,5", 2, {{1, 5}, {1, 5}}},
                 {"segment_starts=0,2,5", 3, {{1, 3, 2}, {1, 3, 2}}}};
    struct fixture f = fixture_default();
    f.config.layers = 6;
    fixture_open(&f);
    for (const struct method *const *m = methods; *m; m++) {
        bool chunks = option_find(&(*m)->options, "inner") != NULL;
        for (int inner = 0; has_segments(*m) && (*m)->exact && inner <= chunks; inner++) {
            char text[128], plain[64];
            snprintf(plain, sizeof plain, "chunk=5 inner=%s", inner ? "checkpoint" : "none");
            double alone = flops_of(&f, *m, plain);
            for (size_t i = 0; i < COUNT(cases); i++) {
                snprintf(text, sizeof text, "%s %s", plain, cases[i].text);
                double with = flops_of(&f, *m, text),
                       expected = added(&f, chunks, inner, cases[i].sizes[chunks], cases[i].count);
                if (with - alone != expected)
                    fail_msg("%s, %s: %.0f FLOPs more, expected %.0f", (*m)->name, text, with - alone, expected);
                // In all at most as many rows once more as there are layers above the number of segments.
                double rows = work_of(&f, (struct span){0, f.context}).all;
                double forward =
                    6 * rows + 2.0 * (double)(f.context * f.batch_size * f.config.width * f.config.vocab);
                double scores =
                    6 * 2.0 *
                    (double)(f.config.kinds[0].heads * f.config.kinds[0].head_dim * f.batch_size * f.context) *
                    (double)(f.context + 1) / 2;
                assert_true(with <= (inner ? 5 : 4) * forward + scores + (double)(6 - cases[i].count) * rows);
            }
        }
    }
    fixture_close(&f);
}

// Growth of the planned peak per token of Llama-3-8B in bf16, which trains factors alone.
static double growth(const struct method *method, const char *text, double *lower_bound_bytes)
{
    size_t peaks[2];
    struct status status = {0};
    void *options = fixture_options(method, "chunk=128 %s", text);
    for (size_t i = 0; i < 2; i++) {
        struct step_report report = {0};
        struct trainer_options model_options = {.lora = {.rank = 8, .alpha = 16, .targets = LORA_Q | LORA_V},
                                                .kv_gradient_dtype = DTYPE_F32,
                                                .gradient_dtype = DTYPE_F32};
        struct fixture f = {.config = *config_preset("llama-3-8b"), .context = 8192 << i};
        f.device = device_open("plan-cpu", DTYPE_BF16, 0, &status);
        assert_non_null(f.device);
        trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
        batch_open(&f.batch, f.device, NULL, NULL, f.context, 1);
        assert_true(!method->check || method->check(options, &f.config, f.context, &status));
        method_step(method, &f.model, &f.batch, options, &report);
        assert_int_equal(f.device->status.code, STATUS_OK);
        peaks[i] = f.device->arena.peak_bytes;
        *lower_bound_bytes = method->lower_bound_bytes_per_token(&f.model, options, f.context);
        step_report_free(&report);
        batch_close(&f.batch, f.device);
        trainer_close(&f.trainer);
        device_close(f.device);
    }
    options_free(&method->options, options);
    return (double)(peaks[1] - peaks[0]) / 8192;
}

// The inputs of S segments, the further ones of the longest segment of m rows, a gradient, keys and values, and
// what attention gave: d e = 8,192, 2 G D e = 4,096, 2 G D a = 8,192 and H D e + 4 H = 8,320 bytes per token.
static void memory_is_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *method, *text;
        double inputs, rows, attended; // with the gradient; of which K, V, dK and dV are kept; and attention's
    } cases[] = {
        {"streambp", "segments=1", 33, 1, 0},
        {"streambp", "segments=8", 8, 1, 0}, // 1, 2, 3, ..
        {"streambp", "segments=4", 10, 1, 0},
        {"streambp", "segments=32", 32, 1, 0},
        {"streambp", "segment_starts=0,4,8,12,16,20,24,28", 7 + 3 + 1, 1, 0}, // (S - 1) + (m - 1) + 1
        {"streambp", "segment_starts=0,8,16,24", 3 + 7 + 1, 1, 0},
        {"streambp", "attention=kept", 33, 1, 32},
        {"streambp", "segment_starts=0,8,16,24 attention=kept", 3 + 7 + 1, 1, 8},
        {"streambp", "segment_starts=0,16,28 attention=kept", 15 + 1, 1, 15}, // the lowest of three
        {"seco", "segments=1", 0, 32, 0},
        {"seco", "segment_starts=0,4,8,12,16,20,24,28", 7, 4, 0}, // S - 1, of which one becomes the gradient
        {"seco", "segment_starts=0,16", 1, 16, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct method *method = method_find(cases[i].method);
        double lower_bound_bytes,
            formula = cases[i].inputs * 8192 + cases[i].rows * 12288 + cases[i].attended * 8320;
        double grown = growth(method, cases[i].text, &lower_bound_bytes);
        if (lower_bound_bytes != formula || grown < formula || grown > 1.02 * formula) {
            fail_msg("%s, %s: %.0f bytes per token, floor %.0f, formula %.0f", cases[i].method, cases[i].text,
                     grown, lower_bound_bytes, formula);
        }
    }
}

// Segments are sized by the share of chunks that is drawn: of a fixed set its size, whether a budget says so or
// not.
static void a_fixed_set_is_its_own_budget(void **state)
{
    (void)state;
    static const char set[] = "chunk=1024 sampler=fixed drawn_chunks=0,1,2,3,4,5,6";
    for (size_t segments = 2; segments <= 8; segments++) {
        char text[2][128];
        double grown[2], lower_bounds[2];
        for (size_t i = 0; i < 2; i++) {
            snprintf(text[i], sizeof text[i], "%s segments=%zu budget=%d", set, segments, i ? 7 : 0);
            grown[i] = growth(method_find("spaco"), text[i], &lower_bounds[i]);
        }
        if (grown[0] != grown[1] || lower_bounds[0] != lower_bounds[1])
            fail_msg("%s: %.0f bytes per token, floor %.0f; with a budget %.0f and %.0f", text[0], grown[0],
                     lower_bounds[0], grown[1], lower_bounds[1]);
    }
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {{"segments=4", "4 segments are more than the model's 3 layers"},
                 {"segment_starts=1,2", "the first of segment_starts is 0, the lowest layer; found 1"},
                 {"segment_starts=0,2,1", "segment_starts: 1 follows 2; give them in ascending order, each once"},
                 {"segment_starts=0,1,1", "segment_starts: 1 follows 1; give them in ascending order, each once"},
                 {"segment_starts=0,3", "segment_starts: there is no layer 3, they are 0 to 2"},
                 {"segment_starts=0,2 segments=2", "segments and segment_starts say the same; give one of them"},
                 {"segments=3", NULL},
                 {"segment_starts=0", NULL},
                 {"segment_starts=0,1,2", NULL}};
    struct fixture f = fixture_default();
    for (const struct method *const *m = methods; *m; m++) {
        for (size_t i = 0; has_segments(*m) && i < COUNT(cases); i++) {
            struct status status = {0};
            void *options = fixture_options(*m, "chunk=5 budget=2 %s", cases[i].text);
            assert_int_equal((*m)->check(options, &f.config, f.context, &status), cases[i].says == NULL);
            assert_true(!cases[i].says || strcmp(status.message, cases[i].says) == 0);
            options_free(&(*m)->options, options);
        }
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_same_bits),   cmocka_unit_test(sizes_keep_least),
        cmocka_unit_test(work_is_the_closed_form),       cmocka_unit_test(memory_is_the_formula),
        cmocka_unit_test(a_fixed_set_is_its_own_budget), cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests_name("segments", tests, NULL, NULL);
}
