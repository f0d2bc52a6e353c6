// Published models: the gradient's bytes of those that are planned, 4 for each number of a weight (tensors fill up
// to 256), or why a model is refused. tools/config_facts.py adds models; tools/check_sizes_against_transformers.py
// counts their numbers in transformers.
#include "tests/program.h"
#include <sys/stat.h>

static struct scratch *folder;

// input: the name and the config.json, each in a line.
static void answer(FILE *out, const char *input)
{
    const char *config = strchr(input, '\n');
    assert_non_null(config);
    scratch_file(folder, "model/config.json", config + 1, strlen(config + 1));
    run(folder,
        "$L plan --model model --dtype bf16 --method seco --context 4096 2>&1 | "
        "sed -n 's/^  gradients .* /gradients /p; s/^longbp: model: //p; s/^longbp plan: command line: //p'");
    char *said = text_of(folder, "out");
    assert_true(*said);
    said[strlen(said) - 1] = 0;
    assert_null(strstr(said, "unknown model type"));
    fputs(said, out);
    free(said);
}

static void models_are_planned_or_refused_with_the_reason(void **state)
{
    folder = *state;
    assert_int_equal(mkdir(scratch_path(folder, "model").text, 0700), 0);
    golden_hold(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        models_are_planned_or_refused_with_the_reason, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
