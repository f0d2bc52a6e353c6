// A resumed training run compares its data by their bytes, not by names and sizes; data are checked before the
// first step; and unused options are refused.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"

#define TRAIN                                                                                                      \
    "$L train --model tiny --context 12 --method full --optimizer sgd --steps 2 --quiet --out run --tokens text "

static void write_texts(const struct scratch *scratch)
{
    assert_int_equal(run(scratch,
                         "yes 'in the beginning ' | head -c 600 > text; yes 'was the word ' | head -c 600 > other; "
                         "cp text held"),
                     0);
}

static void other_data_are_another_run(void **state)
{
    const struct scratch *scratch = *state;
    write_texts(scratch);
    assert_int_equal(run(scratch, TRAIN "--evaluate held && " TRAIN "--evaluate held --resume"), 0);
    assert_int_equal(run(scratch, "cp other held && " TRAIN "--evaluate held --resume"), 2);
    assert_says(scratch, "err", "run: the run was begun with evaluate_hash \"");
    assert_int_equal(run(scratch, "cp text held && cp other text && " TRAIN "--evaluate held --resume"), 2);
    assert_says(scratch, "err", "run: the run was begun with data_hash \"");
}

// Runs of an earlier version without hashes skip the comparison; keys that it had not are the defaults.
static void runs_of_earlier_versions_go_on(void **state)
{
    const struct scratch *scratch = *state;
    write_texts(scratch);
    assert_int_equal(run(scratch, TRAIN "&& grep -q data_hash run/training.json"), 0);
    assert_int_equal(run(scratch, "sed -i -z 's/,[[:space:]]*\"data_hash\": \"[0-9a-f]*\"//' run/training.json && "
                                  "! grep -q data_hash run/training.json && cp other text && " TRAIN "--resume"),
                     0);
    assert_int_equal(run(scratch, "sed -i '/\"decay_steps\"/d' run/training.json && "
                                  "! grep -q decay_steps run/training.json && " TRAIN "--resume"),
                     0);
}

// Nothing reads it: else whoever named it and no beta would train without what was to hold the policy back.
static void a_reference_that_nothing_reads_is_refused(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const commands[] = {
        "$L grad --model tiny --context 12 --batch 2 --objective dpo,kind=simpo --reference random --out g",
        "$L train --model tiny --context 12 --steps 1 --optimizer sgd --reference random --out t"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_int_equal(run(scratch, commands[i]), 2);
        assert_says(scratch, "err", "--reference: objective \"");
        assert_says(scratch, "err", "none with these options");
    }
}

// A wrong id that the run would come to after its first step ends it before that; what is trained on is said.
static void tokens_are_looked_at_first(void **state)
{
    struct scratch *scratch = *state;
    unsigned char array[80 + 600 * 2] =
        "\x93NUMPY\1\0\x46\0{'descr': '<u2', 'fortran_order': False, 'shape': (600,), }";
    for (size_t i = 0; i < 600; i++)
        array[80 + 2 * i] = (unsigned char)(i % 50);
    scratch_file(scratch, "right.npy", array, sizeof array);
    array[80 + 2 * 100 + 1] = 1;
    scratch_file(scratch, "wrong.npy", array, sizeof array);
    assert_int_equal(run(scratch,
                         "$L train --model tiny --tokens wrong.npy --context 12 --method full --steps 20 --out "
                         "new 2> said"),
                     2);
    assert_int_equal(run(scratch, "! ls new && grep -q 'token 100 is 256' said"), 0);
    assert_int_equal(run(scratch,
                         "$L train --model tiny --tokens right.npy --context 12 --method full --steps 2 --out new "
                         "> said 2>&1 && grep -q 'uint16 (.npy); the first 24 have 24 of' said"),
                     0);
    static const char spec[] =
        "{\"experiment\": \"e\", \"model\": \"tiny\", \"data\": {\"tokens\": \"right.npy\"}, "
        "\"axes\": {\"context\": [8], \"method\": [\"full\", \"checkpoint\"]}}";
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    assert_int_equal(
        run(scratch, "$L run spec.json --out r > said 2>&1 && grep -c 'uint16 (.npy)' said | grep -qx 1"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(other_data_are_another_run),
        TEST(runs_of_earlier_versions_go_on),
        TEST(tokens_are_looked_at_first),
        TEST(a_reference_that_nothing_reads_is_refused),
    };
    return cmocka_run_group_tests_name("train settings", tests, NULL, NULL);
}
