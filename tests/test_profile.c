// Device profiles: those that come with the program, wrong files, files written and read again, and a roofline's
// estimate of an operation. JSON and messages are written with ' for ".
#define _GNU_SOURCE // nftw
#include "harness/profile/profile.h"
#include "kernels/device/ops.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void the_cards_are_there(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double gib, bf16, f32, f64, bandwidth, multiprocessors, capability;
    } cards[] = {
        {"rtx-3090", 24, 71e12, 35.6e12, 0.556e12, 936e9, 82, 8.6},
        {"rtx-4090", 24, 165.2e12, 82.6e12, 1.29e12, 1008e9, 128, 8.9},
        {"a100-80g", 80, 312e12, 19.5e12, 9.7e12, 2039e9, 108, 8.0},
        {"a800-80g", 80, 312e12, 19.5e12, 9.7e12, 2039e9, 108, 8.0},
        {"h100-80g", 80, 989e12, 67e12, 34e12, 3350e9, 132, 9.0},
        {"h200-141g", 140.4, 989e12, 67e12, 34e12, 4800e9, 132, 9.0},
        {"rtx-3060-12g", 12, 25.5e12, 12.74e12, 12.74e12 / 64, 360e9, 28, 8.6},
        {"rtx-4060-ti-16g", 16, 44.1e12, 22.06e12, 22.06e12 / 64, 288e9, 34, 8.9},
        {"rtx-4080", 16, 97.5e12, 48.7e12, 48.7e12 / 64, 716.8e9, 76, 8.9},
        {"rtx-5080", 16, 112.6e12, 56.3e12, 56.3e12 / 64, 960e9, 84, 12.0},
        {"rtx-5090", 32, 209.5e12, 104.8e12, 104.8e12 / 64, 1792e9, 170, 12.0},
        {"a10g", 24, 70e12, 35e12, 35e12 / 64, 600e9, 80, 8.6},
        {"l4", 24, 121e12, 30.3e12, 30.3e12 / 64, 300e9, 58, 8.9},
        {"l40s", 48, 362.05e12, 91.6e12, 91.6e12 / 64, 864e9, 142, 8.9},
        {"a40", 48, 149.7e12, 37.4e12, 37.4e12 / 64, 696e9, 84, 8.6},
        {"rtx-a6000", 48, 154.8e12, 38.7e12, 38.7e12 / 64, 768e9, 84, 8.6},
        {"rtx-6000-ada", 48, 364.2e12, 91.1e12, 91.1e12 / 64, 960e9, 142, 8.9},
        {"rtx-pro-6000", 96, 503.8e12, 126e12, 126e12 / 64, 1792e9, 188, 12.0},
        {"a100-40g", 40, 312e12, 19.5e12, 9.7e12, 1555e9, 108, 8.0},
        {"h100-nvl", 93.6, 835.5e12, 60e12, 30e12, 3900e9, 132, 9.0},
        {"h20", 95.6, 148e12, 44e12, 1e12, 4000e9, 78, 9.0},
        {"gh200-96g", 95.6, 989e12, 67e12, 34e12, 4000e9, 132, 9.0},
        {"b200", 179.1, 2250e12, 75e12, 37e12, 8000e9, 148, 10.0},
        {"b300", 268.6, 2250e12, 75e12, 1.25e12, 8000e9, 148, 10.3},
    };
    for (size_t i = 0; i < COUNT(cards); i++) {
        struct profile profile;
        struct status status = {0};
        if (!profile_load(&profile, cards[i].name, &status))
            fail_msg("%s", status.message);
        assert_string_equal(profile.name, cards[i].name);
        assert_true(profile.memory_bytes.value / 0x1p30 > cards[i].gib - 0.1);
        assert_true(profile.memory_bytes.value / 0x1p30 < cards[i].gib + 0.1);
        double kept = profile.memory_bytes.value - (double)profile_limit_bytes(&profile);
        assert_true(kept > 0.8 * 0x1p30 && kept < 4.5 * 0x1p30); // ECC takes up to 3.6 GiB of GDDR6
        assert_true(profile.power_limit_w.value >= 70 && profile.power_limit_w.source[0]);
        assert_true(profile.host_link_bytes_per_s.value >= 15e9);
        assert_true(profile.reserve_bytes.value == floor(0.8 * 0x1p30) && profile.reserve_bytes.source[0]);
        assert_int_equal(profile_limit_bytes(&profile), profile.usable_bytes.value - profile.reserve_bytes.value);
        assert_true(profile.flops_per_s[DTYPE_BF16].value == cards[i].bf16);
        assert_true(profile.flops_per_s[DTYPE_F32].value == cards[i].f32);
        assert_true(fabs(profile.flops_per_s[DTYPE_F64].value / cards[i].f64 - 1) < 1e-5);
        assert_true(profile.bandwidth_bytes_per_s.value == cards[i].bandwidth);
        assert_true(profile.multiprocessors.value == cards[i].multiprocessors);
        assert_true(profile.compute_capability.value == cards[i].capability);
        assert_true(profile.launch_s.value > 1e-7 && profile.launch_s.value < 1e-4);
        assert_true(profile.usable_bytes.source[0] && profile.launch_s.source[0]);
    }
}

// Numbers after a profile's name replace its own; unknown keys, other types and values out of bounds are refused.
static void numbers_of_another_card(void **state)
{
    (void)state;
    static const struct {
        const char *name, *message;
    } bad[] = {
        {"rtx-3090,memory=12GiB", "no number 'memory'; did you mean 'memory_bytes'?"},
        {"rtx-3090,memory_bytes=12", "memory_bytes is '12'; expected a size with its unit"},
        {"rtx-3090,bf16_flops_per_s=fast", "bf16_flops_per_s is 'fast'; expected a number, such as 71e12"},
        {"rtx-3090,bf16_flops_per_s=-1", "bf16_flops_per_s is -1; expected 1e+06 to 1e+30"},
        {"rtx-3090,bf16_flops_per_s=71", "bf16_flops_per_s is 71; expected 1e+06 to 1e+30"}, // TFLOP/s
        {"rtx-3090,launch_s=", "launch_s is ''; expected a number"},
        {"rtx-3090,launch_s=nan", "launch_s is nan; expected"},
        {"rtx-3090,launch_s=1e-6,twelve", "'twelve'; expected KEY=VALUE"},
        {"rtx-3090,usable_bytes=30GiB", "give both"},
        {"rtx-3090,memory_bytes=100MiB", "give both"},
        {"rtx-3090,memory_bytes=1GiB", "reserve_bytes is 858993459 of usable_bytes 740294656; give both"},
        {"rtx-3090,reserve_bytes=-1", "reserve_bytes is '-1'; expected a size with its unit"},
        {"rtx-3090,launch_s=0", "launch_s is 0; expected"},
        {"rtz-3090,memory_bytes=12GiB", "no profile 'rtz-3090' in experiments/devices; did you mean 'rtx-3090'?"},
    };
    struct profile base, given;
    struct status status = {0};
    assert_true(profile_load(&base, "rtx-3090", &status));
    assert_true(profile_load(&given, "rtx-3090,memory_bytes=12GiB,bandwidth_bytes_per_s=360e9", &status));
    assert_string_equal(given.name, "rtx-3090,memory_bytes=12GiB,bandwidth_bytes_per_s=360e9");
    assert_true(given.memory_bytes.value == 12 * 0x1p30 && given.bandwidth_bytes_per_s.value == 360e9);
    assert_true(given.memory_bytes.value - given.usable_bytes.value ==
                base.memory_bytes.value - base.usable_bytes.value);
    assert_true(given.flops_per_s[DTYPE_BF16].value == base.flops_per_s[DTYPE_BF16].value);
    assert_true(profile_load(&given, "rtx-3090,memory_bytes=12GiB,usable_bytes=11GiB", &status));
    assert_true(given.usable_bytes.value == 11 * 0x1p30);
    assert_true(profile_load(&given, "rtx-3090,reserve_bytes=0", &status));
    assert_true(profile_limit_bytes(&given) == (size_t)base.usable_bytes.value);
    assert_true(profile_load(&given, "rtx-3090,reserve_bytes=2GiB", &status));
    assert_true(profile_limit_bytes(&given) == (size_t)base.usable_bytes.value - ((size_t)2 << 30));
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *message = quoted(bad[i].message);
        status = (struct status){0};
        assert_false(profile_load(&given, bad[i].name, &status));
        if (!strstr(status.message, message))
            fail_msg("%s: %s", bad[i].name, status.message);
        free(message);
    }
}

#define MEMORY    "'memory_bytes': {'value': 1000, 'source': 'a'}"
#define USABLE    "'usable_bytes': {'value': 900, 'source': 'b'}"
#define BANDWIDTH "'bandwidth_bytes_per_s': {'value': 2e9, 'source': 'c'}"
#define LAUNCH    "'launch_s': {'value': 1e-6, 'source': 'd'}"
#define START     "{'name': 'p',\n" MEMORY ",\n" USABLE ",\n" BANDWIDTH ",\n" LAUNCH
#define GOOD      START ",\n'f32_flops_per_s': {'value': 3e9, 'source': 'e'}}"

static bool load(const struct scratch *scratch, const char *json, struct profile *profile, struct status *status)
{
    char *text = quoted(json);
    struct scratch_path path = scratch_file(scratch, "p.json", text, strlen(text));
    bool ok = profile_load(profile, path.text, status);
    free(text);
    return ok;
}

static void bad_files_are_refused_with_the_place(void **state)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"", "p.json:1:1: "},
        {"[]", "p.json:1:1: expected an object with the keys: name, memory_bytes"},
        {"{}", "p.json:1:1: key 'name': missing; expected a name for the profile"},
        {"{'name': 3}", "p.json:1:10: key 'name': expected a name for the profile, found 3"},
        {"{'name': ''}", "p.json:1:10: key 'name'"},
        {"{'name': 'p', 'memory': 1}", "p.json:1:15: key 'memory': unknown key; did you mean 'memory_bytes'?"},
        {"{'name': 'p'}", "key 'memory_bytes': missing"},
        {"{'name': 'p', " MEMORY ", " MEMORY "}", "the key is given twice"},
        {"{'name': 'p',\n'memory_bytes': 1000}",
         "p.json:2:17: key 'memory_bytes': expected an object with the keys: value, source, found 1000"},
        {"{'name': 'p',\n'memory_bytes': {'value': -1, 'source': 'a'}}",
         "p.json:2:27: key 'value': expected a number from 1 to 9.0"},
        {"{'name': 'p', 'memory_bytes': {'value': 0, 'source': 'a'}}", "found 0"},
        {"{'name': 'p', 'memory_bytes': {'value': NaN, 'source': 'a'}}", "p.json:1:41: not a number of JSON"},
        {"{'name': 'p', 'memory_bytes': {'value': Infinity, 'source': 'a'}}", "p.json:1:41: not a number of JSON"},
        {"{'name': 'p', 'memory_bytes': {'value': 1e999, 'source': 'a'}}", "p.json:1:41: the number is too large"},
        {"{'name': 'p', 'memory_bytes': {'value': '1000', 'source': 'a'}}", "found '1000'"},
        {"{'name': 'p', 'memory_bytes': {'value': null, 'source': 'a'}}", "found null"},
        {"{'name': 'p', 'memory_bytes': {'value': 1000}}",
         "key 'source': missing; expected where the number comes from"},
        {"{'name': 'p', 'memory_bytes': {'source': 'a'}}", "key 'value': missing; expected a number"},
        {"{'name': 'p', 'memory_bytes': {'value': 1, 'source': ''}}", "key 'source'"},
        {"{'name': 'p', 'memory_bytes': {'value': 1, 'source': 'a', 'unit': 'B'}}",
         "key 'unit': unknown key of 'memory_bytes'"},
        {"{'name': 'p',\n" MEMORY ",\n'usable_bytes': {'value': 1001, 'source': 'a'},\n" BANDWIDTH "," LAUNCH "}",
         "p.json:3:17: key 'usable_bytes': more than memory_bytes"},
        {"{'name': 'p',\n" MEMORY "," USABLE ",\n'reserve_bytes': {'value': 900, 'source': 'a'},\n" BANDWIDTH
         "," LAUNCH "}",
         "p.json:3:18: key 'reserve_bytes': not less than usable_bytes"},
        {START ",\n'bf16_flops_per_s': {'value': 3e9, 'source': 'e'}}",
         "bf16_flops_per_s without f32_flops_per_s, the rate of f32 operations; add it from the card"},
        {START ",\n'bf16_flops_per_s': {'value': -3e9, 'source': 'e'}}", "p.json:6:31: key 'value': expected"},
        {"{'name': 'p'," MEMORY "," USABLE "," BANDWIDTH "}", "key 'launch_s': missing"},
        {"{'name': 'p'," MEMORY "," USABLE "," LAUNCH "}", "key 'bandwidth_bytes_per_s': missing"},
        {"{'name': 'p'," MEMORY "," USABLE "," BANDWIDTH ", 'launch_s': {'value': 2, 'source': 'a'}}",
         "expected a number from 1e-12 to 1, found 2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct profile profile;
        struct status status = {0};
        char *expected = quoted(cases[i].message);
        assert_false(load(*state, cases[i].json, &profile, &status));
        assert_int_equal(status.code, STATUS_BAD_INPUT);
        if (!strstr(status.message, expected))
            fail_msg("%s: expected \"%s\" in: %s", cases[i].json, expected, status.message);
        free(expected);
    }
    // A name that just has room is read whole; a byte more is refused, not cut.
    const int max = (int)sizeof((struct profile){0}.name) - 1;
    for (int length = max; length <= max + 1; length++) {
        char json[2048];
        struct profile profile;
        struct status status = {0};
        snprintf(json, sizeof json, "{'name': '%0*d',\n%s", length, 0, &GOOD[strlen("{'name': 'p',\n")]);
        assert_int_equal(load(*state, json, &profile, &status), length == max);
        assert_true(length > max || strlen(profile.name) == (size_t)max);
        assert_true(length == max || strstr(status.message, "expected at most 159 bytes"));
    }
}

#define RATE(name) "'" name "': {'axes': [[1], [1], [1]], 'values': [5]}"
// Rates that were measured are no longer the card's where another number of its is given, but for its memory.
static void measured_rates_go_with_their_numbers(void **state)
{
    static const char *const given[] = {"", ",memory_bytes=2000B,usable_bytes=900B", ",launch_s=2e-6"};
    char *text =
        quoted(START ", 'f32_flops_per_s': {'value': 3e9, 'source': 'e'}, 'rates': {'f32': {'source': 'f', "
                     "'spread': [0.9, 1.1], 'operations': {" RATE("gemm_nt") ", " RATE("gemm_nn") ", " RATE(
                         "gemm_tn") ", " RATE("attention_forward") ", " RATE("attention_backward") "}}}}");
    struct scratch_path path = scratch_file(*state, "p.json", text, strlen(text));
    for (size_t i = 0; i < COUNT(given); i++) {
        char name[sizeof path.text + 80];
        struct profile profile;
        struct roofline roofline;
        struct status status = {0};
        snprintf(name, sizeof name, "%s%s", path.text, given[i]);
        if (!profile_load(&profile, name, &status) || !profile_roofline(&profile, DTYPE_F32, &roofline, &status))
            fail_msg("%s: %s", given[i], status.message);
        assert_true(roofline.rates && roofline.rates->scaled == (i == 2));
        assert_string_equal(profile_estimate_source(&profile, DTYPE_F32),
                            i == 2 ? "scaled rates" : "measured rates");
    }
    free(text);
}

static void unknown_names_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name, *message;
    } cases[] = {
        {"rtx3090", "no profile \"rtx3090\" in experiments/devices; did you mean \"rtx-3090\"? known profiles "
                    "(another card: a similar one's with its own numbers, rtx-3090,memory_bytes=12GiB): a100-40g"},
        {"", "no profile \"\""},
        {"no/such", "no/such: "},
        {"nowhere.json", "nowhere.json: "},
        {"experiments/", "is a folder"},
        {"..", "no profile \"..\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct profile profile;
        struct status status = {0};
        assert_false(profile_load(&profile, cases[i].name, &status));
        if (!strstr(status.message, cases[i].message))
            fail_msg("%s: expected \"%s\" in: %s", cases[i].name, cases[i].message, status.message);
    }
}

static void what_is_written_is_read_again(void **state)
{
    struct profile profile, again;
    struct status status = {0};
    if (!load(*state, GOOD, &profile, &status))
        fail_msg("%s", status.message);
    assert_true(profile.flops_per_s[DTYPE_F32].value == 3e9);
    assert_true(profile.flops_per_s[DTYPE_BF16].value == 0);
    char *text = profile_text(&profile);
    assert_non_null(strstr(text, "\"value\": 1000,")); // not rounded to six digits, as reals are
    struct scratch_path path = scratch_file(*state, "again.json", text, strlen(text));
    assert_true(profile_load(&again, path.text, &status));
    assert_memory_equal(&again, &profile, sizeof profile);
    free(text);
    struct roofline roofline;
    assert_false(profile_roofline(&profile, DTYPE_BF16, &roofline, &status));
    assert_string_equal(status.message, "profile p has no rate for bf16: give bf16_flops_per_s, from the card's "
                                        "datasheet or by longbp calibrate");
    assert_true(profile_roofline(&profile, DTYPE_F32, &roofline, &status));
    assert_true(roofline.link_bytes_per_s == 0); // not given
    profile.host_link_bytes_per_s.value = 7;
    assert_true(profile_roofline(&profile, DTYPE_F32, &roofline, &status));
    assert_true(roofline.link_bytes_per_s == 7);
}

static void an_operation_takes_the_longer_of_flops_and_bytes_and_a_launch(void **state)
{
    struct profile profile;
    struct status status = {0};
    assert_true(load(*state, GOOD, &profile, &status));
    struct device *device = device_open("plan-cpu", DTYPE_F32, 0, &status);
    assert_non_null(device);
    struct tensor a = tensor_new(device, 64, 64, DTYPE_F32, CATEGORY_WORKSPACE);
    op_copy(device, a, a);
    assert_true(device->counters.estimate_s == 0); // no profile, no estimate
    assert_true(profile_roofline(&profile, DTYPE_F32, &device->roofline, &status));
    device->roofline.rates = NULL; // as of an operation that has none
    double bytes = 64 * 64 * 4, flops = 2.0 * 64 * 64 * 64, expected = 2 * bytes / 2e9 + 1e-6;
    op_copy(device, a, a);
    assert_true(device->counters.estimate_s == expected);
    expected += flops / 3e9 + 1e-6; // longer than its 3 * bytes / 2e9
    op_gemm(device, a, a, NO_TRANSPOSE, a, TRANSPOSE, 1, 0);
    assert_true(device->counters.estimate_s == expected);
    tensor_free(device, &a);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cards_are_there),
        cmocka_unit_test(numbers_of_another_card),
        cmocka_unit_test_setup_teardown(bad_files_are_refused_with_the_place, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(measured_rates_go_with_their_numbers, scratch_setup, scratch_teardown),
        cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_again, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_operation_takes_the_longer_of_flops_and_bytes_and_a_launch,
                                        scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
