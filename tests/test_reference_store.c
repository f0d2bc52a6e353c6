// Tests of reference_store: a stored reference is found by trials of the same setting and by no other; an
// incomplete end is ignored; and a sweep's gradient errors are those of trials that compute their own reference.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/machine/environment.h"
#include "harness/trial/reference_store.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct trial trial_of(const char *method, size_t context)
{
    struct trial trial;
    struct status status = {0};
    char text[300];
    snprintf(text, sizeof text,
             "{'model': {'layers': 1, 'width': 16, 'heads': 2, 'kv_heads': 1, 'ffn': 24, 'vocab': 40},"
             " 'context': %zu, 'method': %s}",
             context, method);
    char *json = quoted(text);
    if (!trial_decode(&trial, json, "t", &status))
        fail_msg("%s", status.message);
    free(json);
    return trial;
}

// A mixture has a reference by the experts that tokens take.
static void experts_are_of_the_setting(void **state)
{
    (void)state;
    struct trial trial;
    struct status status = {0};
    char *json =
        quoted("{'model': {'layers': 2, 'width': 16, 'heads': 2, 'kv_heads': 1, 'vocab': 40, 'experts': 4, "
               "'experts_per_token': 1, 'expert_width': 8}, 'context': 9, 'method': 'full'}");
    assert_true(trial_decode(&trial, json, "t", &status));
    struct reference taken, found;
    struct gradient_set own;
    struct kept_choices choices = {0};
    int store = reference_store_open();
    assert_true(reference_route(&own, &choices, &trial, &status) && choices.whole);
    ((uint8_t *)choices.of[1])[0] = !((uint8_t *)choices.of[1])[0]; // the first token's expert in layer 1
    assert_true(reference_choices(&trial, &choices) == &choices);
    trial.dtype = DTYPE_F64;
    assert_null(reference_choices(&trial, &choices));
    trial.dtype = DTYPE_F32;
    assert_true(reference_take(&taken, &trial, &choices, &status));
    assert_true(gradient_relative_l2(&taken.gradients, &own) > 1e-3);
    reference_store_add(store, &trial, &choices, &taken);
    assert_false(reference_store_find(store, &trial, NULL, &found));
    assert_true(reference_store_find(store, &trial, &choices, &found));
    reference_free(&found);
    ((uint8_t *)choices.of[0])[0] = !((uint8_t *)choices.of[0])[0];
    assert_false(reference_store_find(store, &trial, &choices, &found));
    reference_free(&taken);
    gradient_set_free(&own);
    kept_choices_free(&choices);
    close(store);
    trial_free(&trial);
    free(json);
}

static void a_setting_finds_its_own(void **state)
{
    (void)state;
    struct trial full = trial_of("'full'", 12), seco = trial_of("{'name': 'seco', 'chunk': 5}", 12);
    struct trial longer = trial_of("'full'", 13), elsewhere = trial_of("'full', 'host': {'folder': 'x'}", 12);
    struct trial offloaded = trial_of("{'name': 'full', 'offload': ['weights', 'gradients']}", 12);
    struct trial quantised = trial_of("'full', 'lora': {}, 'weights': 'nf4'", 12);
    struct trial factors = trial_of("'full', 'lora': {}", 12);
    struct reference taken, found;
    struct status status = {0};
    int store = reference_store_open();
    assert_true(store >= 0);
    assert_false(reference_store_find(store, &full, NULL, &found));
    assert_true(reference_take(&taken, &full, NULL, &status));
    reference_store_add(store, &full, NULL, &taken);
    assert_false(reference_store_find(store, &longer, NULL, &found));
    assert_false(reference_store_find(-1, &full, NULL, &found));
    assert_true(reference_store_find(store, &elsewhere, NULL, &found));
    reference_free(&found);
    assert_true(reference_store_find(store, &offloaded, NULL, &found));
    reference_free(&found);
    assert_true(reference_take(&found, &factors, NULL, &status));
    reference_store_add(store, &factors, NULL, &found);
    reference_free(&found);
    assert_false(reference_store_find(store, &quantised, NULL, &found)); // other weights
    assert_true(reference_store_find(store, &seco, NULL, &found));
    assert_true(taken.noise > 0 && found.noise == taken.noise);
    assert_true(found.loss == taken.loss && found.floor.overall.relative_l2 == taken.floor.overall.relative_l2);
    assert_int_equal(found.floor.worst, taken.floor.worst);
    assert_int_equal(found.gradients.count, taken.gradients.count);
    for (size_t i = 0; i < taken.gradients.count; i++) {
        const struct gradient_tensor *a = &taken.gradients.tensors[i], *b = &found.gradients.tensors[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->values, b->values, a->size * sizeof(double));
        assert_memory_equal(&taken.floor.tensors[i], &found.floor.tensors[i], sizeof *found.floor.tensors);
    }
    reference_free(&found);
    // A second one behind it, whose end is missing.
    off_t end = lseek(store, 0, SEEK_END);
    reference_store_add(store, &longer, NULL, &taken);
    assert_true(reference_store_find(store, &longer, NULL, &found));
    reference_free(&found);
    assert_int_equal(ftruncate(store, lseek(store, 0, SEEK_END) - 8), 0);
    assert_false(reference_store_find(store, &longer, NULL, &found));
    assert_true(lseek(store, 0, SEEK_END) > end && reference_store_find(store, &full, NULL, &found));
    reference_free(&found);
    close(store);
    reference_free(&taken);
    trial_free(&full), trial_free(&seco), trial_free(&longer), trial_free(&elsewhere);
    trial_free(&offloaded), trial_free(&quantised), trial_free(&factors);
}

static json_t *gradient_of(const struct scratch *scratch, const char *file)
{
    char *text = text_of(scratch, file), *last = text;
    for (char *line = text; (line = strchr(line, '\n')) && line[1];)
        last = ++line;
    json_t *record = json_loads(last, 0, NULL), *gradient = json_deep_copy(json_object_get(record, "gradient"));
    assert_true(json_is_object(gradient));
    json_decref(record);
    free(text);
    return gradient;
}

// The second trial of a sweep is held against the reference that the first one took.
static void a_sweep_shares_them(void **state)
{
    const struct scratch *scratch = *state;
    char *spec = quoted("{'experiment': 'e', 'model': 'tiny', 'axes': {'context': [40], 'method': ['full', "
                        "{'name': 'seco', 'chunk': 16}]}, 'measure': {'warmup': 0, 'samples': 1}}");
    scratch_file(scratch, "s.json", spec, strlen(spec));
    free(spec);
    assert_int_equal(run(scratch, "$L run s.json --out shared.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run s.json --out alone.jsonl --axis method=seco"), 0);
    json_t *shared = gradient_of(scratch, "shared.jsonl"), *alone = gradient_of(scratch, "alone.jsonl");
    assert_true(json_equal(shared, alone));
    json_decref(shared);
    json_decref(alone);
}

// A process of a sweep uses what the store has: a wrong reference makes its gradient wrong.
static void a_process_reads_its_store(void **state)
{
    const struct scratch *scratch = *state;
    struct trial trial = trial_of("'full'", 12);
    scratch_file(scratch, "trial", trial.canonical, strlen(trial.canonical));
    int store = reference_store_open();
    struct reference taken;
    struct status status = {0};
    assert_true(reference_take(&taken, &trial, NULL, &status));
    for (size_t i = 0; i < taken.gradients.tensors[0].size; i++)
        taken.gradients.tensors[0].values[i] += 1;
    reference_store_add(store, &trial, NULL, &taken);
    assert_int_equal(dup2(store, 9), 9);
    assert_int_equal(run(scratch, "$L trial references < trial 3<&9"), 0);
    assert_says(scratch, "out", "\"status\":\"failed\"");
    assert_int_equal(run(scratch, "$L trial < trial"), 0);
    assert_says(scratch, "out", "\"status\":\"ok\"");
    close(9);
    close(store);
    reference_free(&taken);
    trial_free(&trial);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_finds_its_own),
        cmocka_unit_test(experts_are_of_the_setting),
        cmocka_unit_test_setup_teardown(a_sweep_shares_them, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_process_reads_its_store, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
