// Offload: a walk that keeps what it needs later on the host has the same gradients, bit for bit, and moves and
// keeps there what the formulas say; planned as measured. Where copies are late, no wait can be left out.
#include "kernels/base/breakdown.h"
#include "kernels/base/ops.h"
#include "tests/fixture.h"
#include "tests/late.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum offload { OFFLOAD_NONE, OFFLOAD_INPUTS };

static void *options_with(enum offload offload)
{
    return fixture_options(method_find("checkpoint"), "head_chunk=7 offload=%s", offload ? "inputs" : "none");
}

static void options_done(void *options)
{
    options_free(&method_find("checkpoint")->options, options);
}

static double *gradients(struct fixture *f, enum offload offload)
{
    void *options = options_with(offload);
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    arena_reset_peak(&f->device->host);
    double *found = fixture_step(f, "checkpoint", options, &report);
    options_done(options);
    assert_int_equal(f->device->host.live_bytes, 0);
    step_report_free(&report);
    return found;
}

// The same step on the plan: its counters and its arenas.
static void plan(const struct fixture *f, enum offload offload, struct device *copy)
{
    struct status status = {0};
    struct fixture planned = *f;
    void *options = options_with(offload);
    struct step_report report = {0};
    enum dtype sums = fixture_sums(f);
    struct model_options model_options = {.kv_gradient_dtype = sums, .gradient_dtype = sums};
    planned.device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(planned.device);
    model_open(&planned.model, &planned.config, &model_options, planned.device);
    batch_open(&planned.batch, planned.device, NULL, NULL, f->context, f->sequences);
    planned.device->counters = (struct counters){0};
    model_zero_gradients(&planned.model); // as the fixture does
    method_step(method_find("checkpoint"), &planned.model, &planned.batch, options, &report);
    options_done(options);
    assert_int_equal(planned.device->status.code, STATUS_OK);
    *copy = *planned.device;
    step_report_free(&report);
    batch_close(&planned.batch, planned.device);
    model_close(&planned.model);
    device_close(planned.device);
}

static void assert_planned(const struct fixture *f, enum offload offload)
{
    struct device planned;
    plan(f, offload, &planned);
    assert_int_equal(planned.arena.peak_bytes, f->device->arena.peak_bytes);
    assert_memory_equal(planned.arena.peak_by_category, f->device->arena.peak_by_category,
                        sizeof planned.arena.peak_by_category);
    assert_int_equal(planned.host.peak_bytes, f->device->host.peak_bytes);
    assert_memory_equal(planned.host.peak_by_category, f->device->host.peak_by_category,
                        sizeof planned.host.peak_by_category);
    assert_memory_equal(&planned.counters, &f->device->counters, sizeof planned.counters);
}

static void gradients_are_the_same_bits(void **state)
{
    (void)state;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < 3; i++) {
        for (size_t layers = 1; layers <= 5; layers++) {
            for (size_t context = 1; context <= 23; context += 11) {
                struct fixture f = fixture_default();
                f.dtype = dtypes[i];
                f.config.layers = layers;
                f.context = context;
                fixture_open(&f);
                double *kept = gradients(&f, OFFLOAD_NONE);
                struct counters counters = f.device->counters;
                assert_int_equal(f.device->host.peak_bytes, 0);
                assert_true(counters.link_bytes[QUEUE_OUT] == 0 && counters.link_bytes[QUEUE_IN] == 0);
                assert_planned(&f, OFFLOAD_NONE);
                double *offloaded = gradients(&f, OFFLOAD_INPUTS);
                assert_memory_equal(offloaded, kept, f.gradient_count * sizeof *kept);

                size_t input = context * f.sequences * f.config.width * dtype_bytes(f.dtype); // T B d e
                assert_true(f.device->counters.link_bytes[QUEUE_OUT] == (double)(layers * input));
                assert_true(f.device->counters.link_bytes[QUEUE_IN] == (double)(layers * input));
                assert_int_equal(f.device->host.peak_bytes, layers * arena_rounded(input));
                assert_int_equal(f.device->host.peak_by_category[CATEGORY_HIDDEN_CHECKPOINTS],
                                 layers * arena_rounded(input));
                assert_planned(&f, OFFLOAD_INPUTS);
                // All else is as it was.
                assert_true(f.device->counters.flops == counters.flops);
                assert_true(f.device->counters.bytes_moved == counters.bytes_moved);
                assert_int_equal(f.device->counters.launches, counters.launches);
                free(offloaded);
                free(kept);
                fixture_close(&f);
            }
        }
    }
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
        for (enum offload offload = OFFLOAD_NONE; offload <= OFFLOAD_INPUTS; offload++) {
            struct device planned;
            plan(&f, offload, &planned);
            peaks[i][offload] = planned.arena.peak_by_category[CATEGORY_HIDDEN_CHECKPOINTS];
        }
    }
    size_t input = f.context * f.sequences * f.config.width * sizeof(double);
    assert_int_equal(peaks[0][OFFLOAD_NONE], 5 * input);
    assert_int_equal(peaks[1][OFFLOAD_NONE], 13 * input);
    assert_int_equal(peaks[0][OFFLOAD_INPUTS], 3 * input);
    assert_int_equal(peaks[1][OFFLOAD_INPUTS], 3 * input);
}

static void no_wait_can_be_left_out(void **state)
{
    (void)state;
    static const struct {
        enum queue of, for_;
        bool same;
    } waits[] = {{0, 0, true}, {QUEUE_COMPUTE, QUEUE_OUT, false}, {QUEUE_COMPUTE, QUEUE_IN, false}};
    struct fixture f = fixture_default();
    fixture_open(&f);
    double *kept = gradients(&f, OFFLOAD_NONE);
    for (size_t i = 0; i < 3; i++) {
        late_open(f.device, waits[i].of, waits[i].for_);
        double *offloaded = gradients(&f, OFFLOAD_INPUTS);
        assert_int_equal(memcmp(offloaded, kept, f.gradient_count * sizeof *kept) == 0, waits[i].same);
        free(offloaded);
        late_close(f.device);
    }
    free(kept);
    fixture_close(&f);
}

// Whatever fits or not, nothing is left behind, and the next step has its gradients.
static void a_full_host_is_a_result(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    fixture_open(&f);
    double *kept = gradients(&f, OFFLOAD_INPUTS);
    size_t live = f.device->arena.live_bytes, peak = f.device->host.peak_bytes;
    for (size_t part = 1; part <= 8; part++) {
        void *options = options_with(OFFLOAD_INPUTS);
        struct step_report report = {0};
        f.device->host.limit_bytes = peak * part / 8;
        late_open(f.device, 0, 0);
        method_step(method_find("checkpoint"), &f.model, &f.batch, options, &report);
        options_done(options);
        late_close(f.device);
        assert_int_equal(f.device->status.code, part == 8 ? STATUS_OK : STATUS_OOM);
        assert_true(part == 8 || strstr(f.device->status.message, "(limits.host_memory)"));
        assert_int_equal(f.device->arena.live_bytes, live);
        assert_int_equal(f.device->host.live_bytes, 0);
        f.device->status = (struct status){0};
        step_report_free(&report);
    }
    f.device->host.limit_bytes = 0;
    double *again = gradients(&f, OFFLOAD_INPUTS);
    assert_memory_equal(again, kept, f.gradient_count * sizeof *kept);
    free(again);
    free(kept);
    fixture_close(&f);
}

// Seconds of a step by the roofline, over a link of this rate; its rows must add up to it.
static double estimate_s(enum offload offload, double link_bytes_per_s)
{
    struct status status = {0};
    struct fixture f = fixture_default();
    void *options = options_with(offload);
    struct step_report report = {0};
    struct model_options model_options = {.kv_gradient_dtype = f.dtype, .gradient_dtype = f.dtype};
    struct breakdown breakdown;
    f.config.layers = 6;
    f.device = device_open("plan-cpu", f.dtype, 0, &status);
    assert_non_null(f.device);
    f.device->roofline =
        (struct roofline){.flops_per_s = 1e9, .bytes_per_s = 1e9, .link_bytes_per_s = link_bytes_per_s};
    model_open(&f.model, &f.config, &model_options, f.device);
    batch_open(&f.batch, f.device, NULL, NULL, f.context, f.sequences);
    model_zero_gradients(&f.model);
    f.device->counters = (struct counters){0};
    breakdown_start(&breakdown, f.device);
    method_step(method_find("checkpoint"), &f.model, &f.batch, options, &report);
    options_done(options);
    breakdown_stop(&breakdown, f.device);
    double rows_s = 0, all_s = counters_clock_s(&f.device->counters);
    for (size_t i = 0; i < breakdown.row_count; i++) {
        rows_s += breakdown.rows[i].estimate_s;
    }
    assert_true(fabs(rows_s - all_s) <= 1e-12 * all_s);
    breakdown_free(&breakdown);
    step_report_free(&report);
    batch_close(&f.batch, f.device);
    model_close(&f.model);
    device_close(f.device);
    return all_s;
}

// A link that is fast enough costs nothing; one that is slow is all that there is, out and in one after the other.
static void copies_hide_behind_operations(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    double input = (double)(f.context * f.sequences * f.config.width * sizeof(double));
    double alone = estimate_s(OFFLOAD_NONE, 1);
    assert_true(estimate_s(OFFLOAD_INPUTS, 1e12) == alone);
    double hidden = estimate_s(OFFLOAD_INPUTS, 1e9);
    assert_true(hidden == alone);
    double slow = estimate_s(OFFLOAD_INPUTS, 1), copies = 2 * 6 * input;
    assert_true(slow > copies && slow < copies + alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_same_bits),   cmocka_unit_test(the_device_keeps_two_rows),
        cmocka_unit_test(no_wait_can_be_left_out),       cmocka_unit_test(a_full_host_is_a_result),
        cmocka_unit_test(copies_hide_behind_operations),
    };
    return cmocka_run_group_tests_name("offload", tests, NULL, NULL);
}
