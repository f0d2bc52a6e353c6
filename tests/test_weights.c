// Quantised weights, offloaded weights, or both: every method has the gradients, bit for bit, of the same weights
// without; planned as measured, with the bytes of the formulas. Late copies show a missing wait.
#include "kernels/device/ops.h"
#include "kernels/model/unit.h"
#include "tests/fixture.h"
#include "tests/late.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OPTIONS "chunk=7 head_chunk=5 budget=2"

// Widths that blocks and words do not divide among them; a tied head; norms and biases of q and k.
enum { VARIANTS = 4 };
static struct fixture variant(size_t i)
{
    struct fixture f = fixture_default();
    f.lora = (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V | LORA_DOWN};
    f.context = i == 0 ? 23 : i == 1 ? 1 : 12;
    f.batch_size = i == 1 ? 1 : 2;
    f.config.tied = i == 1;
    f.config.qk_norm = f.config.qkv_bias = i == 2;
    if (i == 3) {
        f.config.width = 10, f.config.kinds[0].heads = 2, f.config.kinds[0].kv_heads = 1,
        f.config.kinds[0].head_dim = 2, f.config.ffn = 7;
        f.config.layers = 1;
    }
    f.lora.rank = i == 3 ? 2 : 3;
    return f;
}

static double *step(struct fixture *f, const struct method *method)
{
    void *options = fixture_options(method, OPTIONS);
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    arena_reset_peak(&f->device->host);
    double *gradients = fixture_step(f, method->name, options, &report);
    options_free(&method->options, options);
    step_report_free(&report);
    return gradients;
}

static void assert_planned(const struct fixture *f, const struct method *method)
{
    struct status status = {0};
    struct fixture planned = *f;
    struct step_report report = {0};
    struct trainer_options model_options = fixture_trainer_options(f);
    void *options = fixture_options(method, OPTIONS);
    planned.device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(planned.device);
    trainer_open(&planned.trainer, &planned.model, &planned.config, &model_options, planned.device);
    batch_open(&planned.batch, planned.device, NULL, NULL, f->context, f->batch_size);
    planned.device->counters = (struct counters){0};
    arena_reset_peak(&planned.device->arena);
    fixture_take_step(&planned.trainer, method, &planned.batch, options, 0, &report);
    const struct arena *arenas[] = {&planned.device->arena, &f->device->arena, &planned.device->host,
                                    &f->device->host};
    for (size_t i = 0; i < 4; i += 2) {
        assert_int_equal(arenas[i]->peak_bytes, arenas[i + 1]->peak_bytes);
        assert_memory_equal(arenas[i]->peak_by_category, arenas[i + 1]->peak_by_category,
                            sizeof arenas[i]->peak_by_category);
        assert_int_equal(arenas[i]->live_bytes, arenas[i + 1]->live_bytes);
    }
    assert_memory_equal(&planned.device->counters, &f->device->counters, sizeof planned.device->counters);
    options_free(&method->options, options);
    step_report_free(&report);
    batch_close(&planned.batch, planned.device);
    trainer_close(&planned.trainer);
    device_close(planned.device);
}

// Bytes of a unit's weights as they are kept: of a projection of n weights n / 2 or n, and 4 n / 64 or 128; as
// the arena counts them, or as the link does.
static size_t kept_bytes(const struct fixture *f, size_t unit, bool rounded)
{
    struct parameters parameters = unit_parameters(&f->model, unit);
    size_t bytes = 0;
    for (size_t i = 0; i < parameters.count; i++) {
        const struct parameter *p = &parameters.items[i];
        size_t n = p->value.rows * p->value.cols, parts[2] = {n * dtype_bytes(f->dtype), 0};
        if (f->quantisation && strstr(p->name, "_proj.weight")) {
            size_t codes = f->quantisation == QUANTISATION_INT8 ? 4 : 8; // of 4 bytes
            size_t scaled = f->quantisation == QUANTISATION_MXFP4 ? 128 : 64;
            parts[0] = (n + codes - 1) / codes * 4;
            parts[1] = (n + scaled - 1) / scaled * 4;
        }
        for (size_t part = 0; part < 2 && parts[part]; part++)
            bytes += rounded ? (parts[part] + 255) / 256 * 256 : parts[part];
    }
    return bytes;
}

struct uses {
    struct unit_listener listener;
    size_t count[8]; // by unit
};

static void count_use(struct unit_listener *listener, struct model *model, size_t unit)
{
    (void)model;
    ((struct uses *)listener)->count[unit]++;
}

// Loads of each schedule: full-row ones load a layer twice, forward and backward, or in the forward only; chunked
// ones each cell, except the last chunk's first pass.
static void check_uses(const struct fixture *f, const char *method, const struct uses *uses)
{
    bool chunks = strcmp(method, "seco") == 0;
    size_t K = (f->context + 6) / 7, head = unit_of_head(&f->model), passes = strcmp(method, "forward") ? 2 : 1;
    if (method_find(method)->draw || strcmp(method, "null") == 0)
        return;
    for (size_t l = 0; l < f->config.layers; l++)
        assert_int_equal(uses->count[unit_of_layer(l)], chunks ? 3 * K - 1 : passes);
    assert_int_equal(uses->count[head], chunks ? K : 1);
    size_t embedding = chunks ? 2 * K - 1 : 1;
    assert_int_equal(uses->count[UNIT_EMBEDDING], embedding + (f->config.tied ? uses->count[head] : 0));
}

static void check_bytes(struct fixture *f, const struct method *method, const struct uses *uses)
{
    const struct counters *counters = &f->device->counters;
    size_t kept = 0, moved = 0;
    bool host = f->weights_place == PLACE_HOST;
    for (size_t unit = 0; unit < unit_count(&f->model); unit++) {
        kept += kept_bytes(f, unit, true);
        moved += uses->count[unit] * kept_bytes(f, unit, false);
    }
    size_t rope = arena_rounded(f->config.kinds[0].head_dim / 2 * sizeof(double));
    struct arena *home = host ? &f->device->host : &f->device->arena;
    assert_int_equal(home->live_by_category[CATEGORY_WEIGHTS], kept + (host ? 0 : rope));
    assert_int_equal(f->device->arena.live_by_category[CATEGORY_WEIGHTS], host ? rope : kept + rope);
    assert_int_equal(f->device->host.peak_bytes, host ? kept : 0);
    assert_true(counters->link_bytes[QUEUE_IN] == (host ? (double)moved : 0));
    assert_true(counters->link_bytes[QUEUE_OUT] == 0);
    if (f->quantisation || host)
        check_uses(f, method->name, uses);
}

static void check_method(struct fixture *plain, struct fixture *kept, const struct method *method)
{
    struct uses uses = {.listener = {.acquire = count_use}};
    double *expected = step(plain, method);
    kept->model.listener = &uses.listener;
    double *found = step(kept, method);
    kept->model.listener = NULL;
    if (memcmp(found, expected, plain->gradient_count * sizeof *found) != 0) {
        fail_msg("%s, %s, weights %s on the %s: other gradients", method->name, dtype_name(kept->dtype),
                 kept->quantisation ? quantisation_name(kept->quantisation) : "as they are",
                 kept->weights_place == PLACE_HOST ? "host" : "device");
    }
    assert_planned(kept, method);
    check_bytes(kept, method, &uses);
    // Only dequantising adds work.
    assert_true(kept->device->counters.flops == plain->device->counters.flops);
    size_t projections = 0;
    for (size_t l = 0; l < kept->config.layers; l++)
        projections += 7 * uses.count[unit_of_layer(l)];
    assert_int_equal(kept->device->counters.launches - plain->device->counters.launches,
                     kept->quantisation ? projections : 0);
    free(expected);
    free(found);
}

static void gradients_are_those_over_the_weights_as_they_are(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < VARIANTS * 3 * QUANTISATION_COUNT * PLACE_COUNT; i++) {
        struct fixture kept = variant(i % VARIANTS);
        kept.dtype = dtypes[i / VARIANTS % 3];
        kept.rounding = kept.dtype;
        kept.quantisation = i / VARIANTS / 3 % QUANTISATION_COUNT;
        kept.weights_place = i / VARIANTS / 3 / QUANTISATION_COUNT;
        struct fixture plain = kept;
        plain.dequantised = true;
        plain.weights_place = PLACE_DEVICE;
        fixture_open(&plain);
        fixture_open(&kept);
        for (const struct method *const *m = methods; *m; m++)
            check_method(&plain, &kept, *m);
        fixture_close(&plain);
        fixture_close(&kept);
    }
}

// Full training keeps weights on the host as well.
static void full_training_too(void **state)
{
    (void)state;
    struct fixture kept = fixture_default();
    kept.weights_place = PLACE_HOST;
    struct fixture plain = kept;
    plain.weights_place = PLACE_DEVICE;
    fixture_open(&plain);
    fixture_open(&kept);
    for (const struct method *const *m = methods; *m; m++)
        check_method(&plain, &kept, *m);
    fixture_close(&plain);
    fixture_close(&kept);
}

// The f64 reference holds what a narrower device computes with, to the bit; other weights than the projections',
// and the factors, are not quantised.
static void a_reference_holds_the_same_weights(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < 9; i++) {
        struct fixture narrow = variant(i % VARIANTS), plain;
        narrow.dtype = narrow.rounding = dtypes[i % 3];
        plain = narrow;
        narrow.quantisation = QUANTISATION_NF4 + i / 3;
        struct fixture wide = narrow;
        wide.dtype = DTYPE_F64, wide.dequantised = true;
        fixture_open(&plain);
        fixture_open(&narrow);
        fixture_open(&wide);
        for (size_t unit = 0; unit < unit_count(&wide.model); unit++) {
            struct parameters of[3] = {unit_parameters(&wide.model, unit), unit_parameters(&narrow.model, unit),
                                       unit_parameters(&plain.model, unit)};
            unit_acquire(&narrow.model, unit);
            for (size_t j = 0; j < of[0].count; j++) {
                size_t n = tensor_count(of[0].items[j].value);
                double *values = malloc(3 * n * sizeof *values);
                tensor_read(wide.device, of[0].items[j].value, values);
                tensor_read(narrow.device, of[1].items[j].value, values + n);
                tensor_read(plain.device, of[2].items[j].value, values + 2 * n);
                bool quantised = strstr(of[0].items[j].name, "_proj.weight");
                assert_memory_equal(values, values + n, n * sizeof *values);
                assert_int_equal(memcmp(values, values + 2 * n, n * sizeof *values) != 0, quantised);
                free(values);
            }
            unit_release(&narrow.model, unit);
        }
        fixture_close(&plain);
        fixture_close(&narrow);
        fixture_close(&wide);
    }
}

// Two rows' weights, however many layers there are: those in use and the next.
static void the_device_holds_two_rows(void **state)
{
    (void)state;
    size_t peaks[2];
    for (size_t i = 0; i < 2; i++) {
        struct status status = {0};
        struct fixture f = fixture_default();
        struct step_report report = {0};
        f.config.layers = i ? 12 : 4;
        f.config.vocab = 4;
        f.lora = (struct lora){.rank = 1, .alpha = 1, .targets = LORA_Q};
        f.weights_place = PLACE_HOST;
        struct trainer_options model_options = fixture_trainer_options(&f);
        void *options = fixture_options(method_find("streambp"), "chunk=7");
        f.device = device_open("plan-cpu", f.dtype, 0, &status);
        assert_non_null(f.device);
        trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
        batch_open(&f.batch, f.device, NULL, NULL, f.context, f.batch_size);
        method_step(method_find("streambp"), &f.model, &f.batch, options, &report);
        peaks[i] = f.device->arena.peak_by_category[CATEGORY_WEIGHTS];
        size_t rope = arena_rounded(f.config.kinds[0].head_dim / 2 * sizeof(double));
        assert_int_equal(peaks[i], rope + 2 * kept_bytes(&f, unit_of_layer(0), true));
        options_free(&method_find("streambp")->options, options);
        step_report_free(&report);
        batch_close(&f.batch, f.device);
        trainer_close(&f.trainer);
        device_close(f.device);
    }
    assert_int_equal(peaks[0], peaks[1]);
}

static void no_wait_can_be_left_out(void **state)
{
    (void)state;
    for (enum quantisation q = QUANTISATION_NONE; q < QUANTISATION_COUNT; q++) {
        for (const struct method *const *m = methods; *m; m++) {
            struct fixture f = variant(0);
            f.quantisation = q;
            f.weights_place = PLACE_HOST;
            fixture_open(&f);
            double *expected = step(&f, *m);
            for (int dropped = 0; dropped < 2; dropped++) {
                late_open(f.device, QUEUE_COMPUTE, dropped ? QUEUE_IN : QUEUE_COMPUTE);
                double *found = step(&f, *m);
                bool same = memcmp(found, expected, f.gradient_count * sizeof *found) == 0;
                assert_int_equal(same, !dropped || (*m)->no_gradient);
                free(found);
                late_close(f.device);
            }
            free(expected);
            fixture_close(&f);
        }
    }
}

// An unused prefetch ends with the step; its copy completes before its memory is freed, or it would write there
// later.
static void what_was_wanted_in_vain_is_let_go(void **state)
{
    (void)state;
    struct fixture f = variant(0);
    f.weights_place = PLACE_HOST;
    fixture_open(&f);
    size_t live = f.device->arena.live_bytes, unit = unit_of_layer(1);
    for (int dropped = 0; dropped < 2; dropped++) {
        late_open(f.device, QUEUE_COMPUTE, dropped ? QUEUE_IN : QUEUE_COMPUTE);
        unit_prefetch(&f.model, unit);
        const unsigned char *memory = unit_parameters(&f.model, unit).items[0].fetched[0].data;
        assert_true(f.device->arena.live_bytes > live);
        unit_settle(&f.model);
        assert_int_equal(f.device->arena.live_bytes, live);
        late_synchronize(f.device);
        assert_int_equal(memory[0] == 0xff && memory[1] == 0xff, !dropped); // NaN, as it was released
        late_close(f.device);
    }
    struct step_report report = {0};
    void *options = options_new(&method_find("null")->options);
    unit_prefetch(&f.model, unit);
    method_step(method_find("null"), &f.model, &f.batch, options, &report);
    options_free(&method_find("null")->options, options);
    step_report_free(&report);
    assert_int_equal(f.device->arena.live_bytes, live);
    fixture_close(&f);
}

// Whatever fits or not, nothing is left behind, and the next step has its gradients.
static void a_full_device_is_a_result(void **state)
{
    (void)state;
    for (enum quantisation q = QUANTISATION_NONE; q < QUANTISATION_COUNT; q++) {
        struct fixture f = variant(0);
        f.quantisation = q;
        f.weights_place = PLACE_HOST;
        fixture_open(&f);
        const struct method *streambp = method_find("streambp");
        double *expected = step(&f, streambp);
        size_t live = f.device->arena.live_bytes, peak = f.device->arena.peak_bytes;
        for (size_t part = 0; part <= 16; part++) {
            void *options = fixture_options(streambp, OPTIONS);
            struct step_report report = {0};
            f.device->arena.limit_bytes = live + (peak - live) * part / 16;
            method_step(streambp, &f.model, &f.batch, options, &report);
            options_free(&streambp->options, options);
            assert_int_equal(f.device->status.code, part == 16 ? STATUS_OK : STATUS_OOM);
            assert_int_equal(f.device->arena.live_bytes, live);
            f.device->status = (struct status){0};
            step_report_free(&report);
        }
        f.device->arena.limit_bytes = 0;
        double *again = step(&f, streambp);
        assert_memory_equal(again, expected, f.gradient_count * sizeof *again);
        free(again);
        free(expected);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_over_the_weights_as_they_are),
        cmocka_unit_test(full_training_too),
        cmocka_unit_test(a_reference_holds_the_same_weights),
        cmocka_unit_test(the_device_holds_two_rows),
        cmocka_unit_test(no_wait_can_be_left_out),
        cmocka_unit_test(what_was_wanted_in_vain_is_let_go),
        cmocka_unit_test(a_full_device_is_a_result),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
