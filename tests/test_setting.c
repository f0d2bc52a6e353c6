// Tests of settings in words: what pictures are called and say of what their records have in common. JSON is
// written with ' for ".
#include "harness/results/setting.h"
#include "harness/results/trial_rest.h"
#include "harness/spec/trial_keys.h"
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

// A preset has its name, what is changed of it too; a shape of its own has none.
static void models_without_a_name_say_their_shape(void **state)
{
    (void)state;
    static const struct {
        const char *model, *said;
    } cases[] = {{"tiny", "tiny, "}, {"custom", "4 layers of width 128, "}, {"tiny-custom", "tiny-custom, "}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[300];
        json_t *setting = json_pack("{s:{s:s, s:i, s:i}, s:s}", "model", "name", cases[i].model, "layers", 4,
                                    "width", 128, "dtype", "f32");
        setting_describe(setting, 0, text, sizeof text);
        if (strncmp(text, cases[i].said, strlen(cases[i].said)) != 0)
            fail_msg("%s: \"%s\"", cases[i].model, text);
        json_decref(setting);
    }
}

static void expect_same(const json_t *whole, const json_t *part, const char *without)
{
    static const char *const none[] = {NULL};
    char *texts[2] = {trial_rest(whole, none, NULL), trial_rest(part, none, NULL)};
    json_t *settings[2] = {setting_of(whole, none), setting_of(part, none)};
    if (strcmp(texts[0], texts[1]) != 0 || !json_equal(settings[0], settings[1]))
        fail_msg("without %s: %s", without, texts[1]);
    for (size_t i = 0; i < 2; i++) {
        free(texts[i]);
        json_decref(settings[i]);
    }
}

// A record of a version before a key, or before a member, is one of its default.
static void records_of_earlier_versions_have_the_defaults(void **state)
{
    (void)state;
    struct trial trial = trial_of(WITH("'batch': 2"));
    json_t *whole = json_loads(trial.canonical, 0, NULL);
    size_t checked = 0;
    assert_non_null(whole);
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        bool own = key->type == KEY_OWN || key->type == KEY_METHOD;
        json_t *part = json_deep_copy(whole);
        if (!key->required && !key->told && !(own && !key->null)) {
            assert_int_equal(json_object_del(part, key->name), 0);
            expect_same(whole, part, key->name);
            checked++;
        }
        json_decref(part);
        for (const struct trial_key *member = key->members; member && member->name; member++) {
            part = json_deep_copy(whole);
            if (json_object_del(json_object_get(part, key->name), member->name) == 0)
                expect_same(whole, part, member->name);
            json_decref(part);
        }
    }
    assert_true(checked > 10);
    json_decref(whole);
    trial_free(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pictures_name_the_objective),
                                       cmocka_unit_test(models_without_a_name_say_their_shape),
                                       cmocka_unit_test(records_of_earlier_versions_have_the_defaults)};
    return cmocka_run_group_tests_name("setting", tests, NULL, NULL);
}
