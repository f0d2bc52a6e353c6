// Calibration of the emulated card: its properties, shapes as large as the time allows, and a profile that plans
// and trials take. Its times mean nothing.
#define _GNU_SOURCE // asprintf
#include "harness/machine/rate_probe.h"
#include "harness/profile/profile.h"
#include "tests/asked.h"
#include "tests/scratch.h"

#define CARD_BYTES ((size_t)8 << 30)

// The profile of a card; to: "--out", or ">".
static struct profile *calibrated(const char *flags, const char *to, const char *path)
{
    struct status status = {0};
    char *arguments, *out;
    struct profile *profile = calloc(1, sizeof *profile);
    assert_non_null(profile);
    assert_true(asprintf(&arguments, "calibrate --device cuda %s %s %s", flags, to, path) > 0);
    if (longbp(&out, arguments) != 0)
        fail_msg("%s: %s", arguments, out);
    if (!profile_load(profile, path, &status))
        fail_msg("%s", status.message);
    free(out);
    free(arguments);
    return profile;
}

static const struct rate *rate_of(const struct rates *rates, const char *operation)
{
    for (size_t i = 0; i < rates->count; i++)
        if (strcmp(rates->items[i].operation, operation) == 0)
            return &rates->items[i];
    fail_msg("no rate of %s", operation);
    return NULL;
}

// Rates of its own, and none that were scaled from another card's when it was loaded.
static bool has_measured(const struct profile *profile, int dtype)
{
    return profile->rates[dtype].count > 0 && !profile->rates[dtype].scaled;
}

static void a_card_has_peaks(void **state)
{
    struct profile *profile =
        calibrated("--rates none --seconds 0.02", ">", scratch_path(*state, "card.json").text);
    assert_string_equal(profile->name, "no-gpu-cuda-emulated-on-the-cpu");
    assert_true(profile->memory_bytes.value == CARD_BYTES);
    assert_true(profile->reserve_bytes.value == 256 << 20);
    assert_true(profile->usable_bytes.value < CARD_BYTES && profile->usable_bytes.value > 0.5 * CARD_BYTES);
    assert_true(profile->multiprocessors.value == 132 && profile->compute_capability.value == 9);
    for (int dtype = DTYPE_F64; dtype <= DTYPE_BF16; dtype++)
        assert_true(profile->flops_per_s[dtype].value > 1e6);
    assert_true(profile->bandwidth_bytes_per_s.value > 1e6 && profile->host_link_bytes_per_s.value > 1e6);
    assert_true(profile->launch_s.value > 0);
    assert_non_null(strstr(profile->launch_s.source, "CUDA emulated on the CPU, 0000:E0:00.0, 132 multi"));
    assert_non_null(strstr(profile->launch_s.source, ", cuDNN "));
    assert_non_null(strstr(profile->host_link_bytes_per_s.source, "to and from the host"));
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        assert_false(has_measured(profile, dtype));
    assert_true(profile->rates[DTYPE_BF16].scaled);
    free(profile);
}

// As many values as points; in so short a time the largest have the rate of a smaller one.
static void check_rates(const struct rates *rates)
{
    assert_true(rates->reference_kernel_s > 0 && rates->s_per_byte >= 0 && rates->low <= rates->high);
    for (const struct rate_probe *probe = rate_probes; probe->operation; probe++) {
        const struct rate *rate = rate_of(rates, probe->operation);
        size_t values = 1;
        for (size_t d = 0; d < rate->dimensions; d++) {
            assert_true(fabs(rate->axes[d][0] / (double)probe->card_axes[d][0] - 1) < 1e-3); // four digits
            values *= rate->counts[d];
        }
        for (size_t v = 0; v < values; v++)
            assert_true(rate->values[v] > 0 && isfinite(rate->values[v]));
        if (rate->dimensions > 1)
            assert_true(rate->values[values - 1] == rate->values[values - 2]);
    }
}

static void a_card_has_rates(void **state)
{
    static const struct {
        const char *name, *like;
        enum dtype dtype;
    } cases[] = {{"bf16", "", DTYPE_BF16}, {"f32", "--like cuda", DTYPE_F32}};
    struct scratch_path path = scratch_path(*state, "my-card.json");
    for (size_t i = 0; i < COUNT(cases); i++) {
        char flags[64], *trial;
        snprintf(flags, sizeof flags, "--rates %s --seconds 0.01", cases[i].name);
        struct profile *profile = calibrated(flags, "--out", path.text);
        assert_string_equal(profile->name, "my-card");
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
            assert_int_equal(has_measured(profile, dtype), dtype == (int)cases[i].dtype);
        assert_non_null(strstr(profile->rates_source, "CUDA emulated"));
        check_rates(&profile->rates[cases[i].dtype]);
        free(profile);
        json_t *plan = longbp_json("plan --model tiny --context 64 --dtype %s %s --method full --profile %s --json",
                                   cases[i].name, cases[i].like, path.text);
        assert_true(number(plan, "estimate_ms") > 0 && number(plan, "estimate_low_ms") > 0);
        json_decref(plan);
        assert_true(asprintf(&trial,
                             "{'model': 'tiny', 'context': 16, 'method': 'full', 'device': 'cuda', 'dtype': '%s', "
                             "'profile': '%s', 'measure': {'warmup': 0, 'samples': 1, 'gradient': 'none'}}",
                             cases[i].name, path.text) > 0);
        json_t *record = record_of(trial);
        assert_true(number(record, "estimate_ms") > 0);
        assert_null(json_object_get(record, "slowdown")); // a card's is not taken beside its steps
        json_decref(record);
        free(trial);
    }
}

static size_t largest(const size_t *axis)
{
    size_t i = 0;
    while (axis[i + 1])
        i++;
    assert_true(i < RATE_POINTS);
    return axis[i];
}

// A chunk's rows and a model's widths lie within the grids, and what is measured takes longer than its launch.
static void shapes_are_those_of_models(void **state)
{
    (void)state;
    const struct rate_probe *gemm = rate_probe_find("gemm_nn"), *attention = rate_probe_find("attention_backward"),
                            *copy = rate_probe_find("copy");
    for (size_t d = 0; d < gemm->dimensions; d++)
        assert_true(gemm->card_axes[d][0] <= 8 && largest(gemm->card_axes[d]) >= 14336);
    assert_true(largest(attention->card_axes[0]) >= 8192);
    assert_true(2048 * largest(attention->card_axes[1]) >= 131072 && largest(attention->card_axes[2]) == 128);
    assert_true(largest(copy->card_axes[0]) >= (size_t)512 << 20);
}

static void there_is_no_second_card(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(longbp(&out, "calibrate --device cuda:1 --rates none --seconds 3600"), 2);
    assert_non_null(strstr(out, "there is no device cuda:1: this machine has 1 GPU"));
    free(out);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_card_has_peaks, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_card_has_rates, scratch_setup, scratch_teardown),
        cmocka_unit_test(shapes_are_those_of_models),
        cmocka_unit_test(there_is_no_second_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
