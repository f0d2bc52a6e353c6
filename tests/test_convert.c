// Tests of `longbp convert`: a record of schema 1 becomes the record that this program would write for the same
// trial, id included; what is none is refused with its line, and nothing is written.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COMMAND "longbp run s.json --cell 0123456789abcdef0123456789abcdef"
// As revision 057dbf3 wrote it, shortened.
#define OLD(method)                                                                                                \
    "{'schema': 1, 'id': '0123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'ok', 'reason': '',"     \
    " 'cell': {'batch': 1, 'context': 64, 'data': 'random', 'device': 'cpu', 'dtype': 'f32', 'gradient_dtype': "   \
    "'f32', 'kv_gradient_dtype': 'f32', 'labels': null, 'limits': {'memory': null}, 'lora': null, 'measure': "     \
    "{'bias': false, 'gradient': 'full-f64', 'max_seconds': 60.0, 'samples': 5, 'timeline': false, 'warmup': 1},"  \
    " 'method': {'name': '" method "', 'head_chunk': 256, 'keep': 'lean'}, 'model': 'tiny', 'optimizer': null, "   \
    "'seed': 1}, 'peak_bytes': 4096, 'samples_ms': [1.5], 'command': '" COMMAND "'}\n"

static void write_quoted(const struct scratch *scratch, const char *name, const char *text)
{
    char *json = quoted(text);
    scratch_file(scratch, name, json, strlen(json));
    free(json);
}

static void an_old_record_is_that_of_the_same_trial(void **state)
{
    const struct scratch *scratch = *state;
    write_quoted(scratch, "old.jsonl", OLD("full"));
    write_quoted(scratch, "s.json",
                 "{'experiment': 'e', 'model': 'tiny', 'axes': {'context': [64], 'method': ['full']}}");
    assert_int_equal(run(scratch, "$L convert old.jsonl --out new.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run s.json --list"), 0);
    char *new = text_of(scratch, "new.jsonl"), *listed = text_of(scratch, "out"), id[33] = "", command[100];
    assert_int_equal(sscanf(listed, "%32[0-9a-f]", id), 1);
    json_t *record = json_loads(new, 0, NULL);
    assert_non_null(record);
    assert_string_equal(json_string_value(json_object_get(record, "id")), id);
    snprintf(command, sizeof command, "longbp run s.json --trial %s", id);
    assert_string_equal(json_string_value(json_object_get(record, "command")), command);
    assert_null(json_object_get(record, "cell"));
    assert_true(json_is_false(json_object_get(json_object_get(record, "trial"), "tf32")));
    assert_int_equal(json_integer_value(json_object_get(record, "peak_bytes")), 4096);
    json_decref(record);
    free(listed);
    // A record of this schema stays as it is; a file may take its own place.
    assert_int_equal(run(scratch, "$L convert new.jsonl -o new.jsonl"), 0);
    char *again = text_of(scratch, "new.jsonl");
    assert_string_equal(again, new);
    free(again);
    free(new);
}

static void what_is_no_record_is_refused(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *text, *message;
    } files[] = {
        {OLD("full") "{'schema': 1}\n", "f.jsonl:2: not a record of schema 1"},
        {OLD("what"), "f.jsonl:1"},
        {"{'schema': 1,\n", "f.jsonl:1:"},
        {"{'schema': 7}\n", "f.jsonl:1: schema 7"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_quoted(scratch, "f.jsonl", files[i].text);
        assert_int_equal(run(scratch, "$L convert f.jsonl --out none.jsonl"), 2);
        assert_says(scratch, "err", files[i].message);
        assert_int_equal(run(scratch, "test ! -e none.jsonl"), 0);
    }
    assert_int_equal(run(scratch, "$L convert gone.jsonl --out none.jsonl"), 2);
    assert_says(scratch, "err", "gone.jsonl: No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_old_record_is_that_of_the_same_trial, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_record_is_refused, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
