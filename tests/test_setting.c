// Tests of settings in words: what pictures are called and say of what their records have in common. JSON is
// written with ' for ".
#include "harness/results/setting.h"
#include "tests/trial_of.h"

#define BATCH "'batch': 2, 'objective': "

// The trials differ in their objectives alone: each picture's name says which, and its text.
static void pictures_name_the_objective(void **state)
{
    (void)state;
    static const struct {
        const char *trial, *suffix, *described;
    } cases[] = {
        {WITH(BATCH "'token-mean'"), "-token-mean", "tiny, f32"},
        {WITH(BATCH "'sequence-mean'"), "-sequence-mean", "tiny, sequence-mean, f32"},
        {WITH(BATCH "'dpo'"), "-dpo-random", "tiny, dpo, f32"},
        {WITH(BATCH "{'name': 'dpo', 'beta': 0.2, 'kind': 'hinge'}"), "-dpo-beta-0.2-kind-hinge-random",
         "tiny, dpo beta=0.2 kind=hinge, f32"},
        {WITH(BATCH "'grpo'"), "-grpo", "tiny, grpo, f32"},
        {WITH(BATCH "{'name': 'grpo', 'beta': 0.04}"), "-grpo-beta-0.04-random", "tiny, grpo beta=0.04, f32"},
    };
    json_t *settings[COUNT(cases)];
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial = trial_of(cases[i].trial);
        settings[i] = json_loads(trial.canonical, 0, NULL);
        assert_non_null(settings[i]);
        trial_free(&trial);
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        char suffix[200], text[300];
        setting_suffix(settings[i], settings, COUNT(cases), suffix, sizeof suffix);
        assert_string_equal(suffix, cases[i].suffix);
        setting_describe(settings[i], 0, text, sizeof text);
        if (strncmp(text, cases[i].described, strlen(cases[i].described)) != 0)
            fail_msg("expected \"%s\", got \"%s\"", cases[i].described, text);
    }
    for (size_t i = 0; i < COUNT(cases); i++)
        json_decref(settings[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_name_the_objective)};
    return cmocka_run_group_tests_name("setting", tests, NULL, NULL);
}
