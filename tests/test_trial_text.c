// Tests of a trial in words: a line has the values that distinguish the trials of a sweep, and no defaults. JSON
// is written with ' for ".
#include "harness/spec/trial_text.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void load(struct spec *spec, const char *text)
{
    char *json = quoted(text);
    struct status status = {0};
    if (!spec_parse(spec, "spec", json, strlen(json), NULL, &status))
        fail_msg("%s", status.message);
    free(json);
}

static void line(const struct spec *spec, size_t i, bool alone, char *text, size_t bytes)
{
    struct trial trial;
    struct status status = {0};
    assert_true(spec_trial(spec, i, &trial, &status));
    trial_text(&trial, alone ? NULL : spec, text, bytes);
    trial_free(&trial);
}

static void what_differs_from_the_defaults_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *line;
    } cases[] = {
        {"", "full, context 64, tiny f32 plan-cpu"},
        {", 'kv_gradient_dtype': 'f32', 'batch': 1, 'lora': null", "full, context 64, tiny f32 plan-cpu"},
        {", 'dtype': 'bf16', 'kv_gradient_dtype': 'f32', 'gradient_dtype': 'bf16'",
         "full, context 64, gradient_dtype bf16, tiny bf16 plan-cuda"},
        {", 'batch': 2, 'seed': 3, 'objective': 'dft'",
         "full, context 64, batch 2, seed 3, objective dft, tiny f32 plan-cpu"},
        {", 'lora': {}", "full, context 64, lora 8, tiny f32 plan-cpu"},
        {", 'lora': {'rank': 4, 'targets': ['q', 'o']}", "full, context 64, lora 4 targets=q,o, tiny f32 plan-cpu"},
        {", 'optimizer': 'adamw'", "full, context 64, optimizer adamw, tiny f32 plan-cpu"},
        {", 'optimizer': {'name': 'adamw', 'rate': 0.5}",
         "full, context 64, optimizer adamw rate=0.5, tiny f32 plan-cpu"},
        {", 'tf32': true, 'deterministic': true", "full, context 64, deterministic, TF32, tiny f32 plan-cpu"},
        {", 'host': {'folder': '/tmp'}", "full, context 64, host /tmp, tiny f32 plan-cpu"},
        // Keys that usually hold for a whole sweep.
        {", 'limits': {'memory': '1 GiB'}, 'measure': {'samples': 2}, 'profile': 'rtx-3090'",
         "full, context 64, tiny f32 plan-cpu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600], found[512];
        struct spec spec;
        snprintf(text, sizeof text,
                 "{'experiment': 'e', 'model': 'tiny', 'device': 'plan', 'axes': {'context': [64], 'method': "
                 "['full']}%s}",
                 cases[i].keys);
        load(&spec, text);
        for (int alone = 0; alone < 2; alone++) {
            line(&spec, 0, alone, found, sizeof found);
            assert_string_equal(found, cases[i].line);
        }
        spec_free(&spec);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

// One varying value of every key; keys of an entry itself vary, too.
static void no_two_trials_of_a_sweep_have_the_same_line(void **state)
{
    (void)state;
    struct spec spec;
    load(&spec, "{'experiment': 'e', 'dtype': 'bf16', 'device': 'plan', 'axes': {'context': [64],"
                "'limits': [{'memory': '1 GiB'}, {'memory': '2 GiB'}, {'host_memory': '1 GiB'}],"
                "'profile': [null, 'rtx-3090'], 'measure': [{}, {'timeline': true}],"
                "'model': ['tiny', {'layers': 2, 'width': 8, 'heads': 1, 'kv_heads': 1, 'ffn': 8, 'vocab': 256},"
                "                  {'layers': 2, 'width': 8, 'heads': 1, 'kv_heads': 1, 'ffn': 9, 'vocab': 256}],"
                "'data': ['random', {'text': 'a/b.txt'}, {'text': 'c/b.txt'}],"
                "'method': ['full', {'name': 'seco', 'chunk': [8, 16], 'gradient_dtype': ['f32', 'bf16']},"
                "           {'name': 'checkpoint', 'host': [null, {'folder': '/tmp'}, {'folder': '/var'}]}]}}");
    enum { BYTES = 512 };
    char(*lines)[BYTES] = calloc(spec.trial_count, sizeof *lines);
    assert_non_null(lines);
    assert_int_equal(spec.trial_count, 3 * 2 * 2 * 3 * 3 * 8);
    for (size_t i = 0; i < spec.trial_count; i++)
        line(&spec, i, false, lines[i], BYTES);
    assert_string_equal(lines[0], "full, context 64, limits memory=1.00 GiB, tiny bf16 plan-cuda");
    qsort(lines, spec.trial_count, sizeof *lines, by_text);
    for (size_t i = 1; i < spec.trial_count; i++)
        if (strcmp(lines[i - 1], lines[i]) == 0)
            fail_msg("two trials are called %s", lines[i]);
    free(lines);
    spec_free(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_from_the_defaults_is_said),
        cmocka_unit_test(no_two_trials_of_a_sweep_have_the_same_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
