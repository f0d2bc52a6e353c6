// Tests of harness/spec/override: changes of a spec by --axis and --device, and messages about bad ones. JSON and
// messages are written with ' for ".
#include "harness/spec/expansion.h"
#include "tests/spec_of.h"

static void the_command_line_changes_axes(void **state)
{
    (void)state;
    static const struct {
        const char *axes[4], *device, *trials;
    } cases[] = {
        {{"context=128", "method=seco"}, NULL, "seco/64 128, seco/128 128"},
        {{"method=full,seco", "context=1,2"}, NULL, "full 1, seco/64 1, seco/128 1, full 2, seco/64 2, seco/128 2"},
        {{"method=seco", "chunk=7"}, NULL, "seco/7 512, seco/7 256"},
        {{"chunk=16,8", "method=full,seco", "context=9"}, NULL, "full 9, seco/16 9, seco/8 9"},
        {{"method=full", "dtype=f64,f32"}, NULL, "full 512, full 512, full 256, full 256"},
        {{"method=full", "lora=null,{'rank': 2, 'targets': ['q', 'k']}", "context=8"}, NULL, "full 8, full 8"},
        {{"method=full"}, "plan-cuda", "full 512, full 256"},
        {{"method=spaco", "sampler=fixed", "drawn_chunks=[0],[1, 2]", "context=256"},
         NULL,
         "spaco/64 256, spaco/64 256, spaco/64 256, spaco/64 256"},
        {{"method=full", "model={'preset': 'tiny', 'layers': 1}", "measure={'samples': 1}"},
         NULL,
         "full 512, full 256"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct spec spec = spec_of(SWEEP, cases[i].axes, cases[i].device);
        expect_trials(&spec, cases[i].trials);
        for (size_t j = 0; cases[i].device && j < spec.trial_count; j++) {
            struct trial trial = trial_of(&spec, j);
            assert_string_equal(trial.device, cases[i].device);
            trial_free(&trial);
        }
        spec_free(&spec);
    }
    struct spec spec = spec_of(SWEEP, (const char *const[]){"method=full", "dtype=f64", NULL}, NULL);
    struct trial trial = trial_of(&spec, 0);
    assert_int_equal(trial.dtype, DTYPE_F64);
    assert_int_equal(trial.gradient_dtype, DTYPE_F64);
    trial_free(&trial);
    spec_free(&spec);
    // A key that the file lacks may come from the command line.
    spec = spec_of("{'experiment': 'e', 'axes': {'method': ['full']}}",
                   (const char *const[]){"model=tiny", "context=5", NULL}, NULL);
    expect_trials(&spec, "full 5");
    spec_free(&spec);
}

// Entries of another framework's step are planned with their own device; another that is asked for leaves them out.
static void a_device_leaves_out_what_is_elsewhere(void **state)
{
    (void)state;
    static const char mixed[] =
        "{'experiment': 'e', 'model': 'tiny', 'dtype': 'bf16', 'device': 'plan-cuda', 'axes': {'context': [64], "
        "'method': ['seco', {'name': 'full', 'device': 'plan-transformers', 'framework': {'loss': 'chunked'}}]}}";
    static const struct {
        const char *device, *trials;
        size_t left_out;
    } cases[] = {{NULL, "seco/512 64, full 64", 0}, {"plan-cpu", "seco/512 64", 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct spec spec = spec_of(mixed, NULL, cases[i].device);
        expect_trials(&spec, cases[i].trials);
        assert_int_equal(spec.left_out, cases[i].left_out);
        spec_free(&spec);
    }
    expect_bad(
        "{'experiment': 'e', 'model': 'tiny', 'dtype': 'bf16', 'axes': {'context': [64], 'method': [{'name': "
        "'full', 'device': 'plan-transformers', 'framework': {'loss': 'chunked'}}]}}",
        NULL, "plan-cpu", "every entry is of another framework");
}

// Others are in the golden text of specs.
static void bad_changes_are_refused(void **state)
{
    (void)state;
    expect_bad(SWEEP, (const char *const[]){"model=\xff", NULL}, NULL, "not valid JSON");
    expect_bad(SWEEP, NULL, "gpu", "--device gpu: unknown device 'gpu'; did you mean 'cuda'?");
    expect_bad(SWEEP, NULL, "", "--device : a value is empty");
    expect_bad(SWEEP, (const char *const[]){"device=cpu", NULL}, "cpu",
               "--device cpu: axis 'device' is given twice");
}

// A comma ends a value but within quotes, which a backslash may come before, and within brackets.
static void commas_end_values(void **state)
{
    (void)state;
    struct override override;
    struct status status = {0};
    assert_true(override_parse(&override, "--axis", "data=\"a\\\",b\",[1,{\"c\": 2,\"d\": 3}],e", &status));
    char *values = json_dumps(override.values.root, JSON_COMPACT);
    assert_string_equal(values, "[\"a\\\",b\",[1,{\"c\":2,\"d\":3}],\"e\"]");
    free(values);
    override_close(&override);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_line_changes_axes),
        cmocka_unit_test(a_device_leaves_out_what_is_elsewhere),
        cmocka_unit_test(bad_changes_are_refused),
        cmocka_unit_test(commas_end_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
