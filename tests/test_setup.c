// Tests of setup: what a trial may keep on the host.
#include "harness/run/setup.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_machines_memory_limits_no_folder)};
    return cmocka_run_group_tests_name("setup", tests, NULL, NULL);
}
