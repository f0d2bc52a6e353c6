// Measured rates: between points and beyond them, written to a profile and read again, in an estimate with its
// range, with the roofline where a rate is missing, and in a search, whose choice stays that of an exhaustive
// search if a larger chunk is slower.
#define _GNU_SOURCE // asprintf
#include "harness/plan/planner.h"
#include "kernels/device/ops.h"
#include "tests/asked.h"
#include "tests/scratch.h"

#define PEAKS                                                                                                      \
    "'name': 'measured', 'memory_bytes': {'value': 1e12, 'source': 'a'}, 'usable_bytes': {'value': 1e12, "         \
    "'source': 'a'}, 'f32_flops_per_s': {'value': 1e9, 'source': 'a'}, 'bandwidth_bytes_per_s': {'value': 1e30, "  \
    "'source': 'a'}, 'launch_s': {'value': 1e-12, 'source': 'a'}, 'host_link_bytes_per_s': {'value': 1e30, "       \
    "'source': 'a'}"
#define ONE(rate)       "{'axes': [[1], [1], [1]], 'values': [" rate "]}"
#define GEMMS(rate)     "'gemm_nt': " ONE(rate) ", 'gemm_nn': " ONE(rate) ", 'gemm_tn': " ONE(rate)
#define ATTENTION(rate) "'attention_forward': " ONE(rate) ", 'attention_backward': " ONE(rate)
#define PROFILE(operations)                                                                                        \
    "{" PEAKS                                                                                                      \
    ", 'rates': {'f32': {'source': 'made up', 'spread': [0.5, 3], 'reference_kernel_s': 0.0025, 's_per_byte': "    \
    "2e-22, 'operations': "                                                                                        \
    "{" operations "}}}}"

static struct scratch_path profile_file(const struct scratch *scratch, const char *json)
{
    char *text = quoted(json);
    struct scratch_path path = scratch_file(scratch, "measured.json", text, strlen(text));
    free(text);
    return path;
}

// A power of each extent is a straight line in logarithms: between points it is met, beyond them the last one
// holds.
static void rates_lie_between_their_points(void **state)
{
    (void)state;
    struct rates rates = {.count = 1};
    struct rate *rate = &rates.items[0];
    *rate = (struct rate){
        .operation = "gemm_tn", .dimensions = 3, .counts = {3, 2, 1}, .axes = {{8, 32, 512}, {16, 100}, {7}}};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 2; j++)
            rate->values[i * 2 + j] = 1e6 * pow(rate->axes[0][i], 0.5) * pow(rate->axes[1][j], -0.25);
    static const struct {
        size_t m, n, as_m, as_n;
    } cases[] = {{8, 16, 8, 16},     {32, 100, 32, 100}, {20, 50, 20, 50},       {100, 99, 100, 99},
                 {512, 16, 512, 16}, {1, 1, 8, 16},      {4096, 4096, 512, 100}, {8, 40, 8, 40}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct range range = {
            .name = "gemm", .m = cases[i].m, .n = cases[i].n, .k = 1 + 300 * i, .transpose_a = true};
        double expected = 1e6 * pow((double)cases[i].as_m, 0.5) * pow((double)cases[i].as_n, -0.25),
               seconds = rates_seconds(&rates, &range, &(struct cost){.flops = 1e9, .bytes = 1}, false);
        assert_true(fabs(1e9 / seconds / expected - 1) < 1e-12);
        const struct cost longer = {.flops = 1e9, .bytes = 5000};
        rates.s_per_byte = 1e-3; // in a step each byte takes besides
        assert_true(fabs((rates_seconds(&rates, &range, &longer, false) - seconds) / 5 - 1) < 1e-9);
        range.transpose_a = false;
        assert_true(rates_seconds(&rates, &range, &longer, false) == 0); // has no rate
        rates.s_per_byte = 0;
    }
}

// Each kind of product has a rate of its own, by its extents, and attention one by its queries, keys per query and
// width.
static void an_operation_has_the_rate_of_its_kind(void **state)
{
    (void)state;
    struct rates rates = {.count = 4,
                          .items = {{.operation = "gemm_nn", .dimensions = RATE_DIMENSIONS},
                                    {.operation = "gemm_nt", .dimensions = RATE_DIMENSIONS},
                                    {.operation = "gemm_tn", .dimensions = RATE_DIMENSIONS},
                                    {.operation = "attention_forward", .dimensions = RATE_DIMENSIONS}}};
    static const struct {
        struct range range;
        size_t rate;
        double at[RATE_DIMENSIONS];
    } cases[] = {
        {{.name = "gemm", .m = 2, .n = 3, .k = 5}, 0, {2, 3, 5}},
        {{.name = "gemm", .m = 2, .n = 3, .k = 5, .transpose_b = true}, 1, {2, 3, 5}},
        {{.name = "gemm", .m = 2, .n = 3, .k = 5, .transpose_a = true}, 2, {2, 3, 5}},
        {{.name = "attention_forward", .queries = 4, .keys = 14, .head_dim = 7}, 3, {4, 3.5, 7}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        double at[RATE_DIMENSIONS] = {0};
        assert_ptr_equal(rates_find(&rates, &cases[i].range, 1, at), &rates.items[cases[i].rate]);
        for (size_t d = 0; d < RATE_DIMENSIONS; d++)
            assert_true(at[d] == cases[i].at[d]);
    }
}

// Without a rate an operation takes what is longer, its FLOPs at the device's rate or its bytes at the bandwidth,
// and a launch.
static void an_estimate_is_by_the_roofline(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("plan-cpu", DTYPE_F32, 0, &status);
    assert_non_null(device);
    struct tensor a = tensor_new(device, 8, 16, DTYPE_F32, CATEGORY_WORKSPACE),
                  b = tensor_new(device, 16, 32, DTYPE_F32, CATEGORY_WORKSPACE),
                  c = tensor_new(device, 8, 32, DTYPE_F32, CATEGORY_WORKSPACE);
    const double flops = 2 * 8 * 16 * 32, bytes = 4 * (8 * 16 + 16 * 32 + 8 * 32);
    static const struct roofline roofs[] = {{.flops_per_s = 1e3, .bytes_per_s = 1e3, .launch_s = 0.25},
                                            {.flops_per_s = 1e6, .bytes_per_s = 1e3, .launch_s = 0.25}};
    for (size_t i = 0; i < COUNT(roofs); i++) {
        device->roofline = roofs[i];
        device->counters = (struct counters){0};
        op_gemm(device, c, a, NO_TRANSPOSE, b, NO_TRANSPOSE, 1, 0);
        assert_true(near(device->counters.estimate_s, (i == 0 ? flops : bytes) / 1e3 + 0.25));
    }
    // A card's rates without one for this product bound it by memory alone, which is not all.
    static const struct rates rates = {.bytes_per_s = 1e5};
    device->roofline = roofs[0];
    device->roofline.rates = &rates;
    device->counters = (struct counters){0};
    op_gemm(device, c, a, NO_TRANSPOSE, b, NO_TRANSPOSE, 1, 0);
    assert_true(near(device->counters.estimate_s, flops / 1e3 + 0.25));
    tensor_free(device, &a);
    tensor_free(device, &b);
    tensor_free(device, &c);
    device_close(device);
}

// One call of attention in bf16, forward and backward; all of its keys take gradients, or none.
static void attend(struct device *device, struct attention_shape s, bool gradients, double seconds[2])
{
    size_t rows = s.queries * s.batch, keys = attention_keys(s) * s.batch, cols = s.heads * s.head_dim;
    struct tensor q = tensor_new(device, rows, cols, DTYPE_BF16, CATEGORY_WORKSPACE), o = q, grad_q = q;
    struct tensor sums = tensor_new(device, rows, s.heads, DTYPE_F32, CATEGORY_WORKSPACE);
    struct tensor k = tensor_new(device, keys, cols, DTYPE_BF16, CATEGORY_WORKSPACE);
    struct key_segment all = {0, attention_keys(s), k, k, {0}};
    device->counters = (struct counters){0};
    op_attention_forward(device, s, o, sums, q, k, k);
    seconds[0] = device->counters.estimate_s;
    op_attention_backward(device, s, grad_q, false, &all, gradients, q, o, sums, q, k, k);
    seconds[1] = device->counters.estimate_s - seconds[0];
    tensor_free(device, &k);
    tensor_free(device, &sums);
    tensor_free(device, &q);
    assert_int_equal(device->status.code, STATUS_OK);
}

// Price of own kernels in f32: the forward by its count, the backward by its actual products, seven for five, or
// three for three without gradients of keys. A measured rate is a lower bound of the time.
static void attention_in_f32_has_its_rate(void **state)
{
    (void)state;
    static const struct {
        struct attention_shape shape;
        double forward, backward; // share in f32
    } cases[] = {
        {{256, 0, 1, 2, 2, 64, 0, {0}, 0, 0}, 0, 0},
        {{256, 256, 1, 2, 2, 64, 256, {0}, 0, 0}, 0, 0},
        {{256, 300, 1, 2, 2, 64, 300, {0}, 0, 0}, 0, 44.0 / 300}, // but for whole tiles of keys
        {{256, 300, 1, 2, 2, 64, 100, {0}, 0, 0}, 0, 1},
        {{300, 0, 1, 2, 2, 64, 0, {0}, 0, 0}, 0, 0},  // a square's are all whole
        {{256, 0, 1, 2, 2, 192, 0, {0}, 0, 0}, 0, 1}, // on a card in particular
        {{256, 0, 1, 2, 2, 60, 0, {0}, 0, 0}, 1, 1},
        {{256, 0, 1, 2, 2, 64, 0, {.window = 100}, 0, 0}, 0, 0},
        {{127, 256, 1, 2, 2, 64, 0, {.window = 100}, 0, 0}, 1, 1}, // a mask, and no tile of queries
        {{256, 0, 1, 2, 2, 64, 0, {.window = 256}, 0, 0}, 0, 0},   // it takes nothing away
    };
    const double fast = 1e6, slow = 1e4;
    struct rates rates = {.count = 1, .items = {{"attention_forward", 3, {1, 1, 1}, {{1}, {1}, {1}}, {1e5}}}};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    for (size_t i = 0; i < COUNT(cases); i++) {
        double found[2], counted[2];
        for (int gradients = 0; gradients < 2; gradients++) {
            device->roofline = (struct roofline){.flops_per_s = 1, .bytes_per_s = 1e30};
            attend(device, cases[i].shape, gradients, counted); // in FLOPs
            device->roofline.flops_per_s = fast;
            device->roofline.f32_flops_per_s = slow;
            attend(device, cases[i].shape, gradients, found);
            double share = cases[i].backward, done = gradients ? 1.4 : 1;
            assert_true(near(found[0], counted[0] * ((1 - cases[i].forward) / fast + cases[i].forward / slow)));
            assert_true(near(found[1], counted[1] * ((1 - share) / fast + share * done / slow)));
            device->roofline.rates = &rates;
            attend(device, cases[i].shape, gradients, found);
            assert_true(near(found[0], counted[0] / (cases[i].forward > 0 ? slow : 1e5)));
            rates.items[0].values[0] = 1e3;
            attend(device, cases[i].shape, gradients, found);
            assert_true(near(found[0], counted[0] / 1e3));
            rates.items[0].values[0] = 1e5;
        }
    }
    device_close(device);
}

// A device in f32 computes nothing in f32 beside its dtype.
static void attention_of_f32_has_no_other_rate(void **state)
{
    (void)state;
    const struct attention_shape shape = {256, 300, 1, 2, 2, 64, 300, {0}, 0, 0};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_F32, 0, &status);
    assert_non_null(device);
    for (int backward = 0; backward < 2; backward++)
        assert_true(device->ops->rules->attention_f32_share(device, shape, backward) == 0);
    device_close(device);
}

// A bound of however queries are cut: those before the window's end could be cuDNN's.
static void the_least_in_f32(void **state)
{
    (void)state;
    setenv("LONGBP_MASKED_ATTENTION", "own", 1);
    const struct attention_shape shape = {256, 0, 1, 2, 2, 64, 0, {.window = 100}, 0, 0},
                                 rest = {256, 300, 1, 2, 2, 64, 300, {0}, 0, 0};
    const double heads = 4 * 2 * 64, early = heads * 100 * 101 / 2, late = heads * 156 * 100;
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    double found[2];
    assert_non_null(device);
    device->roofline =
        (struct roofline){.flops_per_s = 1e6, .f32_flops_per_s = 1e4, .bytes_per_s = 1e30, .min = true};
    attend(device, shape, true, found);
    assert_true(near(found[0], early / 1e6 + late / 1e4));
    attend(device, rest, true, found);
    assert_true(near(found[1], 2.5 * heads * 256 * 300 / 1e6));
    unsetenv("LONGBP_MASKED_ATTENTION");
    device_close(device);
}

// All FLOPs are of GEMM and attention: at one rate, and all else next to nothing, a step takes their sum.
static void an_estimate_is_by_rates(void **state)
{
    struct scratch_path path = profile_file(*state, PROFILE(GEMMS("2e6") ", " ATTENTION("2e6")));
    static const char *const methods[] = {"full", "checkpoint", "streambp --chunk 30", "seco --chunk 30"};
    for (size_t i = 0; i < COUNT(methods); i++) {
        json_t *plan =
            longbp_json("plan --model tiny --context 100 --method %s --profile %s --json", methods[i], path.text);
        double expected_ms = 1e3 * number(plan, "flops") / 2e6;
        assert_true(fabs(number(plan, "estimate_ms") / expected_ms - 1) < 1e-9);
        assert_true(near(number(plan, "estimate_low_ms"), 0.5 * number(plan, "estimate_ms")));
        assert_true(near(number(plan, "estimate_high_ms"), 3 * number(plan, "estimate_ms")));
        assert_string_equal(json_string_value(json_object_get(plan, "estimate")), "measured rates");
        json_decref(plan);
    }
}

static void wrong_rates_are_refused(void **state)
{
    static const struct {
        const char *operations, *says;
    } cases[] = {
        {"'gemm_nt': {'axes': [[1, 1], [1], [1]], 'values': [1, 2]}", "above the one before it"},
        {"'gemm_nt': {'axes': [[1, 2], [1], [1]], 'values': [1]}", "a list of 2 numbers"},
        {"'gemm_nt': {'axes': [[1], [1]], 'values': [1]}", "one axis, or 3"},
        {"'gemm_nt': {'axes': [[1], [1], []], 'values': [1]}", "a list of 1 to 8 rising numbers"},
        {"'gemm_nt': {'axes': [[1], [1], [1]], 'values': [0]}", "a number from 1"},
        {"'gemm_nt': {'axes': [[1], [1], ['a']], 'values': [1]}", "a number from 1"},
        {"'gemm_nt': {'axis': [[1], [1], [1]], 'values': [1]}", "unknown key"},
        {"'gemm_nt': 7", "{\"axes\": [...], \"values\": [...]}"},
        {"'an_operation_that_has_so_long_a_name': {'axes': [[1]], 'values': [1]}", "so long a name"},
        {"}, 'f16': {", "unknown key"},
        {"}, 'reference_kernel_s': {", "a number from 1e-09"},
        {"}, 's_per_byte': {", "a number from 0"},
        {"'gemm_nt': " ONE("1"),
         "no rate of gemm_nn; measure all with longbp calibrate --rates, or leave rates out"},
        {GEMMS("1") ", 'attention_forward': " ONE("1"), "no rate of attention_backward;"},
        {GEMMS("1") ", 'attention_forward_rectangle': " ONE("1"), "no rate of attention_forward;"},
        {"}, 'power': {'factor': 2", "key \"flops_per_s\": missing"},
        {"}, 'power': {'flops_per_s': 1, 'factor': 0.5", "a number from 1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *json;
        assert_true(asprintf(&json,
                             "{" PEAKS
                             ", 'rates': {'f32': {'source': 'a', 'spread': [0.5, 3], 'operations': {%s}}}}",
                             cases[i].operations) > 0);
        struct scratch_path path = profile_file(*state, json);
        struct profile profile;
        struct status status = {0};
        if (profile_load(&profile, path.text, &status) || !strstr(status.message, cases[i].says) ||
            !strstr(status.message, "measured.json:1:"))
            fail_msg("%s: %s", cases[i].operations, status.message);
        free(json);
    }
}

static void rates_are_written_and_read_again(void **state)
{
    struct scratch_path path = profile_file(
        *state,
        PROFILE(GEMMS("1.5e9") ", " ATTENTION("1.5e9") ", 'copy': {'axes': [[10, 200]], 'values': [3e9, 4e9]}"));
    struct profile profile, again;
    struct status status = {0};
    assert_true(profile_load(&profile, path.text, &status));
    char *text = profile_text(&profile);
    path = scratch_file(*state, "again.json", text, strlen(text));
    if (!profile_load(&again, path.text, &status))
        fail_msg("%s: %s", text, status.message);
    assert_memory_equal(&profile.rates, &again.rates, sizeof profile.rates);
    assert_string_equal(again.rates_source, "made up");
    assert_true(again.rates[DTYPE_F32].reference_kernel_s == 0.0025 && again.rates[DTYPE_F32].s_per_byte == 2e-22);
    free(text);
}

// GEMM is the slower the more rows it has: the smallest chunk is the fastest.
static void a_search_does_not_trust_the_chunk(void **state)
{
#define FALLING "{'axes': [[100, 1000], [1], [1]], 'values': [1e9, 1e8]}"
    struct scratch_path path = profile_file(*state, PROFILE("'gemm_nt': " FALLING ", 'gemm_nn': " FALLING
                                                            ", 'gemm_tn': {'axes': [[1], [1], [100, 1000]], "
                                                            "'values': [1e9, 1e8]}, " ATTENTION("1e9")));
    struct trial trials[8];
    size_t count = 0;
    for (size_t i = 0; methods[i]; i++) {
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'context': 900, 'device': 'plan', 'profile': '%s', 'method': '%s'}",
                             path.text, methods[i]->name) > 0);
        if (methods[i]->exact)
            trials[count++] = trial_of(json);
        free(json);
    }
    struct space space;
    struct planner planner;
    struct status status = {0};
    space_open(&space, trials, count, NULL);
    static const size_t limits_bytes[] = {NO_LIMIT, 24 << 20, 12 << 20};
    for (size_t l = 0; l < COUNT(limits_bytes); l++) {
        struct planned_limits limits = {limits_bytes[l], NO_LIMIT};
        double min_s = INFINITY;
        bool smallest = false;
        for (size_t f = 0; f < space.count; f++) {
            for (size_t index = 0; index < space.families[f].candidates; index++) {
                struct planned_step step;
                void *options = family_options(&space.families[f], index);
                struct planned_memos none = {0};
                assert_true(planned_step(&step, space.families[f].trial, options, limits, &none, &status));
                options_free(&space.families[f].trial->method->options, options);
                if (step.fits && step.seconds < min_s) {
                    min_s = step.seconds;
                    smallest = index == 0 && space.families[f].candidates > 1;
                }
            }
        }
        struct candidate fastest;
        assert_true(planner_open(&planner, &space, limits, &status) &&
                    planner_fastest(&planner, &fastest, &status));
        assert_true(fastest.step.fits ? near(fastest.step.seconds, min_s) : isinf(min_s));
        assert_true(l > 0 || smallest); // the case that this is about
        planner_close(&planner);
    }
    space_close(&space);
    for (size_t i = 0; i < count; i++)
        trial_free(&trials[i]);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_lie_between_their_points),
        cmocka_unit_test(an_operation_has_the_rate_of_its_kind),
        cmocka_unit_test(an_estimate_is_by_the_roofline),
        cmocka_unit_test(attention_in_f32_has_its_rate),
        cmocka_unit_test(attention_of_f32_has_no_other_rate),
        cmocka_unit_test(the_least_in_f32),
        cmocka_unit_test_setup_teardown(an_estimate_is_by_rates, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(wrong_rates_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(rates_are_written_and_read_again, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_search_does_not_trust_the_chunk, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
