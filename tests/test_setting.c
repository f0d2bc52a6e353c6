// Tests of settings in words: names of pictures, and captions about values that their records share. JSON is
// written with ' for ".
#include "harness/spec/trial_keys.h"
#include "harness/table/setting.h"
#include "harness/table/trial_rest.h"
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
        {WITH(BATCH "{'name': 'token-mean', 'smoothing': 0.1}"), "-token-mean-smoothing-0.1",
         "tiny, token-mean smoothing=0.1, f32"},
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

// Descriptions name keys that change a plan or a run and are not the default; pictures that differ in them have
// the same words in their names.
static void descriptions_name_what_is_not_the_default(void **state)
{
    (void)state;
    static const struct {
        const char *trial, *described, *suffix;
    } cases[] = {
        {WITH("'batch': 4"), "tiny, f32, cpu, batch 4",
         "-no-documents-f32-no-host-no-lora-no-optimizer-seed-1-tf32-false-no-train-"},
        {WITH("'batch': 4, 'documents': 512"), "tiny, f32, documents 512, cpu, batch 4", "documents-512"},
        {WITH("'batch': 4, 'documents': {'mean': 16}"), "tiny, f32, documents mean=16, cpu, batch 4",
         "documents-mean-16"},
        {WITH("'batch': 4, 'lora': {'rank': 4, 'alpha': 32, 'targets': ['q']}, 'weights': 'nf4'"),
         "tiny, LoRA rank 4 alpha=32 targets=q, weights in nf4, f32, cpu, batch 4", "weights-in-nf4"},
        {WITH("'batch': 4, 'lora': {}"), "tiny, LoRA rank 8, f32, cpu, batch 4", "lora-rank-8"},
        {WITH("'batch': 4, 'dtype': 'bf16', 'kv_gradient_dtype': 'bf16', 'gradient_dtype': 'bf16'"),
         "tiny, bf16, dKV bf16, gradients bf16, cpu, batch 4", "bf16"},
        {WITH("'batch': 4, 'dtype': 'f64'"), "tiny, f64, cpu, batch 4", "-f64"},
        {WITH("'batch': 4, 'seed': 2, 'deterministic': true, 'tf32': true, 'whole_attention': true"),
         "tiny, f32, seed 2, deterministic, TF32, whole attention, cpu, batch 4", "seed-2"},
        {WITH("'batch': 4, 'parallel': {'data': 2, 'zero': 2}"), "tiny, f32, 2 data ranks, zero 2, cpu, batch 4",
         "2-data-ranks-zero-2"},
        {WITH("'batch': 4, 'parallel': {'sequence': 2, 'exchange': 'ring'}"),
         "tiny, f32, 2 sequence ranks (ring), cpu, batch 4", "2-sequence-ranks-ring"},
        {WITH("'batch': 4, 'host': {'folder': '/tmp'}"), "tiny, f32, host /tmp, cpu, batch 4", "host-tmp"},
        {WITH("'batch': 4, 'optimizer': 'sgd', 'train': {'steps': 100}"), "tiny, sgd, f32, 100 steps, cpu, batch 4",
         "sgd"},
        {WITH("'batch': 4, 'optimizer': 'sgd', 'train': {'steps': 20, 'schedule': 'cosine'}"),
         "tiny, sgd, f32, 20 steps schedule=cosine, cpu, batch 4", "20-steps-schedule-cosine"},
    };
    json_t *settings[COUNT(cases)];
    static const char *const nothing[] = {NULL};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial = trial_of(cases[i].trial);
        json_t *canonical = json_loads(trial.canonical, 0, NULL);
        settings[i] = setting_of(canonical, nothing);
        json_decref(canonical);
        trial_free(&trial);
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        char suffix[400], text[300];
        setting_describe(settings[i], 0, text, sizeof text);
        assert_string_equal(text, cases[i].described);
        setting_suffix(settings[i], settings, COUNT(cases), suffix, sizeof suffix);
        if (!strstr(suffix, cases[i].suffix))
            fail_msg("\"%s\": expected \"%s\" in it", suffix, cases[i].suffix);
    }
    for (size_t i = 0; i < COUNT(cases); i++)
        json_decref(settings[i]);
}

// Names leave out the values that all runs share, and the default of a key in which they differ.
static void names_have_what_differs_alone(void **state)
{
    (void)state;
    static const char *const trials[] = {
        WITH("'optimizer': 'sgd', 'train': {'steps': 20, 'clip': 1, 'warmup': 2}"),
        WITH("'optimizer': 'sgd', 'train': {'steps': 20, 'clip': 1, 'warmup': 2, 'schedule': 'cosine'}"),
        WITH("'optimizer': 'sgd', 'train': {'steps': 20, 'clip': 1, 'warmup': 2, 'schedule': 'linear', "
             "'min_lr_ratio': "
             "0.1}")};
    static const char *const suffixes[] = {"", "-schedule-cosine", "-min-lr-ratio-0.1-schedule-linear"};
    json_t *settings[3];
    for (size_t i = 0; i < 3; i++) {
        struct trial trial = trial_of(trials[i]);
        settings[i] = json_loads(trial.canonical, 0, NULL);
        trial_free(&trial);
    }
    for (size_t i = 0; i < 3; i++) {
        char suffix[200];
        setting_suffix(settings[i], settings, 3, suffix, sizeof suffix);
        assert_string_equal(suffix, suffixes[i]);
    }
    for (size_t i = 0; i < 3; i++)
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_name_the_objective), cmocka_unit_test(descriptions_name_what_is_not_the_default),
        cmocka_unit_test(names_have_what_differs_alone), cmocka_unit_test(models_without_a_name_say_their_shape),
        cmocka_unit_test(records_of_earlier_versions_have_the_defaults)};
    return cmocka_run_group_tests_name("setting", tests, NULL, NULL);
}
