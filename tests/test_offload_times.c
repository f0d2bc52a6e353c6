// Times of offload, as a plan estimates them: copies go on behind operations, and a step waits for its first ones
// alone.
#include "kernels/measure/breakdown.h"
#include "tests/offloaded.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// Seconds of a step by the roofline, over a link of this rate; its rows must add up to it.
static double estimate_s(const struct setting *setting, bool offloads, double link_bytes_per_s, double *copied)
{
    struct status status = {0};
    struct fixture f = fixture_default();
    void *options = options_with(setting, offloads, "chunk=5 budget=5");
    struct step_report report = {0};
    struct trainer_options model_options = {.kv_gradient_dtype = f.dtype, .gradient_dtype = f.dtype};
    struct breakdown breakdown;
    f.config.layers = 6;
    f.device = device_open("plan-cpu", f.dtype, 0, &status);
    assert_non_null(f.device);
    f.device->roofline =
        (struct roofline){.flops_per_s = 1e9, .bytes_per_s = 1e9, .link_bytes_per_s = link_bytes_per_s};
    trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
    batch_open(&f.batch, f.device, NULL, NULL, f.context, f.batch_size);
    trainer_zero(&f.trainer);
    f.device->counters = (struct counters){0};
    breakdown_start(&breakdown, f.device);
    method_step(method_find(setting->method), &f.model, &f.batch, options, &report);
    options_done(setting, options);
    breakdown_stop(&breakdown, f.device);
    double rows_s = 0, all_s = counters_clock_s(&f.device->counters);
    for (size_t i = 0; i < breakdown.row_count; i++)
        rows_s += breakdown.rows[i].estimate_s;
    assert_true(fabs(rows_s - all_s) <= 1e-12 * all_s);
    *copied = fmax(f.device->counters.link_bytes[QUEUE_OUT], f.device->counters.link_bytes[QUEUE_IN]);
    breakdown_free(&breakdown);
    step_report_free(&report);
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    device_close(f.device);
    return all_s;
}

// A link that is fast enough costs nothing, but for a part that nothing comes before; one that is slow is all that
// there is.
static void copies_hide_behind_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        double copied, none, alone = estimate_s(&settings[i], false, 1, &none);
        double hidden = estimate_s(&settings[i], true, 1e12, &copied);
        assert_true(none == 0 && hidden <= 1.02 * alone);
        hidden = estimate_s(&settings[i], true, 1e10, &copied);
        assert_true(hidden <= 1.05 * alone);
        double slow = estimate_s(&settings[i], true, 1, &copied);
        assert_true(slow > copied && slow < 2 * copied + alone);
    }
}

// How long a step waits for copies, with its weights, keys and values on the host, over a link that is faster than
// the shortest of what a chunk ends with.
static double waits_s(const char *text, size_t context)
{
    struct status status = {0};
    struct fixture f = fixture_default();
    void *options = fixture_options(method_find("seco"), "chunk=5 offload=kv %s", text);
    struct step_report report = {0};
    struct trainer_options model_options = {
        .kv_gradient_dtype = f.dtype, .gradient_dtype = f.dtype, .weights_place = PLACE_HOST};
    f.config.layers = 6;
    f.device = device_open("plan-cpu", f.dtype, 0, &status);
    assert_non_null(f.device);
    f.device->roofline = (struct roofline){.flops_per_s = 1e9, .bytes_per_s = 1e9, .link_bytes_per_s = 2e10};
    trainer_open(&f.trainer, &f.model, &f.config, &model_options, f.device);
    batch_open(&f.batch, f.device, NULL, NULL, context, f.batch_size);
    trainer_zero(&f.trainer);
    f.device->counters = (struct counters){0};
    method_step(method_find("seco"), &f.model, &f.batch, options, &report);
    double waits = counters_clock_s(&f.device->counters) - f.device->counters.estimate_s;
    options_free(&method_find("seco")->options, options);
    step_report_free(&report);
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    device_close(f.device);
    return waits;
}

// A chunk's first inputs are prefetched while the previous chunk ends: a step waits for those of its first chunks
// only, whatever their number. Keys and values of a segment of one layer have one slot, and are waited for.
static void no_chunk_waits_at_its_start(void **state)
{
    (void)state;
    static const char *const texts[] = {"segments=1", "segments=3", "inner=checkpoint", "segment_starts=0,4"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        double few = waits_s(texts[i], 20), many = waits_s(texts[i], 100);
        assert_true(few > 0);
        if (many > 1.05 * few)
            fail_msg("%s: 4 chunks wait for %g s, 20 for %g s", texts[i], few, many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_hide_behind_operations),
        cmocka_unit_test(no_chunk_waits_at_its_start),
    };
    return cmocka_run_group_tests_name("offload times", tests, NULL, NULL);
}
