// Tests of harness/spec: good specs give the trials they say, in their order; bad ones are refused at their place.
// JSON and messages are written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "methods/spaco_options.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/spec_of.h"

#define START            "{'experiment': 'e', 'model': 'tiny',\n"
#define AXES             "'axes': {'context': [8], 'method': ['full']}}"
#define METHODS(entries) START "'axes': {'context': [512, 128], 'method': [" entries "]}}"

static void expect_unsupported(const struct spec *spec, size_t index, const char *expected)
{
    struct trial trial = trial_of(spec, index);
    if (!expected && trial.unsupported)
        fail_msg("trial %zu: %s", index, trial.unsupported);
    if (expected && (!trial.unsupported || !strstr(trial.unsupported, expected)))
        fail_msg("trial %zu: expected \"%s\", found \"%s\"", index, expected,
                 trial.unsupported ? trial.unsupported : "");
    trial_free(&trial);
}

// A trial that its model or context excludes does not stop the others.
static void a_trial_that_cannot_be_says_so(void **state)
{
    (void)state;
    struct spec spec = spec_of(METHODS("'full', {'name': 'spaco', 'chunk': 64, 'budget': 4},"
                                       "{'name': 'seco', 'segments': [1, 99]}"),
                               NULL, NULL);
    static const char *const expected[] = {
        NULL, NULL,
        NULL, "method \"seco\" at context 512: 99 segments are more than the model's",
        NULL, "method \"spaco\" at context 128: budget 4 is larger than the number of chunks",
        NULL, "method \"seco\" at context 128: 99 segments are more than the model's"};
    assert_int_equal(spec.trial_count, COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++)
        expect_unsupported(&spec, i, expected[i]);
    spec_free(&spec);
}

// A share of the chunks of a trial's own context is rounded, and at least one; the trial equals that of the
// number.
static struct spec spec_with_budget(const char *budget)
{
    char *text;
    assert_true(asprintf(&text,
                         START "'axes': {'context': [512, 96], 'method': [{'name': 'spaco', 'chunk': 32, 'budget': "
                               "%s}]}}",
                         budget) > 0);
    struct spec spec = spec_of(text, NULL, NULL);
    free(text);
    return spec;
}

static void budgets_may_be_shares(void **state)
{
    (void)state;
    static const struct {
        const char *share, *number;
        size_t budgets[2]; // of 16 chunks, and of 3
    } cases[] = {{"'25%'", "4", {4, 1}},
                 {"'50%'", "8", {8, 2}},
                 {"'100%'", "16", {16, 3}},
                 {"'1%'", "1", {1, 1}},
                 {"'12.5%'", "2", {2, 1}}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct spec spec = spec_with_budget(cases[i].share), counted = spec_with_budget(cases[i].number);
        for (size_t t = 0; t < 2; t++) {
            struct trial trial = trial_of(&spec, t);
            assert_int_equal(((const struct spaco_options *)trial.options)->budget, cases[i].budgets[t]);
            trial_free(&trial);
        }
        assert_string_equal(spec.trials[0].id, counted.trials[0].id);
        spec_free(&spec);
        spec_free(&counted);
    }
}

// The trial of a sweep's record decodes to the same trial.
static void expect_same_trials(const struct spec *spec)
{
    for (size_t i = 0; i < spec->trial_count; i++) {
        struct trial trial = trial_of(spec, i), again;
        struct status status = {0};
        assert_true(trial_decode(&again, trial.canonical, "record", &status));
        assert_string_equal(again.id, trial.id);
        assert_string_equal(spec->trials[i].id, trial.id);
        trial_free(&again);
        trial_free(&trial);
    }
}

// Defaults are kept from one trial to the next: what they depend on differs here in every way.
static void a_trial_does_not_depend_on_the_one_before(void **state)
{
    (void)state;
    struct spec spec = spec_of(
        "{'experiment': 'sweep', 'axes': {'dtype': ['f32', 'bf16'], 'optimizer': ['adamw', null, {'name': 'adamw', "
        "'rate': 0.5}], 'objective': ['dpo', 'token-mean', {'name': 'dpo', 'beta': 0.5}], 'context': [64, 128], "
        "'method': ['full', {'name': 'seco', 'chunk': 16}, 'full'], 'batch': [2, 4], 'device': ['plan-cuda', "
        "'cpu', "
        "'plan-cpu'], 'model': ['llama-3-8b', 'tiny', {'preset': 'tiny', 'layers': 3}]}}",
        NULL, NULL);
    assert_int_equal(spec.trial_count, 2 * 3 * 3 * 2 * 2 * 2 * 3 * 3);
    expect_same_trials(&spec);
    spec_free(&spec);
}

static void axes_multiply_in_the_order_written(void **state)
{
    (void)state;
    struct spec spec = spec_of(SWEEP, NULL, NULL);
    assert_string_equal(spec.experiment, "sweep");
    assert_string_equal(spec.question, "?");
    expect_trials(&spec,
                  "full 512, seco/64 512, seco/128 512, spaco/64 512, spaco/64 512, spaco/64 512, spaco/64 512, "
                  "full 256, seco/64 256, seco/128 256, spaco/64 256, spaco/64 256, spaco/64 256, spaco/64 256");
    static const struct spaco_options drawn[] = {{.budget = 1, .sampler = SAMPLER_BERNOULLI},
                                                 {.budget = 2, .sampler = SAMPLER_UNIFORM}};
    for (size_t i = 0; i < COUNT(drawn); i++) {
        struct trial trial = trial_of(&spec, 4 + i);
        const struct spaco_options *options = trial.options;
        assert_int_equal(options->budget, drawn[i].budget);
        assert_int_equal(options->sampler, drawn[i].sampler);
        trial_free(&trial);
    }
    expect_same_trials(&spec);
    spec_free(&spec);

    spec = spec_of("{'experiment': 'e', 'model': 'tiny', 'axes': {'method': ['full', 'checkpoint'],"
                   "'context': [1, 2]}}",
                   NULL, NULL);
    expect_trials(&spec, "full 1, full 2, checkpoint 1, checkpoint 2");
    spec_free(&spec);
    spec = spec_of("{'experiment': 'e', 'model': 'tiny', 'context': 3, 'method': {'name': 'seco',"
                   "'chunk': [1, 2]}, 'axes': {}}",
                   NULL, NULL);
    expect_trials(&spec, "seco/1 3, seco/2 3");
    spec_free(&spec);
}

static void an_entry_may_give_keys_of_its_own(void **state)
{
    (void)state;
    static const char *const axes[] = {"context=4", NULL};
    const char *json = METHODS("'full', {'name': 'seco', 'chunk': [8, 16], 'context': [64, 32]},"
                               "{'name': 'full', 'context': 256, 'dtype': ['f32', 'f64']}");
    struct spec spec = spec_of(json, NULL, NULL);
    expect_trials(&spec, "full 512, seco/8 64, seco/8 32, seco/16 64, seco/16 32, full 256, full 256, full 128");
    for (size_t i = 5; i <= 6; i++) {
        struct trial trial = trial_of(&spec, i);
        assert_int_equal(trial.dtype, i == 5 ? DTYPE_F32 : DTYPE_F64);
        trial_free(&trial);
    }
    expect_same_trials(&spec);
    spec_free(&spec);
    spec = spec_of(json, axes, NULL); // the command line's count for all
    expect_trials(&spec, "full 4, seco/8 4, seco/16 4, full 4");
    spec_free(&spec);
    spec = spec_of("{'experiment': 'e', 'model': 'tiny', 'axes': {'method': [{'name': 'full', 'context': 5}]}}",
                   NULL, NULL);
    expect_trials(&spec, "full 5");
    spec_free(&spec);
}

static void any_key_is_an_axis(void **state)
{
    (void)state;
    static const char *const axes[] = {
        "'model': ['tiny', {'preset': 'tiny', 'layers': 2}]",
        "'model': ['tiny'], 'dtype': ['f32', 'f64']",
        "'model': ['tiny'], 'device': ['cpu', 'plan']",
        "'model': ['tiny'], 'device': ['plan'], 'profile': [null, 'rtx-3090']",
        "'model': ['tiny'], 'batch': [1, 2]",
        "'model': ['tiny'], 'seed': [1, 2]",
        "'model': ['tiny'], 'data': ['random', {'text': 'Makefile'}]",
        "'model': ['tiny'], 'labels': [null, '%s']",
        "'model': ['tiny'], 'lora': [null, {'rank': 2}]",
        "'model': ['tiny'], 'optimizer': [null, {}]",
        "'model': ['tiny'], 'dtype': ['bf16'], 'kv_gradient_dtype': ['bf16', 'f32']",
        "'model': ['tiny'], 'dtype': ['bf16'], 'gradient_dtype': ['bf16', 'f32']",
        "'model': ['tiny'], 'measure': [{'samples': 1}, {'samples': 2}]",
        "'model': ['tiny'], 'limits': [{}, {'memory': '1GiB'}]",
    };
    static const int32_t labels[8] = {1, 2, 3, 4, 5, 6, 7, -100};
    struct scratch scratch = scratch_open();
    struct scratch_path path = scratch_file(&scratch, "labels", labels, sizeof labels);
    for (size_t i = 0; i < COUNT(axes); i++) {
        char axis[400], text[512];
        snprintf(axis, sizeof axis, axes[i], path.text);
        snprintf(text, sizeof text, "{'experiment': 'e', 'axes': {'context': [8], 'method': ['full'], %s}}", axis);
        struct spec spec = spec_of(text, NULL, NULL);
        assert_int_equal(spec.trial_count, 2);
        spec_free(&spec);
    }
    scratch_close(&scratch);
}

static void a_list_option_takes_a_list_of_lists(void **state)
{
    (void)state;
    struct spec spec =
        spec_of("{'experiment': 'e', 'model': 'tiny', 'axes': {'context': [8], 'method': ["
                "{'name': 'spaco', 'chunk': 2, 'sampler': 'fixed', 'drawn_chunks': [0, 2]},"
                "{'name': 'spaco', 'chunk': 2, 'sampler': 'fixed', 'drawn_chunks': [[1], [0, 3]]}]}}",
                NULL, NULL);
    assert_int_equal(spec.trial_count, 3);
    static uint32_t chunks[][2] = {{0, 2}, {1}, {0, 3}};
    for (size_t i = 0; i < COUNT(chunks); i++) {
        struct index_list expected = {i == 1 ? 1 : 2, chunks[i]};
        struct trial trial = trial_of(&spec, i);
        const struct spaco_options *options = trial.options;
        assert_true(index_list_equal(&options->drawn_chunks, &expected));
        trial_free(&trial);
    }
    spec_free(&spec);
}

static void one_trial_is_measured_once(void **state)
{
    (void)state;
    struct spec spec = spec_of("{'experiment': 'e', 'model': 'tiny', 'axes': {'context': [8, 8, 4, 8],"
                               "'method': ['full', {'name': 'full'}, {'name': 'full', 'keep': ['all', 'lean']}]}}",
                               NULL, NULL);
    expect_trials(&spec, "full 8, full 8, full 4, full 4");
    for (size_t i = 0; i < 2; i++) {
        struct trial trial = trial_of(&spec, i);
        assert_non_null(strstr(trial.canonical, i == 0 ? "\"keep\":\"lean\"" : "\"keep\":\"all\""));
        trial_free(&trial);
    }
    spec_free(&spec);
}

static bool begins(const char *input, const char *form, const char **rest)
{
    size_t length = strlen(form);
    *rest = input + length;
    return strncmp(input, form, length) == 0;
}

// Changes of --axis, a line each.
static bool parse_axes(struct spec *spec, const char *lines, struct status *status)
{
    char *text = strdup(lines), *next = text;
    const char *axes[4] = {0};
    for (size_t i = 0; next && i < COUNT(axes) - 1; i++)
        axes[i] = strsep(&next, "\n");
    bool ok = parse(spec, SWEEP, axes, NULL, status);
    free(text);
    return ok;
}

static void answer(FILE *out, const char *input)
{
    struct spec spec;
    struct status status = {0};
    const char *rest;
    char *text = NULL;
    bool accepted;
    if (begins(input, "axis ", &rest)) {
        accepted = parse_axes(&spec, rest, &status);
    } else {
        bool made = (begins(input, "methods ", &rest) && asprintf(&text, METHODS("%s"), rest) > 0) ||
                    (begins(input, "with ", &rest) && asprintf(&text, START "%s", rest) > 0) ||
                    (begins(input, "spec ", &rest) && (text = strdup(rest)));
        if (!made)
            fail_msg("unknown form: %s", input);
        accepted = parse(&spec, text, NULL, NULL, &status);
    }
    if (accepted)
        fail_msg("accepted: %s", input);
    spec_free(&spec);
    free(text);
    // The folder that relative paths start in is the test's.
    char *folder = getcwd(NULL, 0), *at = strstr(status.message, folder);
    if (at)
        fprintf(out, "%.*s$PWD%s", (int)(at - status.message), status.message, at + strlen(folder));
    else
        fputs(status.message, out);
    free(folder);
}

static void bad_specs_are_refused_with_the_place(void **state)
{
    (void)state;
    expect_bad("", NULL, NULL, "s.json:1:1: empty");
    golden_hold(answer);
}

static void a_plan_needs_no_data(void **state)
{
    (void)state;
    struct spec spec = spec_of(START "'data': {'text': 'no/such/file'},\n" AXES, NULL, "plan");
    assert_int_equal(spec.trial_count, 1);
    spec_free(&spec);
}

static void a_sweep_without_end_is_refused(void **state)
{
    (void)state;
    // 4000 contexts, 1000 batches, and entries whose own axes alone overflow a size_t.
    static char text[200000];
    size_t used = (size_t)snprintf(text, sizeof text, START "'axes': {'method': ['full'], 'context': [1");
    for (size_t i = 2; i <= 4000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",%zu", i);
    size_t head = used;
    used += (size_t)snprintf(text + used, sizeof text - used, "], 'batch': [1");
    for (size_t i = 2; i <= 1000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",%zu", i);
    snprintf(text + used, sizeof text - used, "]}}");
    expect_bad(text, NULL, NULL, "s.json: the axes multiply to more than 100000 trials");

    text[head] = '\0';
    static char entry[200000];
    char *list = strrchr(text, '[');
    snprintf(entry, sizeof entry,
             START "'axes': {'context': [1], 'method': [{'name': 'spaco', 'chunk': %s], 'head_chunk': %s],"
                   "'budget': %s], 'cap': %s], 'sampler_seed': %s], 'minimum': %s]}]}}",
             list, list, list, list, list, list);
    expect_bad(entry, NULL, NULL, "more than 100000 trials");

    used = (size_t)snprintf(text, sizeof text, START "'axes': {'context': [1], 'method': ['full'");
    for (size_t i = 0; i < 1000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",'full'");
    snprintf(text + used, sizeof text - used, "]}}");
    expect_bad(text, NULL, NULL, "key 'method': more than 1000 entries");
}

static void a_spec_is_a_file(void **state)
{
    (void)state;
    struct scratch scratch = scratch_open();
    struct spec spec;
    struct status status = {0};
    char *text = quoted(SWEEP);
    struct scratch_path path = scratch_file(&scratch, "sweep.json", text, strlen(text));
    assert_true(spec_load(&spec, path.text, NULL, &status));
    assert_int_equal(spec.trial_count, 14);
    spec_free(&spec);
    assert_false(spec_load(&spec, scratch.folder, NULL, &status));
    assert_non_null(strstr(status.message, "is a folder"));
    spec_free(&spec);
    free(text);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_that_cannot_be_says_so),
        cmocka_unit_test(budgets_may_be_shares),
        cmocka_unit_test(axes_multiply_in_the_order_written),
        cmocka_unit_test(a_trial_does_not_depend_on_the_one_before),
        cmocka_unit_test(any_key_is_an_axis),
        cmocka_unit_test(an_entry_may_give_keys_of_its_own),
        cmocka_unit_test(a_list_option_takes_a_list_of_lists),
        cmocka_unit_test(one_trial_is_measured_once),
        cmocka_unit_test(bad_specs_are_refused_with_the_place),
        cmocka_unit_test(a_plan_needs_no_data),
        cmocka_unit_test(a_sweep_without_end_is_refused),
        cmocka_unit_test(a_spec_is_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
