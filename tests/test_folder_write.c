// A model's folder is written whole or not at all, and with trained weights has the files that generation needs.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "tests/scratch.h"
#include "tests/small_config.h"
#include <jansson.h>
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
    for (size_t i = 0; i < 3; i++) { // a layer whose sinks or gates, or a model whose cap, no file would name
        struct config other = small;
        other.kinds[0].sinks = i == 0;
        other.kinds[0].gated = i == 1;
        other.logit_cap = i == 2 ? 30 : 0;
        status = (struct status){0};
        assert_false(folder_write(folder.text, &other, 1, DTYPE_F32, NULL, &status));
        assert_non_null(strstr(status.message, "caps, sinks and gates"));
    }
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

// Which tokens begin and end, and what makes tokens of text, is of the weights below, and goes with those that were
// trained from them.
static void what_generation_needs_goes_along(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    struct scratch_path below = scratch_path(scratch, "below"), above = scratch_path(scratch, "above");
    assert_true(folder_write(below.text, &small, 1, DTYPE_F32, NULL, &status));
    assert_true(folder_write(above.text, &small, 2, DTYPE_F32, NULL, &status));
    assert_true(folder_take_along(above.text, below.text, &status)); // nothing is no error
    static const char config[] =
        "{\"eos_token_id\": [7, 9], \"hidden_size\": 999, \"made\": NaN, \"pad_token_id\": 3, "
        "\"text_config\": {\"eos_token_id\": 1, \"bos_token_id\": 8}}";
    scratch_text(scratch, "below/config.json", config);
    scratch_text(scratch, "below/generation_config.json", "{\"temperature\": 0.6}");
    scratch_text(scratch, "below/tokenizer.json", "{}");
    scratch_text(scratch, "below/notes.txt", "mine");
    assert_true(folder_take_along(above.text, below.text, &status));
    json_t *own = json_load_file(scratch_path(scratch, "above/config.json").text, 0, NULL);
    json_t *ids = json_object_get(own, "eos_token_id");
    assert_int_equal(json_array_size(ids), 2);
    assert_int_equal(json_integer_value(json_array_get(ids, 1)), 9);
    assert_int_equal(json_integer_value(json_object_get(own, "bos_token_id")), 8);
    assert_true(json_is_null(json_object_get(own, "pad_token_id")));
    assert_int_equal(json_integer_value(json_object_get(own, "hidden_size")), small.width); // the weights' own
    json_decref(own);
    struct stat info;
    assert_int_equal(stat(scratch_path(scratch, "above/generation_config.json").text, &info), 0);
    assert_int_equal(info.st_size, 20);
    assert_int_equal(stat(scratch_path(scratch, "above/tokenizer.json").text, &info), 0);
    assert_int_equal(stat(scratch_path(scratch, "above/notes.txt").text, &info), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_are_made_whole_or_not_at_all, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_generation_needs_goes_along, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
