// Tests of the table of a trial's keys: every row is consistent and described, and decodes the values of its
// description. JSON is written with ' for ".
#define _GNU_SOURCE // asprintf
#include "harness/spec/trial_keys.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXT = 64 };

// Calls `visit` for every key, those in objects under "measure.warmup".
static void each_key(const struct trial_key *keys, const char *parent,
                     void (*visit)(const struct trial_key *key, const char *name, void *context), void *context)
{
    for (const struct trial_key *key = keys; key->name; key++) {
        char name[256], inner[64];
        snprintf(name, sizeof name, "%s%s", parent, key->name);
        visit(key, name, context);
        snprintf(inner, sizeof inner, "%.60s.", name);
        if (key->members)
            each_key(key->members, inner, visit, context);
    }
}

static void expect_sound(const struct trial_key *key, const char *name, void *context)
{
    (void)context;
    bool own = key->type == KEY_OWN, object = key->type == KEY_OBJECT;
    if (!key->meaning || own != (key->decode != NULL) || object != (key->members != NULL) ||
        (key->type == KEY_CHOICE) != (key->choices && key->kind) ||
        ((own || key->type == KEY_TEXT || key->type == KEY_SIZE || key->type == KEY_METHOD) && !key->values) ||
        (own && !key->required && !key->standard && !key->null) || (key->required && (key->null || key->standard)))
        fail_msg("%s: the row is not whole", name);
}

static void rows_are_sound(void **state)
{
    (void)state;
    assert_true(trial_key_count() < TRIAL_KEYS_MAX);
    assert_int_equal(trial_key_find("colour"), trial_key_count());
    assert_ptr_equal(trial_key_named("seed"), &trial_keys[trial_key_find("seed")]);
    assert_null(trial_key_named("warmup"));
    for (size_t i = 0; i < trial_key_count(); i++)
        assert_int_equal(trial_key_find(trial_keys[i].name), i);
    each_key(trial_keys, "", expect_sound, NULL);
}

// Whether the keys of an object are of a trial that trains.
static bool trains(const char *parent)
{
    return parent && strcmp(parent, "train") == 0;
}

// Keys that a trial must have with this key.
static const char *beside(const char *parent, const char *key)
{
    return trains(parent)                           ? "'data': {'text': 'a'}, 'optimizer': {'name': 'adamw'}, "
           : strcmp(key, "group") == 0              ? "'batch': 2, 'prompt': 2, "
           : strcmp(key, "gemm_algorithms") == 0    ? "'device': 'cuda', "
           : strcmp(key, "router_aux_form") == 0    ? "'router_aux_loss': 1, "
           : strcmp(key, "router_aux_counts") == 0  ? "'router_aux_loss': 1, 'router_aux_form': 'layer', "
           : strcmp(key, "router_bias_update") == 0 ? "'optimizer': 'sgd', "
                                                    : "";
}

// Schedule wsd's, but for decay_steps, which it needs.
static bool is_of_wsd(const char *key)
{
    return strcmp(key, "stable_steps") == 0 || strcmp(key, "cycles") == 0 || strstr(key, "_type");
}

// And within the key's object.
static const char *within(const char *parent, const char *key, const char *value)
{
    bool parallel = parent && strcmp(parent, "parallel") == 0;
    bool train = parent && strcmp(parent, "train") == 0;
    return train && strncmp(key, "evaluate_", 9) == 0 ? "'held_out': 0.5, "
           : train && strcmp(value, "'wsd'") == 0     ? "'decay_steps': 9, "
           : train && is_of_wsd(key)                  ? "'schedule': 'wsd', 'warmup': 2, 'decay_steps': 9, "
           : train && strcmp(key, "decay_steps") == 0 && strcmp(value, "0") != 0 ? "'schedule': 'wsd', "
           : train && strcmp(key, "min_lr_ratio") == 0                           ? "'schedule': 'cosine', "
           : parallel && strcmp(key, "zero") == 0                                ? "'data': 2, "
           : parallel && strcmp(key, "sum") == 0                                 ? "'data': 2, "
           : parallel && strcmp(key, "overlap") == 0                             ? "'data': 2, "
           : parallel && strcmp(key, "node") == 0                                ? "'data': 4, "
           : parallel && strcmp(key, "experts") == 0                             ? "'data': 2, "
           : parallel && strcmp(key, "exchange") == 0                            ? "'sequence': 2, "
                                                                                 : "";
}

// A trial with one more thing said; NULL and a reason if it is refused. To be released with trial_free and free.
static struct trial *trial_with(const char *parent, const char *key, const char *value, struct status *status)
{
    char *text;
    struct trial *trial = calloc(1, sizeof *trial);
    assert_non_null(trial);
    assert_true(asprintf(&text, "{'model': %s, 'context': %d, 'method': 'full', %s'%s%s%s%s%s': %s%s}",
                         strcmp(key, "latent_block") == 0 ? "{'preset': 'tiny', 'kv_heads': 4, 'rotary': 16, "
                                                            "'value_dim': 32, 'kv_rank': 32}"
                         : strncmp(key, "rout", 4) == 0 || strcmp(key, "experts") == 0
                             ? "{'preset': 'tiny', 'experts': 4, 'experts_per_token': 2, "
                               "'expert_width': 16, 'correction_bias': true}"
                             : "'tiny'",
                         CONTEXT, beside(parent, key), parent ? parent : key, parent ? "': {" : "",
                         within(parent, key, value), parent ? "'" : "", parent ? key : "", value,
                         parent ? "}" : "") > 0);
    char *json = quoted(text);
    bool decoded = trial_decode(trial, json, "c", status);
    free(json);
    free(text);
    if (!decoded) {
        trial_free(trial);
        free(trial);
        return NULL;
    }
    return trial;
}

// A simple key's written value can be read, is the given one, and changes the id unless it is the default.
static void expect_taken(const char *parent, const char *key, const char *value, bool is_default)
{
    struct status status = {0};
    bool train = trains(parent) && strcmp(parent, "train") == 0;
    const char *initial = strcmp(key, "exchange") == 0      ? "'gather'"
                          : strcmp(key, "sum") == 0         ? "'ordered'"
                          : strcmp(key, "overlap") == 0     ? "false"
                          : strcmp(key, "node") == 0        ? "1"
                          : strcmp(key, "experts") == 0     ? "1"
                          : strcmp(key, "cycles") == 0      ? "0.5"
                          : strcmp(key, "warmup_type") == 0 ? "'linear'"
                          : strcmp(key, "decay_type") == 0  ? "'cosine'"
                                                            : "0";
    struct trial *plain = *within(parent, key, initial)         ? trial_with(parent, key, initial, &status)
                          : train                               ? trial_with(parent, "steps", "100", &status)
                          : trains(parent)                      ? trial_with(parent, "weights", "'device'", &status)
                          : strcmp(key, "gemm_algorithms") == 0 ? trial_with(parent, key, "null", &status)
                          : strcmp(key, "latent_block") == 0    ? trial_with(parent, key, "4096", &status)
                          : strcmp(key, "router_aux_form") == 0 ? trial_with(parent, key, "'global'", &status)
                          : strcmp(key, "router_aux_counts") == 0 ? trial_with(parent, key, "'step'", &status)
                          : strcmp(key, "routing") == 0           ? trial_with(parent, key, "'none'", &status)
                          : strncmp(key, "router_", 7) == 0       ? trial_with(parent, key, "0", &status)
                          : *beside(parent, key)                  ? trial_with(parent, key, "1", &status)
                                                                  : trial_with(NULL, "seed", "1", &status);
    struct trial *trial = trial_with(parent, key, value, &status);
    if (!trial)
        fail_msg("%s: %s: %s", key, value, status.message);
    CHECK(plain && trial);
    char *member, *quoted_member;
    assert_true(asprintf(&member, "'%s':%s", key, value) > 0);
    quoted_member = quoted(member);
    if (!strstr(trial->canonical, quoted_member))
        fail_msg("%s is not in %s", quoted_member, trial->canonical);
    if ((strcmp(trial->id, plain->id) == 0) != is_default)
        fail_msg("%s: the id is %s", quoted_member, is_default ? "another" : "the same");
    free(quoted_member);
    free(member);
    trial_free(plain);
    trial_free(trial);
    free(plain);
    free(trial);
}

static void expect_refused(const char *parent, const char *key, const char *value)
{
    struct status status = {0};
    if (trial_with(parent, key, value, &status))
        fail_msg("%s: %s was taken", key, value);
    assert_int_equal(status.code, STATUS_BAD_INPUT);
}

// Whether full, token mean, or what does not train, has none of it, and says so.
static bool is_of_others(const char *key)
{
    return strcmp(key, "bias") == 0 || strcmp(key, "pair_sums") == 0 || strcmp(key, "lost_updates") == 0;
}

static void try_key(const char *parent, const struct trial_key *key)
{
    char text[64];
    switch (key->type) {
    case KEY_BOOL:
        expect_taken(parent, key->name, "false", true);
        if (!is_of_others(key->name))
            expect_taken(parent, key->name, "true", false);
        expect_refused(parent, key->name, "1");
        break;
    case KEY_COUNT:
        snprintf(text, sizeof text, "%.0f", key->initial);
        if (!key->required) {
            expect_taken(parent, key->name, text, true);
            // A window holds the context.
            snprintf(text, sizeof text, "%.0f", key->initial + (strcmp(key->name, "window") == 0 ? CONTEXT : 1));
            expect_taken(parent, key->name, text, false);
        }
        snprintf(text, sizeof text, "%.0f", key->minimum - 1);
        expect_refused(parent, key->name, text);
        snprintf(text, sizeof text, "%.0f", key->maximum + 2);
        expect_refused(parent, key->name, text);
        break;
    case KEY_NUMBER:
        expect_taken(parent, key->name, key->initial > 0 ? "0.25" : "0.5", false);
        expect_refused(parent, key->name, "'a'");
        break;
    case KEY_CHOICE:
        for (size_t i = 0; key->choices[i]; i++) {
            snprintf(text, sizeof text, "'%s'", key->choices[i]);
            expect_taken(parent, key->name, text, i == (size_t)key->initial);
        }
        expect_refused(parent, key->name, "'colour'");
        break;
    case KEY_TEXT:
        expect_taken(parent, key->name, "'a'", false);
        expect_taken(parent, key->name, "null", true);
        expect_refused(parent, key->name, "''");
        break;
    case KEY_SIZE:
        expect_taken(parent, key->name, "4096", false);
        expect_taken(parent, key->name, "null", true);
        expect_refused(parent, key->name, "'a'");
        break;
    default:
        break;
    }
}

static void simple_keys_take_what_they_say(void **state)
{
    (void)state;
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        if (strcmp(key->name, "context") != 0) // given already
            try_key(NULL, key);
        for (const struct trial_key *member = key->members; member && member->name; member++)
            try_key(key->name, member);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(simple_keys_take_what_they_say),
    };
    return cmocka_run_group_tests_name("trial keys", tests, NULL, NULL);
}
