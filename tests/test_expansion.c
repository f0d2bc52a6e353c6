// Expansion of axes, and of a method entry's own: every combination occurs once, the last axis fastest.
#include "harness/spec/spec.h"
#include "methods/method.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_combination_comes_once(void **state)
{
    (void)state;
    char *text = quoted(
        "{'experiment': 'e', 'question': 'q', 'model': 'tiny', 'axes': {'context': [16, 32, 48, 64, 80, 96, 112], "
        "'method': ['full', {'name': 'seco', 'chunk': [8, 16, 32], 'head_chunk': [0, 4, 8], 'keep': "
        "['lean', 'all']}, {'name': 'streambp', 'chunk': [4, 5, 6, 7]}], 'seed': [1, 2]}}");
    struct spec_changes changes = {0};
    struct status status = {0};
    struct spec spec;
    if (!spec_parse(&spec, "e", text, strlen(text), &changes, &status))
        fail_msg("%s", status.message);
    size_t n = 0;
    for (size_t context = 16; context <= 112; context += 16) {
        for (size_t variant = 0; variant < 1 + 18 + 4; variant++) {
            for (uint64_t seed = 1; seed <= 2; seed++, n++) {
                struct trial trial;
                assert_true(n < spec.trial_count && spec_trial(&spec, n, &trial, &status));
                const struct option_table *table = &trial.method->options;
                size_t chunk = options_count(table, trial.options, "chunk", 0), own = variant - 1;
                assert_int_equal(trial.context, context);
                assert_int_equal(trial.seed, seed);
                if (variant == 0) {
                    assert_string_equal(trial.method->name, "full");
                } else if (variant <= 18) {
                    assert_string_equal(trial.method->name, "seco");
                    assert_int_equal(chunk, (size_t)8 << own / 6);
                    assert_int_equal(options_count(table, trial.options, "head_chunk", 1), own / 2 % 3 * 4);
                    assert_int_equal(options_choice(table, trial.options, "keep", -1), own % 2);
                } else {
                    assert_string_equal(trial.method->name, "streambp");
                    assert_int_equal(chunk, 4 + variant - 19);
                }
                trial_free(&trial);
            }
        }
    }
    assert_int_equal(spec.trial_count, n);
    spec_free(&spec);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_combination_comes_once)};
    return cmocka_run_group_tests_name("expansion", tests, NULL, NULL);
}
