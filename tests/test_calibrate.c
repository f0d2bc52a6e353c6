// Calibration: of numbers that differ, and into a profile that plan takes.
#define _GNU_SOURCE // asprintf
#include "harness/calibrate/calibrate.h"
#include "harness/calibrate/calibrate_rates.h"
#include "harness/calibrate/calibrate_steps.h"
#include "kernels/device/ops.h"
#include "tests/asked.h"
#include "tests/scratch.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// No number of an operand comes twice, but for what rounding makes equal.
static void calibrate_works_on_data(void **state)
{
    (void)state;
    enum { ROWS = 40, COLS = 50, COUNT = ROWS * COLS };
    static const struct {
        enum dtype dtype;
        size_t different;
    } cases[] = {{DTYPE_F32, COUNT * 99 / 100}, {DTYPE_F64, COUNT * 99 / 100}, {DTYPE_BF16, COUNT / 4}};
    for (size_t d = 0; d < 3; d++) {
        struct calibrate_operands operands;
        struct status status = {0};
        double values[2][COUNT];
        assert_true(calibrate_open(&operands, "cpu", cases[d].dtype, ROWS, COLS, &status));
        tensor_read(operands.device, operands.a, values[0]);
        tensor_read(operands.device, operands.b, values[1]);
        for (int i = 0; i < 2; i++) {
            size_t different = 1;
            qsort(values[i], COUNT, sizeof(double), by_value);
            for (size_t j = 1; j < COUNT; j++)
                different += values[i][j] != values[i][j - 1];
            assert_true(different > cases[d].different);
        }
        calibrate_close(&operands);
    }
    struct calibrate_operands operands;
    struct status status = {0};
    assert_false(calibrate_open(&operands, "cpu", DTYPE_F16, ROWS, COLS, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    calibrate_close(&operands);
}

static void calibrate_writes_a_profile(void **state)
{
    struct scratch_path path = scratch_path(*state, "host.json");
    char *arguments, *out;
    assert_true(asprintf(&arguments, "calibrate --rates f32 --seconds 0.001 --out %s", path.text) > 0);
    int code = longbp(&out, arguments);
    if (code != 0)
        fail_msg("%s: %s", arguments, out);
    free(out);
    free(arguments);
    struct profile profile;
    struct status status = {0};
    if (!profile_load(&profile, path.text, &status))
        fail_msg("%s", status.message);
    assert_string_equal(profile.name, "host");
    for (int dtype = DTYPE_F64; dtype <= DTYPE_BF16; dtype++)
        assert_true(profile.flops_per_s[dtype].value > 1e8);
    assert_true(profile.bandwidth_bytes_per_s.value > 1e8);
    assert_non_null(strstr(profile.bandwidth_bytes_per_s.source, "measured: a copy of "));
    assert_null(strstr(profile.bandwidth_bytes_per_s.source, "256 MiB")); // which takes longer
    // Written with six digits.
    assert_true(fabs(2 * profile.host_link_bytes_per_s.value / profile.bandwidth_bytes_per_s.value - 1) < 1e-4);
    assert_true(profile.launch_s.value < 5e-5); // a thousand of them take longer
    // Between points of a grid four times apart a GEMM's rate is no straight line: a model's widths lie nearer to
    // one.
    static const char *const gemms[] = {"gemm_nt", "gemm_nn", "gemm_tn"};
    for (size_t g = 0; g < 3; g++) {
        const struct rates *rates = &profile.rates[DTYPE_F32];
        const struct rate *rate = rates->items;
        while (rate < rates->items + rates->count && strcmp(rate->operation, gemms[g]) != 0)
            rate++;
        assert_true(rate < rates->items + rates->count);
        for (size_t d = 0; d < RATE_DIMENSIONS; d++)
            for (size_t i = 1; i < rate->counts[d]; i++)
                assert_true(rate->axes[d][i - 1] < 32 || rate->axes[d][i] == 2 * rate->axes[d][i - 1]);
    }
    // A step's samples on this machine say how fast it is then; a plan has none.
    assert_true(profile.rates[DTYPE_F32].reference_kernel_s > 0);
    json_t *plan = longbp_json("plan --model tiny --context 64 --profile %s --json", path.text);
    assert_true(number(plan, "estimate_ms") > 0);
    assert_null(json_object_get(plan, "slowdown"));
    json_decref(plan);
    static const struct {
        const char *flags;
        size_t count;
    } cases[] = {{"'dtype': 'f32'", 3}, {"'dtype': 'f64'", 0}, {"'dtype': 'f32', 'device': 'plan'", 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *trial;
        assert_true(asprintf(&trial,
                             "{'model': 'tiny', 'context': 16, 'method': 'full', 'profile': '%s', 'measure': "
                             "{'warmup': 0, 'samples': 3, 'gradient': 'none'}, %s}",
                             path.text, cases[i].flags) > 0);
        json_t *record = record_of(trial);
        const json_t *slowdown = json_object_get(record, "slowdown");
        assert_int_equal(json_array_size(slowdown), cases[i].count);
        for (size_t j = 0; j < cases[i].count; j++)
            assert_true(json_number_value(json_array_get(slowdown, j)) > 0);
        json_decref(record);
        free(trial);
    }
}

// Times and the reference kernel's around them, on a machine that is half as fast for a while, and where a round's
// time, or its reference kernel, met a moment of its own.
static void a_bad_moment_is_taken_out(void **state)
{
    (void)state;
    static const double seconds[] = {3, 6, 3, 9, 3}, around_s[] = {1, 2, 1, 1, 2};
    assert_true(calibrate_steady_s(seconds, around_s, 5, 1) == 3);
    assert_true(calibrate_steady_s(seconds, around_s, 5, 0.5) == 1.5);
    assert_true(calibrate_steady_s(seconds, around_s, 2, 1) == 3);
}

// The middle step's, whatever disturbed another; steps that take no longer than their operations add nothing.
static void a_step_takes_longer_than_its_operations(void **state)
{
    (void)state;
    static const struct calibrated_step steps[] = {{5, 3, 2}, {90, 4, 1}, {7, 4, 2}}, short_steps[] = {{3, 5, 2}};
    assert_true(calibrate_s_per_byte(steps, 3, 2) == 1.5 && calibrate_s_per_byte(short_steps, 1, 2) == 0);
    assert_true(calibrate_s_per_byte(steps, 3, 0.5) == 0.5);
    struct status status = {0};
    struct rates rates = {.reference_kernel_s = 1e-3, .s_per_byte = 7};
    struct calibrated what = {.device = "cpu", .dtype = DTYPE_F32, .seconds = 1e-6};
    assert_true(calibrate_steps(&rates, &what, 1, &status)); // operations that take no time
    assert_true(rates.s_per_byte > 0 && rates.s_per_byte < 1);
    rates.items[0] = (struct rate){
        .operation = "gemm_nt", .dimensions = 3, .counts = {1, 1, 1}, .axes = {{1}, {1}, {1}}, .values = {1}};
    rates.count = 1; // or years
    assert_true(calibrate_steps(&rates, &what, 1, &status) && rates.s_per_byte == 0);
    what.dtype = DTYPE_F16;
    assert_false(calibrate_steps(&rates, &what, 1, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
}

// Refused before anything is measured, which would take an hour.
static void wrong_flags_are_refused(void **state)
{
    static const struct {
        const char *flags, *says;
    } cases[] = {
        {"--seconds nan", "--seconds is a number above 0 and up to 86400, not \"nan\""},
        {"--seconds 0", "not \"0\""},
        {"--seconds 1e9", "not \"1e9\""},
        {"--seconds 5x", "not \"5x\""},
        {"--seconds 3600 --device plan-cuda", "--device is cpu, cuda or cuda:1, not \"plan-cuda\""},
        {"--seconds 3600 --device gpu", "this program has no device \"gpu\""},
        {"--seconds 3600 --device cpu:1", "device cpu has no cards to number"},
        {"--seconds 3600 --device cuda --out no-card.json", "/no/such.so"},
        {"--seconds 3600 --rates f16", "--rates is none, or some of f64, f32 and bf16, not \"f16\""},
        {"--seconds 3600 --rates f32,,", "not \"\""},
        {"--seconds 3600 --out .", ".: cannot write to it: Is a directory"},
        {"--seconds 3600 host.json", "unexpected \"host.json\""},
    };
    (void)state;
    setenv("LONGBP_CUDA", "/no/such.so", 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char arguments[128], *out;
        snprintf(arguments, sizeof arguments, "calibrate %s", cases[i].flags);
        int code = longbp(&out, arguments);
        if (code != 2 || !strstr(out, cases[i].says))
            fail_msg("%s: exit code %d: %s", arguments, code, out);
        free(out);
    }
    unsetenv("LONGBP_CUDA");
    assert_int_equal(access("no-card.json", F_OK), -1);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibrate_works_on_data),
        cmocka_unit_test(a_bad_moment_is_taken_out),
        cmocka_unit_test(a_step_takes_longer_than_its_operations),
        cmocka_unit_test(wrong_flags_are_refused),
        cmocka_unit_test_setup_teardown(calibrate_writes_a_profile, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
