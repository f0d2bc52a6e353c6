// A model's folder is made whole or not at all.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/files/folder.h"
#include "tests/scratch.h"
#include "tests/small_config.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

static void folders_are_made_whole_or_not_at_all(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path folder = scratch_path(scratch, "new");
    struct status status = {0};
    struct config both = small;
    both.qkv_bias = both.qk_norm = true;
    assert_false(folder_write(folder.text, &both, 1, DTYPE_F32, NULL, &status));
    assert_non_null(strstr(status.message, "no model type of transformers has both"));
    assert_int_equal(scratch_entries(scratch), 0);

    status = (struct status){0};
    assert_false(folder_write(folder.text, &small, 1, DTYPE_F16, NULL, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    status = (struct status){0};
    assert_false(folder_write(scratch_path(scratch, "none/new").text, &small, 1, DTYPE_F32, NULL, &status));
    assert_int_equal(status.code, STATUS_IO);
    assert_int_equal(scratch_entries(scratch), 0);

    // A full disk: the limit on a file's size fails a write just so.
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 5000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    status = (struct status){0};
    bool ok = folder_write(folder.text, &small, 1, DTYPE_F32, NULL, &status);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_false(ok);
    assert_int_equal(status.code, STATUS_IO);
    assert_int_equal(scratch_entries(scratch), 0);

    assert_int_equal(mkdir(folder.text, 0700), 0); // empty, so it may be used
    status = (struct status){0};
    assert_true(folder_write(folder.text, &small, 1, DTYPE_F32, NULL, &status));
    assert_false(folder_write(folder.text, &small, 1, DTYPE_F32, NULL, &status));
    assert_int_equal(status.code, STATUS_BAD_INPUT);
    assert_non_null(strstr(status.message, "is there already, and not empty"));
    status = (struct status){0};
    assert_false(folder_write(scratch_file(scratch, "file", "", 0).text, &small, 1, DTYPE_F32, NULL, &status));
    assert_int_equal(status.code, STATUS_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_are_made_whole_or_not_at_all, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
