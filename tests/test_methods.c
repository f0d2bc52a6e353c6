// Every method against full backprop in f64, over the shapes in which chunked walks go wrong; full against finite
// differences; f32 and bf16 against f64; the same bits on any number of threads. A loop over the array of methods:
// a new exact method is tested by existing.
#include "harness/machine/environment.h"
#include "tests/chosen_tests.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Walks one way of running every exact method: chunk sizes, and the options that change the walk.
struct variant {
    size_t chunk;
    const char *options;
};

static const struct variant variants[] = {
    {1, "loss=sampled"},
    {4, "head_chunk=3 loss=all first_chunk=9"},
    {5, "head_chunk=0 keep=all loss=sampled"},
    {7, "inner=checkpoint attention=kept loss=all first_chunk=64"},
    {64, "head_chunk=5 keep=all inner=checkpoint attention=kept loss=sampled"},
};

// The loss of the exact methods, and no gradient, whatever the chunk.
static void check_forward(struct fixture *f, double loss)
{
    static const size_t chunks[] = {1, 4, 7, 64};
    struct step_report report = {0};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        void *options = fixture_options(method_find("forward"), "chunk=%zu head_chunk=%zu", chunks[i], i * 3);
        double *found = fixture_step(f, "forward", options, &report);
        assert_true(fabs(report.sums.loss - loss) <= 1e-13 * fabs(loss));
        for (size_t g = 0; g < f->gradient_count; g++)
            assert_true(found[g] == 0);
        options_free(&method_find("forward")->options, options);
        free(found);
    }
    step_report_free(&report);
}

// All exact methods, and spaco with every chunk drawn, in all variants, to the bounds for f64:
// relative L2 1e-13 and max abs 1e-12 per tensor.
static void check_all_methods(struct fixture *f, const char *what)
{
    fixture_open(f);
    struct step_report report = {0};
    double *expected = fixture_step(f, "full", NULL, &report);
    double loss = report.sums.loss;
    static size_t first; // under the sanitizers a method takes other variants from one model to the next
    for (const struct method *const *m = methods; *m; m++, first++) {
        bool spaco = strcmp((*m)->name, "spaco") == 0;
        if (!(*m)->exact && !spaco)
            continue;
        for (size_t i = first % STRIDE; i < sizeof variants / sizeof *variants; i += STRIDE) {
            size_t chunk = variants[i].chunk;
            void *options = fixture_options(*m, "chunk=%zu budget=%zu %s", chunk, (f->context + chunk - 1) / chunk,
                                            variants[i].options);
            struct status status = {0};
            if ((*m)->check && !(*m)->check(options, &f->config, f->context, &status))
                options_set(&(*m)->options, options, "first_chunk", "0"); // layers keep states at chunks' borders
            double *found = fixture_step(f, (*m)->name, options, &report);
            size_t offset = 0;
            for (size_t p = 0; p < f->model.parameter_count; p++) {
                size_t count = tensor_count(f->model.parameters[p].grad);
                double l2 = relative_l2(found + offset, expected + offset, count);
                double abs = largest_difference(found + offset, expected + offset, count);
                if (!(l2 <= 1e-13) || !(abs <= 1e-12)) {
                    fail_msg("%s: %s, chunk %zu, variant %zu: %s: relative L2 %.2e, max abs %.2e", what, (*m)->name,
                             chunk, i, f->model.parameters[p].name, l2, abs);
                }
                offset += count;
            }
            assert_true(fabs(report.sums.loss - loss) <= 1e-13 * fabs(loss));
            options_free(&(*m)->options, options);
            free(found);
        }
    }
    check_forward(f, loss);
    free(expected);
    step_report_free(&report);
    fixture_close(f);
}

static void test_grouped_heads(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    check_all_methods(&f, "grouped heads");
}

static void test_equal_heads_three_sequences(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.kinds[0].kv_heads = 4;
    f.batch_size = 3;
    check_all_methods(&f, "G = H, B = 3");
}

static void test_one_kv_head_tied(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.kinds[0].kv_heads = 1;
    f.config.tied = true;
    check_all_methods(&f, "G = 1, tied");
}

static void test_one_token(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    static const int32_t targets[] = {3, 30};
    f.context = 1;
    f.targets = targets;
    check_all_methods(&f, "T = 1");
}

static void test_bias(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.qkv_bias = true;
    f.config.kinds[0].head_dim = 10; // H D above d
    check_all_methods(&f, "qkv bias");
}

static void test_qk_norm(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.qk_norm = true;
    f.config.kinds[0].head_dim = 2;
    check_all_methods(&f, "qk norm");
}

static void test_rope_scaling(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.kinds[0].rope_scaling =
        (struct rope_scaling){.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 16};
    check_all_methods(&f, "llama3 RoPE scaling");
}

static void test_masked_spans(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    int32_t targets[2 * 23];
    for (int i = 0; i < 46; i++) {
        // A chunk of 4 and of 5 without a target; a document that ends inside a chunk; the second sequence's start.
        targets[i] = (i >= 3 && i <= 15) || i == 18 || i == 23 || i == 22 ? NO_TARGET : i % 31;
    }
    f.targets = targets;
    check_all_methods(&f, "masked spans");
}

// Windows of one key, within a chunk, beyond chunks, and of more than there are; a layer without; documents whose
// borders lie anywhere in chunks; both.
static void test_windows_and_documents(void **state)
{
    (void)state;
    static const size_t windows[] = {1, 3, 9, 23, 0, 0, 0, 5}, documents[] = {0, 0, 0, 0, 1, 6, 20, 9};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i += stride()) {
        struct fixture f = fixture_default();
        fixture_set_windows(&f.config, windows[i], i % 2 ? 2 : 0);
        f.config.qk_norm = i % 3 == 1;
        f.document = documents[i];
        char what[64];
        snprintf(what, sizeof what, "window %zu, documents of %zu", windows[i], documents[i]);
        check_all_methods(&f, what);
    }
}

static void test_families(void **state)
{
    (void)state;
    const char *name;
    struct fixture f = fixture_default();
    for (size_t i = 0; (name = fixture_choose_family(&f, i)); i++) {
        check_all_methods(&f, name);
        f = fixture_default();
        f.document = 9;
        f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_O | LORA_DOWN};
        f.lora.targets |= LORA_Q_A | LORA_Q_B | LORA_KV_A | LORA_KV_B;
        fixture_choose_family(&f, i);
        check_all_methods(&f, name);
        f = fixture_default();
    }
}

static void test_no_target_at_all(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.context = 1; // the next token does not exist
    check_all_methods(&f, "no target");
}

static void test_lora(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.qkv_bias = true;
    f.lora = (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V};
    check_all_methods(&f, "LoRA on q and v");
    f.lora.targets = 127;
    check_all_methods(&f, "LoRA everywhere");
}

// Longer than the blocks that the row-wise operations run in, with a batch that does not divide them.
static void test_several_blocks(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.layers = 1;
    f.config.qk_norm = true;
    f.context = 701;
    f.batch_size = 3;
    fixture_open(&f);
    struct step_report report = {0};
    double *expected = fixture_step(&f, "full", NULL, &report);
    const char *const names[] = {"checkpoint", "streambp", "seco"};
    for (int i = 0; i < 3; i++) {
        const struct method *method = method_find(names[i]);
        void *options = fixture_options(method, "chunk=300");
        double *found = fixture_step(&f, names[i], options, &report);
        options_free(&method->options, options);
        assert_true(relative_l2(found, expected, f.gradient_count) <= 1e-13);
        free(found);
    }
    free(expected);
    step_report_free(&report);
    fixture_close(&f);
}

static double loss_at(struct fixture *f, struct tensor weight, size_t element, double value)
{
    struct step_report report = {0};
    double *data = weight.data, before = data[element];
    data[element] = value;
    free(fixture_step(f, "forward", NULL, &report)); // whose loss is full's (check_forward)
    data[element] = before;
    double loss = report.sums.loss;
    step_report_free(&report);
    return loss;
}

// Central differences of fourth order: the error is about step^4, and loss epsilon / step.
static void check_finite_differences(struct fixture *f)
{
    fixture_open(f);
    struct step_report report = {0};
    double *gradient = fixture_step(f, "full", NULL, &report);
    size_t offset = 0;
    struct random random = random_named(3, "elements");
    for (size_t p = 0; p < f->model.parameter_count; p++) {
        struct parameter *parameter = &f->model.parameters[p];
        size_t count = tensor_count(parameter->grad);
        double norm = 0;
        for (size_t i = 0; i < count; i++)
            norm += gradient[offset + i] * gradient[offset + i];
        double scale = sqrt(norm / (count ? count : 1)), h = 1e-3;
        const size_t max = exhaustive() ? 4 : 2;
        for (size_t i = 0; i < (count < max ? count : max); i += STRIDE) {
            size_t element = random_below(&random, p * 8 + i, count);
            double w = ((double *)parameter->value.data)[element];
            double near =
                loss_at(f, parameter->value, element, w + h) - loss_at(f, parameter->value, element, w - h);
            double far =
                loss_at(f, parameter->value, element, w + 2 * h) - loss_at(f, parameter->value, element, w - 2 * h);
            double numeric = (8 * near - far) / (12 * h), analytic = gradient[offset + element];
            double error = fabs(numeric - analytic) / fmax(fabs(analytic), scale);
            if (!(error <= 1e-7)) {
                fail_msg("%s[%zu]: gradient %.12g, finite differences %.12g", parameter->name, element, analytic,
                         numeric);
            }
        }
        offset += count;
    }
    free(gradient);
    step_report_free(&report);
    fixture_close(f);
}

static void test_finite_differences(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.context = 9;
    f.config.qkv_bias = true;
    f.config.qk_norm = true;
    check_finite_differences(&f);
    f = fixture_default();
    f.context = 9;
    f.config.tied = true;
    f.config.kinds[0].kv_heads = 1;
    check_finite_differences(&f);
    f = fixture_default();
    f.context = 9;
    f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = 127};
    check_finite_differences(&f);
    f = fixture_default();
    f.context = 9;
    f.config.layers = 2;
    fixture_set_windows(&f.config, 3, 1);
    f.document = 5;
    check_finite_differences(&f);
    f = fixture_default();
    for (size_t i = 0; fixture_choose_family(&f, i); i++) {
        f.context = 9;
        check_finite_differences(&f);
        f = fixture_default();
    }
}

// Dtypes below f64; bf16 with sums in f32 and with sums in bf16.
static const struct precision {
    enum dtype dtype;
    bool narrow;
    double bound; // relative L2 against f64
} precisions[] = {{DTYPE_F32, false, 1e-5}, {DTYPE_BF16, false, 3e-2}, {DTYPE_BF16, true, 3e-2}};
#define PRECISIONS (sizeof precisions / sizeof *precisions)

static void check_near_f64(const struct precision *precision, struct fixture f)
{
    struct fixture f64 = f;
    f.dtype = precision->dtype;
    f.narrow = precision->narrow;
    f.rounding = f64.rounding = precision->dtype;
    fixture_open(&f64);
    fixture_open(&f);
    struct step_report report = {0};
    double *expected = fixture_step(&f64, "full", NULL, &report);
    for (const struct method *const *m = methods; *m; m++) {
        if ((*m)->exact) {
            void *options = fixture_options(*m, "chunk=32");
            double *found = fixture_step(&f, (*m)->name, options, &report);
            options_free(&(*m)->options, options);
            double error = relative_l2(found, expected, f64.gradient_count);
            if (!(error <= precision->bound && error > 0)) {
                fail_msg("%s in %s: relative L2 %.2e, bound %.0e", (*m)->name, dtype_name(f.dtype), error,
                         precision->bound);
            }
            free(found);
        }
    }
    free(expected);
    step_report_free(&report);
    fixture_close(&f64);
    fixture_close(&f);
}

static void test_near_f64(void **state)
{
    (void)state;
    for (size_t i = 0; i < PRECISIONS; i++) {
        struct fixture f = fixture_default();
        f.context = 70;
        check_near_f64(&precisions[i], f);
        f.config.qk_norm = f.config.tied = true;
        check_near_f64(&precisions[i], f);
        f.config.qkv_bias = true;
        f.lora = (struct lora){.rank = 3, .alpha = 6, .targets = LORA_Q | LORA_V | LORA_DOWN};
        check_near_f64(&precisions[i], f);
        f = fixture_default();
        // Short: a norm of outputs magnifies the rounding of rows that averages over many keys leave near 0.
        for (size_t family = 0; fixture_choose_family(&f, family); family++) {
            f.context = 17;
            check_near_f64(&precisions[i], f);
            f = fixture_default();
        }
    }
}

static void test_same_bits_on_any_threads(void **state)
{
    (void)state;
    const int threads[] = {1, 2, 3, 7};
    int before = omp_get_max_threads();
    for (size_t p = 0; p <= PRECISIONS; p++) { // and f64
        struct fixture f = fixture_default();
        f.dtype = p < PRECISIONS ? precisions[p].dtype : DTYPE_F64;
        f.narrow = p < PRECISIONS && precisions[p].narrow;
        f.config.width = 96;
        f.config.kinds[0].heads = 4;
        f.config.kinds[0].head_dim = 32;
        f.config.ffn = 200;
        f.config.vocab = 300;
        f.context = 515 / STRIDE;
        fixture_open(&f);
        struct step_report report = {0};
        for (const struct method *const *m = methods; *m; m++) {
            void *options = fixture_options(*m, "chunk=128 budget=3");
            double *first = NULL;
            for (size_t i = 0; i < sizeof threads / sizeof *threads; i += STRIDE) {
                if (i > 0 && !is_chosen(p + (size_t)(m - methods) + i, 6)) // against one thread one other number
                    continue;
                omp_set_num_threads(threads[i]);
                double *found = fixture_step(&f, (*m)->name, options, &report);
                if (first) {
                    assert_memory_equal(found, first, f.gradient_count * sizeof *found);
                    free(found);
                } else {
                    first = found;
                }
            }
            options_free(&(*m)->options, options);
            free(first);
        }
        step_report_free(&report);
        fixture_close(&f);
    }
    omp_set_num_threads(before);
}

// Out of memory anywhere in a walk, up to a byte below its peak, is a status, nothing leaks, and the same model can
// go on afterwards; the peak is enough.
static void test_memory_limit(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    fixture_open(&f);
    struct step_report report = {0};
    for (const struct method *const *m = methods; *m; m++) {
        void *options = fixture_options(*m, "chunk=6 budget=2");
        arena_reset_peak(&f.device->arena);
        double *expected = fixture_step(&f, (*m)->name, options, &report);
        size_t live = f.device->arena.live_bytes, peak = f.device->arena.peak_bytes;
        assert_true(peak > live);
        for (size_t part = 0; part <= 8; part++) {
            f.device->arena.limit_bytes = part < 8 ? live + (peak - live) * part / 8 : peak - 1;
            method_step(*m, &f.model, &f.batch, options, &report);
            assert_int_equal(f.device->status.code, STATUS_OOM);
            assert_non_null(strstr(f.device->status.message, "limit"));
            assert_int_equal(f.device->arena.live_bytes, live);
            f.device->status = (struct status){0};
        }
        f.device->arena.limit_bytes = peak;
        double *found = fixture_step(&f, (*m)->name, options, &report);
        assert_memory_equal(found, expected, f.gradient_count * sizeof *found);
        f.device->arena.limit_bytes = 0;
        options_free(&(*m)->options, options);
        free(found);
        free(expected);
    }
    step_report_free(&report);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped_heads),
        cmocka_unit_test(test_equal_heads_three_sequences),
        cmocka_unit_test(test_one_kv_head_tied),
        cmocka_unit_test(test_one_token),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_qk_norm),
        cmocka_unit_test(test_rope_scaling),
        cmocka_unit_test(test_masked_spans),
        cmocka_unit_test(test_windows_and_documents),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_no_target_at_all),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_several_blocks),
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_near_f64),
        cmocka_unit_test(test_same_bits_on_any_threads),
        cmocka_unit_test(test_memory_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
