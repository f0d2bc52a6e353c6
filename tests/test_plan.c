// The plan device against the CPU, for every method and option there is: peak bytes equal by category, byte for
// byte, and FLOPs, bytes moved and launches equal. A loop over the array of methods: a new one is covered by
// existing.
#include "harness/machine/environment.h"
#include "kernels/model/flops.h"
#include "kernels/trainer/trainer.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void measure(struct fixture *f, const char *device, const struct method *method, const void *options,
                    struct arena *arena, struct counters *counters)
{
    struct status status = {0};
    struct step_report report = {0};
    f->device = device_open(device, f->dtype, 0, &status);
    assert_non_null(f->device);
    enum dtype sums = fixture_sums(f);
    void *optimizer_options = options_new(&optimizers[0]->options);
    struct trainer_options model_options = {f->lora, sums, sums, .optimizer = optimizers[0],
                                            .optimizer_options = optimizer_options};
    trainer_open(&f->trainer, &f->model, &f->config, &model_options, f->device);
    random_weights_set(&f->model, 1, DTYPE_F32);
    int32_t *ids = calloc(f->context * f->batch_size, sizeof *ids);
    fixture_open_objective(f);
    batch_open(&f->batch, f->device, ids, NULL, f->context, f->batch_size);
    fixture_set_documents(f, f->device, &f->batch, 0);
    fixture_set_objective(f, f->device, &f->batch, 0);
    f->device->counters = (struct counters){0};
    fixture_take_step(&f->trainer, method, &f->batch, options, 1, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    *arena = f->device->arena;
    *counters = f->device->counters;
    batch_close(&f->batch, f->device);
    trainer_close(&f->trainer);
    device_close(f->device);
    options_free(&optimizers[0]->options, optimizer_options);
    free(ids);
    fixture_close_objective(f);
    step_report_free(&report);
}

static void compare(struct fixture *f, const struct method *method, const void *options)
{
    struct arena planned, measured;
    struct counters planned_counters, measured_counters;
    measure(f, "cpu", method, options, &measured, &measured_counters);
    measure(f, "plan-cpu", method, options, &planned, &planned_counters);
    if (planned.peak_bytes != measured.peak_bytes ||
        memcmp(planned.peak_by_category, measured.peak_by_category, sizeof planned.peak_by_category) != 0)
        fail_msg("%s: planned peak %zu bytes, measured %zu", method->name, planned.peak_bytes, measured.peak_bytes);
    assert_true(measured.peak_bytes > measured.live_bytes || strcmp(method->name, "null") == 0);
    assert_memory_equal(&planned_counters, &measured_counters, sizeof planned_counters);
}

// Every choice of every option that a method has, one at a time, and several chunk sizes.
static void compare_all(struct fixture *f)
{
    static const char *const counts[] = {"1", "2", "7", "64"};
    for (const struct method *const *m = methods; *m; m++) {
        for (const struct option *option = (*m)->options.rows; option->name; option++) {
            const char *const *values = option->type == OPTION_CHOICE ? option->choices : counts;
            for (size_t i = 0; option->type == OPTION_CHOICE ? values[i] != NULL : i < 4; i++) {
                if ((i + (size_t)(option - (*m)->options.rows)) % stride())
                    continue;
                void *options = fixture_options(*m, "chunk=6 budget=2");
                struct status status = {0};
                if (option->type == OPTION_CHOICE ||
                    (option->type == OPTION_COUNT && strcmp(option->name, "budget") != 0))
                    options_set(&(*m)->options, options, option->name, values[i]);
                if (strcmp(values[i], "fixed") == 0 || strcmp(option->name, "drawn_chunks") == 0) {
                    options_set(&(*m)->options, options, "sampler", "fixed");
                    options_set(&(*m)->options, options, "drawn_chunks", "1,3");
                }
                if (strcmp(option->name, "later_chunks") == 0) // 0 is skipped, 2 at once
                    options_set(&(*m)->options, options, "draw", "fixed"),
                        options_set(&(*m)->options, options, "backward_share", "0.75"),
                        options_set(&(*m)->options, options, "later_chunks", "1"),
                        options_set(&(*m)->options, options, "skipped_chunks", "0");
                if (strcmp(option->name, "segment_starts") == 0)
                    options_set(&(*m)->options, options, option->name, i % 2 ? "0,1" : "0,2");
                // Method null hangs and crashes on request.
                bool stops = strcmp(option->name, "behaviour") == 0 && i > 0;
                if (!stops && (!(*m)->check || (*m)->check(options, &f->config, f->context, &status)))
                    compare(f, *m, options);
                options_free(&(*m)->options, options);
            }
        }
    }
}

// Whether the method takes the fixture's objective.
static bool runs(struct fixture *f, const struct method *method, const void *options)
{
    struct status status = {0};
    fixture_open_objective(f);
    bool able = method_check_objective(method, options, f->objective, f->objective_settings, &status);
    fixture_close_objective(f);
    return able;
}

static void test_objectives(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    for (size_t i = 0; fixture_choose_objective(&f, i); i++) {
        for (const struct method *const *m = methods; *m; m++) {
            void *options = fixture_options(*m, "chunk=6 head_chunk=6 budget=2 loss=all");
            f.dtype = i % 2 ? DTYPE_F32 : DTYPE_BF16;
            if (runs(&f, *m, options))
                compare(&f, *m, options);
            options_free(&(*m)->options, options);
        }
    }
}

// Besides what cross-entropy over the same tokens takes: the values that are read, 8 bytes per sequence for the
// sums (16 where one pair's slope is deferred), and two statistics per row of the head's block, five with terms of
// the rows' distributions; for LD-DPO what each row counts. No more, with a first pass or without.
static void test_memory_of_objectives(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        void *options = fixture_options(*m, "chunk=32 head_chunk=16 budget=8 loss=all");
        struct fixture f = fixture_default();
        f.context = 256;
        f.batch_size = 4;
        f.dtype = DTYPE_BF16;
        struct counters counters;
        struct arena plain, arena;
        f.objective = objectives[0];
        measure(&f, "plan-cpu", *m, options, &plain, &counters);
        for (size_t n = 0; fixture_choose_objective(&f, n); n++) {
            if (!runs(&f, *m, options))
                continue;
            fixture_open_objective(&f);
            struct objective_terms terms = objective_terms(f.objective, f.objective_settings);
            fixture_close_objective(&f);
            unsigned reads = terms.required | terms.optional;
            size_t rows = f.context * f.batch_size, statistic = sizeof(float), tensors = 0, bytes = 0;
            for (unsigned value = BATCH_WEIGHTS; value <= BATCH_DESIRABLE; value *= 2) {
                bool of_sequences = value == BATCH_ADVANTAGES || value == BATCH_DESIRABLE;
                tensors += !!(reads & value);
                bytes += reads & value ? statistic * (of_sequences ? f.batch_size : rows) : 0;
            }
            if (reads & BATCH_SAMPLING || strstr(f.settings, "advantages=tokens")) { // advantages of tokens
                tensors++;
                bytes += statistic * rows;
            }
            if (terms.sequences.kind == SEQUENCE_RATIO) {
                tensors++;
                bytes += statistic * f.batch_size * GAINS;
            }
            bytes += f.batch_size * ((terms.sequences.kind != SEQUENCE_NONE) * sizeof(double) +
                                     objective_counts(&terms) * sizeof(int32_t));
            bool whole = row_reads_distribution(&terms.rows) || row_spreads(&terms.rows);
            bytes += (2 + (whole ? DISTRIBUTION : 0)) * statistic * 16 * f.batch_size;
            tensors += terms.desensitised + whole;
            bytes += terms.desensitised ? statistic * rows : 0;
            measure(&f, "plan-cpu", *m, options, &arena, &counters);
            if (arena.peak_bytes > plain.peak_bytes + bytes + (tensors + 4) * ARENA_ALIGNMENT) {
                fail_msg("%s under %s %s: peak %zu bytes, of cross-entropy %zu, and %zu may be added", (*m)->name,
                         f.objective->name, f.settings, arena.peak_bytes, plain.peak_bytes, bytes);
            }
        }
        options_free(&(*m)->options, options);
    }
}

static void test_full_training(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    compare_all(&f);
    f.dtype = DTYPE_F32;
    f.config.qk_norm = true;
    f.config.tied = true;
    f.batch_size = 3;
    compare_all(&f);
    f.dtype = DTYPE_BF16;
    compare_all(&f);
    f.narrow = true;
    compare_all(&f);
    f = fixture_default();
    for (size_t i = 0; fixture_choose_family(&f, i); i++) {
        compare_all(&f);
        f = fixture_default();
    }
}

static void test_lora(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.qkv_bias = true;
    f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_V};
    compare_all(&f);
    f.context = 1;
    compare_all(&f);
}

static void test_windows_and_documents(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    fixture_set_windows(&f.config, 4, 2);
    compare_all(&f);
    f.document = 9;
    compare_all(&f);
    f.config.kinds[0].window = 0;
    f.batch_size = 1;
    compare_all(&f);
}

static void test_more_rows_than_a_block(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.layers = 2;
    f.context = 1100;
    for (const struct method *const *m = methods; *m; m++) {
        void *options = fixture_options(*m, "chunk=400 budget=1");
        compare(&f, *m, options);
        options_free(&(*m)->options, options);
    }
}

// Peak bytes of one step of the tiny preset in f32, and the floor of its method for all tokens.
static size_t tiny_peak(const struct method *method, const void *options, size_t context, double *lower_bound_bytes)
{
    struct fixture f = fixture_default();
    f.config = *config_preset("tiny");
    f.dtype = DTYPE_F32;
    f.context = context;
    f.batch_size = 1;
    struct arena arena;
    struct counters counters;
    measure(&f, "plan-cpu", method, options, &arena, &counters);
    struct status status = {0};
    struct device *device = device_open("plan-cpu", f.dtype, 0, &status);
    assert_non_null(device);
    struct model model = {
        .config = f.config, .device = device, .ranks = ranks_alone(&f.config), .kv_gradient_dtype = DTYPE_F32};
    *lower_bound_bytes = method->lower_bound_bytes_per_token(&model, options, context) * (double)context;
    device_close(device);
    return arena.peak_bytes;
}

// Growth of the peak per token is within 5 % of the floor that methods/README.md derives: no O(T^2), no copy of a
// prefix.
static void test_growth_is_the_lower_bound(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        double lower_bounds[2];
        size_t peaks[2];
        for (size_t i = 0; i < 2; i++) {
            size_t context = 4096 << i;
            void *options = fixture_options(*m, "chunk=128 budget=%zu", context / 128); // every chunk
            peaks[i] = tiny_peak(*m, options, context, &lower_bounds[i]);
            options_free(&(*m)->options, options);
        }
        double growth = (double)(peaks[1] - peaks[0]), expected = lower_bounds[1] - lower_bounds[0];
        if (expected == 0)
            continue; // method null
        printf("%-10s %.0f bytes per token, floor %.0f, ratio %.4f\n", (*m)->name, growth / 4096, expected / 4096,
               growth / expected);
        assert_true(growth <= 1.05 * expected && growth >= expected);
    }
}

// A model that no machine here could hold, in no time and no memory.
static void test_large_model(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config = *config_preset("llama-3-8b");
    f.dtype = DTYPE_BF16;
    f.context = 4096;
    f.batch_size = 1;
    const struct method *seco = method_find("seco");
    void *options = options_new(&seco->options);
    struct arena arena;
    struct counters counters;
    measure(&f, "plan-cuda", seco, options, &arena, &counters);
    options_free(&seco->options, options);
    // Weights, gradients and two moments, all bf16, of 8,030,261,248 parameters.
    assert_true(arena.peak_bytes > 8030261248ull * 8);
    assert_true(arena.peak_by_category[CATEGORY_KV_CACHE] == 32ull * 2 * 1024 * 2 * 4096);
    assert_true(counters.flops > 2.5 * model_flops(&f.config, &f.lora, &f.batch) / 3);
}

// FLOPs are those of methods/README.md. F: one forward pass; A: attention's part of it.
static void test_costs_are_the_stated_ones(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *inner;
        double forwards; // at most this many F, and A / 2
    } cases[] = {{"full", "none", 3},
                 {"checkpoint", "none", 4},
                 {"streambp", "none", 4},
                 {"seco", "none", 4},
                 {"seco", "checkpoint", 5}};
    static const size_t contexts[] = {96, 1000, 20000};
    for (size_t i = 0; i < 2 * sizeof contexts / sizeof *contexts; i++) {
        struct fixture f = fixture_default();
        f.context = contexts[i / 2];
        f.config.qk_norm = i % 2;
        double pairs = (double)f.context * (f.context + 1) / 2;
        double attention =
            4 * pairs * f.config.kinds[0].heads * f.config.kinds[0].head_dim * f.config.layers * f.batch_size;
        double forward =
            model_flops(&f.config, &f.lora, &(struct batch){.context = f.context, .batch = f.batch_size}) / 3;
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            const struct method *method = method_find(cases[j].method);
            void *options = fixture_options(method, "chunk=64 inner=%s", cases[j].inner);
            struct arena arena;
            struct counters counters;
            measure(&f, "plan-cpu", method, options, &arena, &counters);
            options_free(&method->options, options);
            double forwards = (counters.flops - attention / 2) / forward, max = cases[j].forwards;
            double min = j ? max - 1 : max;
            if (forwards > max * (1 + 1e-12) || forwards < min * (1 - 1e-12))
                fail_msg("%s at %zu tokens: %.4f F + A / 2, expected %g to %g", cases[j].method, f.context,
                         forwards, min, max);
        }
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objectives),
        cmocka_unit_test(test_memory_of_objectives),
        cmocka_unit_test(test_full_training),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_windows_and_documents),
        cmocka_unit_test(test_more_rows_than_a_block),
        cmocka_unit_test(test_growth_is_the_lower_bound),
        cmocka_unit_test(test_large_model),
        cmocka_unit_test(test_costs_are_the_stated_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
