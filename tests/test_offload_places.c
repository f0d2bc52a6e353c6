// Segments, offload and places together: a step in segments with offloaded tensors, over a model with weights and
// gradients on the host, has the bits of a step on the device in one segment; planned as measured, and the same
// with late copies.
#include "tests/fixture.h"
#include "tests/late.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define OPTIONS      "chunk=5 head_chunk=7 budget=3 sampler_seed=3"

static const struct {
    const char *method, *offload;
} schedules[] = {{"full", "none"},     {"checkpoint", "none"}, {"checkpoint", "inputs"},
                 {"streambp", "none"}, {"streambp", "inputs"}, {"streambp", "inputs,input_gradients"},
                 {"seco", "none"},     {"seco", "kv"},         {"seco", "kv inner=checkpoint"},
                 {"spaco", "none"},    {"spaco", "kv"},        {"deferred", "none"},
                 {"deferred", "kv"}};

static struct fixture variant(size_t i)
{
    struct fixture f = fixture_default();
    f.config.layers = 4;
    f.context = i == 1 ? 1 : 23;
    f.batch_size = i == 1 ? 1 : 2;
    f.config.tied = i == 2;
    f.config.qk_norm = f.config.qkv_bias = i == 2;
    f.dtype = i == 3 ? DTYPE_BF16 : DTYPE_F64;
    if (i == 1) {
        f.lora = (struct lora){.rank = 3, .alpha = 8, .targets = LORA_Q | LORA_V | LORA_DOWN};
        f.quantisation = QUANTISATION_NF4;
    }
    return f;
}
enum { VARIANTS = 4, SEGMENTS = 4 };

// Gradients of one step; NULL: the method has no such options.
static double *step(struct fixture *f, size_t schedule, size_t segments, const char *offload)
{
    const struct method *method = method_find(schedules[schedule].method);
    struct step_report report = {0};
    struct status status = {0};
    void *options = fixture_options(method, OPTIONS " segments=%zu offload=%s", segments, offload);
    bool valid = !method->check || method->check(options, &f->config, f->context, &status);
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    arena_reset_peak(&f->device->host);
    double *found = valid ? fixture_step(f, method->name, options, &report) : NULL;
    options_free(&method->options, options);
    step_report_free(&report);
    return found;
}

static void assert_planned(const struct fixture *f, size_t schedule, size_t segments)
{
    const struct method *method = method_find(schedules[schedule].method);
    struct fixture planned = *f;
    struct step_report report = {0};
    struct status status = {0};
    struct trainer_options model_options = fixture_trainer_options(f);
    void *options =
        fixture_options(method, OPTIONS " segments=%zu offload=%s", segments, schedules[schedule].offload);
    planned.device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(planned.device);
    trainer_open(&planned.trainer, &planned.model, &planned.config, &model_options, planned.device);
    batch_open(&planned.batch, planned.device, NULL, NULL, f->context, f->batch_size);
    planned.device->counters = (struct counters){0};
    arena_reset_peak(&planned.device->arena);
    arena_reset_peak(&planned.device->host);
    fixture_take_step(&planned.trainer, method, &planned.batch, options, 0, &report);
    assert_int_equal(planned.device->status.code, STATUS_OK);
    assert_memory_equal(planned.device->arena.peak_by_category, f->device->arena.peak_by_category,
                        sizeof f->device->arena.peak_by_category);
    assert_memory_equal(planned.device->host.peak_by_category, f->device->host.peak_by_category,
                        sizeof f->device->host.peak_by_category);
    assert_memory_equal(&planned.device->counters, &f->device->counters, sizeof f->device->counters);
    options_free(&method->options, options);
    step_report_free(&report);
    batch_close(&planned.batch, planned.device);
    trainer_close(&planned.trainer);
    device_close(planned.device);
}

// Runs every schedule of a model with these places in `segments` segments. expected: [schedules], by the plain
// model in one segment.
static void check_schedules(struct fixture *f, size_t segments, double *const *expected, bool late_copies)
{
    for (size_t w = 0; w < COUNT(schedules); w++) {
        if (segments > 1 && !option_find(&method_find(schedules[w].method)->options, "segments"))
            continue;
        if (late_copies)
            late_open(f->device, 0, 0);
        double *found = step(f, w, segments, schedules[w].offload);
        if (late_copies)
            late_synchronize(f->device);
        bool stale = late_copies && late.stale;
        assert_true(!found == !expected[w]);
        if (found && (stale || memcmp(found, expected[w], f->gradient_count * sizeof *found) != 0))
            fail_msg("%s, offload %s, %zu segments, weights on the %s, gradients on the %s, %s: other gradients",
                     schedules[w].method, schedules[w].offload, segments,
                     f->weights_place == PLACE_HOST ? "host" : "device",
                     f->gradients_place == PLACE_HOST ? "host" : "device", dtype_name(f->dtype));
        if (late_copies)
            late_close(f->device);
        else if (found)
            assert_planned(f, w, segments);
        free(found);
    }
}

// By the plain model, everything on the device. A tied table's gradient is of the head's and the embedding's parts,
// which segments add in another order.
static void expect(double **expected, size_t i, size_t segments)
{
    struct fixture plain = variant(i);
    fixture_open(&plain);
    for (size_t w = 0; w < COUNT(schedules); w++) {
        const char *inner = strchr(schedules[w].offload, ' ');
        char offload[64];
        snprintf(offload, sizeof offload, "none%s", inner ? inner : "");
        free(expected[w]);
        expected[w] = step(&plain, w, plain.config.tied ? segments : 1, offload);
    }
    fixture_close(&plain);
}

static void check(bool late_copies, size_t variants)
{
    double *expected[COUNT(schedules)] = {NULL};
    for (size_t n = 0; n < variants * SEGMENTS; n++) {
        size_t segments = 1 + n % SEGMENTS;
        expect(expected, n / SEGMENTS, segments);
        for (size_t places = 0; places < 4; places++) {
            struct fixture f = variant(n / SEGMENTS);
            f.weights_place = places & 1 ? PLACE_HOST : PLACE_DEVICE;
            f.gradients_place = places & 2 ? PLACE_HOST : PLACE_DEVICE;
            fixture_open(&f);
            check_schedules(&f, segments, expected, late_copies);
            fixture_close(&f);
        }
    }
    for (size_t w = 0; w < COUNT(schedules); w++)
        free(expected[w]);
}

static void the_bits_are_those_of_the_device(void **state)
{
    (void)state;
    check(false, VARIANTS);
}

static void late_copies_change_nothing(void **state)
{
    (void)state;
    check(true, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_the_device),
        cmocka_unit_test(late_copies_change_nothing),
    };
    return cmocka_run_group_tests_name("offload and places", tests, NULL, NULL);
}
