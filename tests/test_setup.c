// Tests of setup: a trial's limits on the host, and a step without targets. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/step/setup.h"
#include "tests/scratch.h"
#include "tests/trial_of.h"

// The host's limit of a trial with these keys more.
static size_t host_limit(const char *more)
{
    struct trial trial;
    struct setup setup;
    struct status status = {0};
    char text[300];
    snprintf(text, sizeof text,
             "{'model': {'layers': 1, 'width': 16, 'heads': 2, 'ffn': 24, 'vocab': 40}, 'context': 4, 'method': "
             "'full'%s}",
             more);
    char *json = quoted(text);
    assert_true(trial_decode(&trial, json, "t", &status));
    struct setup_options options = setup_options_of(&trial);
    assert_true(setup_open(&setup, &trial, &options, &status));
    size_t limit = setup.device->host.limit_bytes;
    setup_close(&setup);
    trial_free(&trial);
    free(json);
    return limit;
}

// A folder is meant for more than the memory there is: what its disk holds is found when a file is made.
static void the_machines_memory_limits_no_folder(void **state)
{
    (void)state;
    assert_true(host_limit("") > 0);
    assert_int_equal(host_limit(", 'limits': {'host_memory': '1MiB'}"), 1 << 20);
    assert_int_equal(host_limit(", 'host': {'folder': 'x'}"), 0);
    assert_int_equal(host_limit(", 'host': {'folder': 'x'}, 'limits': {'host_memory': '1MiB'}"), 1 << 20);
}

// A mean over no token is refused.
static void without_a_target_there_is_no_loss(void **state)
{
    const struct scratch *scratch = *state;
    static const int32_t none[] = {NO_TARGET, NO_TARGET}, one[] = {NO_TARGET, 3};
    struct scratch_path unlabelled = scratch_file(scratch, "none", none, sizeof none),
                        labelled = scratch_file(scratch, "one", one, sizeof one);
    const struct {
        const char *keys, *labels, *message; // NULL: no file, and there is a target
    } cases[] = {{"'context': 1, 'batch': 3", NULL, "the context is 1; give 2 or more"},
                 {"'context': 2", NULL, NULL},
                 {"'context': 9, 'documents': 1", NULL, "no document has two tokens"},
                 {"'context': 9, 'documents': [1, 1, 2]", NULL, NULL},
                 {"'context': 2", unlabelled.text, "none: all labels are -100"},
                 {"'context': 2", labelled.text, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1200];
        bool file = cases[i].labels;
        snprintf(json, sizeof json, "{'model': 'tiny', 'method': 'full', %s%s%s%s}", cases[i].keys,
                 file ? ", 'labels': '" : "", file ? cases[i].labels : "", file ? "'" : "");
        struct trial trial = trial_of(json);
        struct setup setup;
        struct status status = {0};
        struct setup_options options = setup_options_of(&trial);
        assert_true(setup_open(&setup, &trial, &options, &status));
        assert_int_equal(setup_check_targets(&setup, &trial, &status), !cases[i].message);
        if (cases[i].message) {
            assert_int_equal(status.code, STATUS_UNSUPPORTED);
            assert_non_null(strstr(status.message, cases[i].message));
        }
        setup_close(&setup);
        trial_free(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machines_memory_limits_no_folder),
        cmocka_unit_test_setup_teardown(without_a_target_there_is_no_loss, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("setup", tests, NULL, NULL);
}
