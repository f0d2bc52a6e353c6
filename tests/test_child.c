// A trial's process: its end and its last output, as its record has them.
#define _GNU_SOURCE // nftw
#include "harness/process/child.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int signals;

// The script as the program that is run.
static void run_script(const struct scratch *scratch, const char *script, double timeout_s,
                       struct child_result *result)
{
    char text[256];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    struct scratch_path program = scratch_text(scratch, "trial", text);
    struct status status = {0};
    assert_int_equal(chmod(program.text, 0700), 0);
    if (!child_run(program.text, NULL, "{\"trial\": 1}\n", -1, timeout_s, signals, result, &status))
        fail_msg("%s: %s", script, status.message);
}

static void ends_are_told_apart(void **state)
{
    static const struct {
        const char *script;
        double timeout_s;
        enum child_end end;
        const char *said; // the line of a record, else the reason
    } cases[] = {
        {"cat", 0, CHILD_RECORD, "{\"trial\": 1}"},
        {"echo a line; echo an error >&2", 0, CHILD_RECORD, "a line"},
        {"sleep 100 & echo it leaves another behind", 0, CHILD_RECORD, "it leaves another behind"},
        {"echo out of memory >&2; exit 4", 0, CHILD_OOM, "out of memory"},
        {"echo a line; echo out of memory >&2; exit 4", 0, CHILD_OOM, "out of memory"},
        {"echo a line; exit 3", 0, CHILD_CRASH, "ended with exit code 3"},
        {"echo two errors >&2; echo of it >&2; exit 1", 0, CHILD_CRASH,
         "ended with exit code 1: two errors\nof it"},
        {"true", 0, CHILD_CRASH, "ended without a record"},
        {"printf half", 0, CHILD_CRASH, "ended without a record"},
        {"echo a line; echo another", 0, CHILD_CRASH, "ended without a record"},
        {"kill -SEGV $$", 0, CHILD_CRASH, "killed by signal SIGSEGV (Segmentation fault)"},
        {"kill -KILL $$", 0, CHILD_CRASH, "killed by signal SIGKILL (Killed), sent by another process"},
        {"exec sleep 100", 0.2, CHILD_TIMEOUT, "did not end within 0.2 seconds"},
        {"echo a line; exec sleep 100", 0.2, CHILD_TIMEOUT, "did not end within 0.2 seconds"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct child_result result;
        run_script(*state, cases[i].script, cases[i].timeout_s, &result);
        const char *said = result.end == CHILD_RECORD ? result.line : result.reason;
        if (result.end != cases[i].end || strcmp(said, cases[i].said))
            fail_msg("%s: end %d, \"%s\"", cases[i].script, result.end, said);
        assert_false(result.interrupted);
        assert_true(result.wall_s > 0 && result.wall_s < 60);
        child_result_free(&result);
    }
}

// However much it says, its record is whole, and of its errors the end is kept.
static void long_output_is_read(void **state)
{
    struct child_result result;
    run_script(*state, "head -c 3000000 /dev/zero | tr '\\0' x; echo", 0, &result);
    assert_int_equal(result.end, CHILD_RECORD);
    assert_int_equal(strlen(result.line), 3000000);
    child_result_free(&result);
    run_script(*state, "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1", 0, &result);
    assert_int_equal(result.end, CHILD_CRASH);
    const char *end = result.reason + strlen(result.reason) - strlen("xthe end");
    assert_string_equal(end, "xthe end");
    assert_true(strlen(result.reason) < 1000);
    child_result_free(&result);
}

static void what_cannot_be_started_is_named(void **state)
{
    (void)state;
    struct child_result result;
    struct status status = {0};
    assert_true(child_run("/nowhere/longbp", NULL, "", -1, 0, signals, &result, &status));
    assert_int_equal(result.end, CHILD_CRASH);
    assert_string_equal(result.reason, "ended with exit code 127: /nowhere/longbp: cannot be started: No such file "
                                       "or directory");
    child_result_free(&result);
}

int main(void)
{
    struct status status = {0};
    signals = child_signals_open(&status);
    if (signals < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_are_told_apart, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(long_output_is_read, scratch_setup, scratch_teardown),
        cmocka_unit_test(what_cannot_be_started_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    child_signals_close(signals);
    return failed;
}
