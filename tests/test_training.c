// Gradients, optimizer state and weights on the host: steps have the bits that they have on the device, gradients,
// weights and state; planned as measured, with the bytes of the formulas. Late copies show a missing wait.
#include "kernels/device/ops.h"
#include "kernels/model/unit.h"
#include "kernels/trainer/trainer.h"
#include "tests/fixture.h"
#include "tests/late.h"
#include "tests/sanitized.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OPTIONS "chunk=7 head_chunk=5 budget=2 sampler_seed=3"
enum { STEPS = 2, MICRO_BATCHES = 2, PLACES = 8 };

static struct fixture variant(size_t i)
{
    struct fixture f = fixture_default();
    fixture_set_optimizer(&f, optimizers[0], "rate=0.01 decay=0.1");
    f.config.layers = 2;
    f.context = i == 1 ? 1 : 12;
    f.config.tied = i == 1;
    if (i == 0) { // above a dense layer experts, whose biases updates move
        fixture_set_experts(&f.config, 2, 4, 2);
        f.config.experts.correction_bias = true;
        f.router_losses = (struct router_losses){.aux = 0.1, .bias_update = 0x1p-10};
    }
    f.config.qk_norm = f.config.qkv_bias = i == 2;
    if (i == 2) {
        f.lora = (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V | LORA_DOWN};
        f.quantisation = QUANTISATION_NF4;
    }
    return f;
}

static void set_places(struct fixture *f, size_t places)
{
    f->weights_place = places & 1 ? PLACE_HOST : PLACE_DEVICE;
    f->gradients_place = places & 2 ? PLACE_HOST : PLACE_DEVICE;
    f->optimizer_place = places & 4 ? PLACE_HOST : PLACE_DEVICE;
}

static void begin(struct fixture *f)
{
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    arena_reset_peak(&f->device->host);
}

static void steps(struct fixture *f, const struct method *method)
{
    // Router losses need the first pass's counts, which deferred has with every chunk deferred.
    double deferral = router_losses_any(&f->router_losses) ? 1 : 0.5;
    void *options = fixture_options(method, OPTIONS " deferral=%g", deferral);
    struct step_report report = {0};
    size_t live = f->device->arena.live_bytes;
    for (size_t t = 1; t <= STEPS; t++) {
        trainer_begin(&f->trainer, t, 1);
        trainer_zero(&f->trainer);
        for (int i = 0; i < MICRO_BATCHES; i++)
            method_step(method, &f->model, &f->batch, options, &report);
        trainer_update(&f->trainer);
    }
    assert_int_equal(f->device->arena.live_bytes, live);
    options_free(&method->options, options);
    step_report_free(&report);
}

struct bits {
    double *values;
    size_t count;
};

static void add_bits(struct bits *bits, struct device *device, struct tensor t)
{
    size_t count = tensor_count(t);
    bits->values = realloc(bits->values, (bits->count + count + 1) * sizeof *bits->values);
    CHECK(bits->values);
    tensor_read(device, t, bits->values + bits->count);
    bits->count += count;
}

// Weights, gradients and state of all parameters that train, and those that updates move besides.
static struct bits all_of(struct fixture *f)
{
    struct bits bits = {0};
    assert_int_equal(f->device->status.code, STATUS_OK);
    for (size_t unit = 0; unit < unit_count(&f->model); unit++) {
        struct parameters parameters = unit_parameters(&f->model, unit);
        unit_acquire(&f->model, unit);
        for (size_t i = 0; i < parameters.count; i++) {
            struct parameter *p = &parameters.items[i];
            if (p->grad.data || p->constant)
                add_bits(&bits, f->device, p->value);
            if (p->grad.data) {
                add_bits(&bits, f->device, p->grad);
                add_bits(&bits, f->device, p->state[0]);
                add_bits(&bits, f->device, p->state[1]);
            }
        }
        unit_release(&f->model, unit);
    }
    return bits;
}

static bool same(struct bits a, struct bits b)
{
    return a.count == b.count && memcmp(a.values, b.values, a.count * sizeof *a.values) == 0;
}

// A model as trained from its seed. Counts are those of the steps.
static struct bits trained(struct fixture *f, const struct method *method)
{
    fixture_open(f);
    begin(f);
    steps(f, method);
    struct device after = *f->device;
    struct bits bits = all_of(f);
    f->device->counters = after.counters;
    f->device->arena.peak_bytes = after.arena.peak_bytes;
    memcpy(f->device->arena.peak_by_category, after.arena.peak_by_category, sizeof after.arena.peak_by_category);
    return bits;
}

static void assert_planned(const struct fixture *f, const struct method *method)
{
    struct status status = {0};
    struct fixture planned = *f;
    struct trainer_options model_options = fixture_trainer_options(f);
    planned.device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(planned.device);
    trainer_open(&planned.trainer, &planned.model, &planned.config, &model_options, planned.device);
    batch_open(&planned.batch, planned.device, NULL, NULL, f->context, f->batch_size);
    begin(&planned);
    steps(&planned, method);
    assert_int_equal(planned.device->arena.peak_bytes, f->device->arena.peak_bytes);
    assert_int_equal(planned.device->host.peak_bytes, f->device->host.peak_bytes);
    assert_memory_equal(planned.device->arena.peak_by_category, f->device->arena.peak_by_category,
                        sizeof f->device->arena.peak_by_category);
    assert_memory_equal(&planned.device->counters, &f->device->counters, sizeof f->device->counters);
    batch_close(&planned.batch, planned.device);
    trainer_close(&planned.trainer);
    device_close(planned.device);
}

// n: of what trains; a: bytes of a gradient's element and a moment's. A gradient goes out after each walk that adds
// to it, and comes in to be added to a second time and to be updated; two moments come and go once a step.
static void check_bytes(const struct fixture *f, const struct method *method, size_t places)
{
    size_t walks = method->no_gradient ? 1 : MICRO_BATCHES;
    const struct device *device = f->device;
    size_t a = dtype_bytes(fixture_sums(f)), e = dtype_bytes(f->dtype), n = 0, kept = 0;
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        const struct parameter *p = &f->model.parameters[i];
        n += tensor_count(p->grad);
        kept += p->grad.data ? arena_rounded(tensor_count(p->grad) * a) : 0;
    }
    size_t out = 0, in = 0;
    if (places & 1)
        out += n * e;
    if (places & 2) {
        out += walks * n * a, in += walks * n * a;
        assert_int_equal(device->host.live_by_category[CATEGORY_GRADIENTS], kept);
    }
    if (places & 4) {
        out += 2 * n * a, in += 2 * n * a;
        assert_int_equal(device->host.live_by_category[CATEGORY_OPTIMIZER], 2 * kept);
    }
    assert_true(device->counters.link_bytes[QUEUE_OUT] == (double)(STEPS * out));
    if (!(places & 1)) // weights: tests/test_weights.c
        assert_true(device->counters.link_bytes[QUEUE_IN] == (double)(STEPS * in));
    assert_int_equal(device->host.peak_bytes, device->host.live_bytes);
    assert_int_equal(device->arena.live_by_category[CATEGORY_GRADIENTS], places & 2 ? 0 : kept);
    assert_int_equal(device->arena.live_by_category[CATEGORY_OPTIMIZER], places & 4 ? 0 : 2 * kept);
}

static void the_bits_are_those_of_the_device(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < 9; i++) {
        for (const struct method *const *m = methods; *m; m++) {
            struct fixture near = variant(i % 3);
            near.dtype = near.rounding = dtypes[i / 3];
            near.narrow = i % 2;
            struct bits expected = trained(&near, *m);
            for (size_t places = 1; places < PLACES; places += stride()) {
                struct fixture far = variant(i % 3);
                far.dtype = far.rounding = dtypes[i / 3];
                far.narrow = i % 2;
                set_places(&far, places);
                struct bits found = trained(&far, *m);
                if (!same(found, expected))
                    fail_msg("%s, %s, places %zu: other bits", (*m)->name, dtype_name(far.dtype), places);
                check_bytes(&far, *m, places);
                if (i == 0 || i == 8)
                    assert_planned(&far, *m);
                assert_true(far.device->counters.flops == near.device->counters.flops);
                assert_int_equal(far.device->counters.launches, near.device->counters.launches);
                free(found.values);
                fixture_close(&far);
            }
            free(expected.values);
            fixture_close(&near);
        }
    }
}

// Gradients that were zeroed and not added to are zero wherever they are kept, now and in the next step.
static void a_zeroed_gradient_updates_as_zero(void **state)
{
    (void)state;
    struct bits bits[2];
    for (size_t i = 0; i < 2; i++) {
        struct fixture f = variant(0);
        set_places(&f, i ? PLACES - 1 : 0);
        free(trained(&f, methods[0]).values);
        trainer_begin(&f.trainer, STEPS + 1, 1);
        trainer_zero(&f.trainer);
        trainer_update(&f.trainer);
        steps(&f, methods[0]);
        bits[i] = all_of(&f);
        fixture_close(&f);
    }
    assert_true(same(bits[0], bits[1]));
    free(bits[0].values);
    free(bits[1].values);
}

// Full-row schedules hold the gradients of at most two units, and during a unit's update all of two, whatever the
// number of layers.
static void the_device_holds_two_units(void **state)
{
    (void)state;
    size_t peaks[2];
    for (size_t i = 0; i < 2; i++) {
        struct status status = {0};
        struct fixture f = fixture_default();
        fixture_set_optimizer(&f, optimizers[0], "rate=0.01");
        f.config.layers = i ? 12 : 5;
        f.config.vocab = 4;
        f.context = 1;
        set_places(&f, PLACES - 1);
        struct trainer_options model_options = fixture_trainer_options(&f);
        f.device = device_open("plan-cpu", f.dtype, 0, &status);
        assert_non_null(f.device);
        trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
        batch_open(&f.batch, f.device, NULL, NULL, f.context, f.batch_size);
        begin(&f);
        steps(&f, method_find("streambp"));
        struct parameters layer = unit_parameters(&f.model, unit_of_layer(0));
        size_t bytes = 0;
        for (size_t p = 0; p < layer.count; p++)
            bytes += arena_rounded(tensor_count(layer.items[p].grad) * sizeof(double));
        peaks[i] = f.device->arena.peak_bytes;
        assert_int_equal(f.device->arena.peak_by_category[CATEGORY_GRADIENTS], 2 * bytes);
        assert_int_equal(f.device->arena.peak_by_category[CATEGORY_OPTIMIZER], 4 * bytes);
        fixture_close(&f);
    }
    assert_int_equal(peaks[0], peaks[1]);
}

static void no_wait_can_be_left_out(void **state)
{
    (void)state;
    static const struct {
        size_t places;
        enum queue of, for_;
        bool same;
    } cases[] = {{7, QUEUE_COMPUTE, QUEUE_COMPUTE, true}, {2, QUEUE_COMPUTE, QUEUE_OUT, false},
                 {4, QUEUE_COMPUTE, QUEUE_OUT, false},    {1, QUEUE_COMPUTE, QUEUE_OUT, false},
                 {2, QUEUE_COMPUTE, QUEUE_IN, false},     {4, QUEUE_COMPUTE, QUEUE_IN, false},
                 {1, QUEUE_COMPUTE, QUEUE_IN, false}};
    for (const struct method *const *m = methods; *m; m++) {
        struct fixture near = variant(0);
        struct bits expected = trained(&near, *m);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct fixture far = variant(0);
            set_places(&far, cases[i].places);
            fixture_open(&far);
            late_open(far.device, cases[i].of, cases[i].for_);
            steps(&far, *m);
            struct bits found = all_of(&far);
            if (same(found, expected) != cases[i].same) {
                fail_msg("%s, places %zu, without the wait of queue %d for queue %d: %s bits", (*m)->name,
                         cases[i].places, cases[i].of, cases[i].for_, cases[i].same ? "other" : "the same");
            }
            free(found.values);
            late_close(far.device);
            fixture_close(&far);
        }
        free(expected.values);
        fixture_close(&near);
    }
}

// Whatever fits or not, nothing is left behind on the device.
static void a_full_place_is_a_result(void **state)
{
    (void)state;
    for (size_t places = 1; places < PLACES; places++) {
        struct fixture f = variant(0);
        set_places(&f, places);
        fixture_open(&f);
        begin(&f);
        steps(&f, method_find("streambp"));
        size_t live = f.device->arena.live_bytes, peak = f.device->arena.peak_bytes;
        for (size_t part = 0; part <= 8; part++) {
            f.device->arena.limit_bytes = live + (peak - live) * part / 8;
            steps(&f, method_find("streambp"));
            assert_int_equal(f.device->status.code, part == 8 ? STATUS_OK : STATUS_OOM);
            f.device->status = (struct status){0};
        }
        f.device->arena.limit_bytes = 0;
        fixture_close(&f);
    }
    struct status status = {0};
    struct fixture f = variant(0);
    set_places(&f, PLACES - 1);
    struct trainer_options options = fixture_trainer_options(&f);
    f.device = device_open("cpu", f.dtype, 0, &status);
    arena_limit(&f.device->host, 4096, NULL);
    trainer_open(&f.trainer, &f.model, &f.config, &options, f.device);
    assert_int_equal(f.device->status.code, STATUS_OOM);
    assert_non_null(strstr(f.device->status.message, "bytes too few so far (limits.host_memory)"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_the_device), cmocka_unit_test(a_zeroed_gradient_updates_as_zero),
        cmocka_unit_test(the_device_holds_two_units),       cmocka_unit_test(no_wait_can_be_left_out),
        cmocka_unit_test(a_full_place_is_a_result),
    };
    return cmocka_run_group_tests_name("training", tests, NULL, NULL);
}
