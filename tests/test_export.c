// Tests of `longbp export`: each record a row, columns by the table of fields, texts of any kind as they are.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>

#define ID(digit)           digit "123456789abcdef0123456789abcdef"
#define RECORD(digit, more) "{'schema': 2, 'id': '" ID(digit) "', 'experiment': 'e', 'status': 'ok', " more "}\n"
#define TRIAL(method)                                                                                              \
    "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'limits': {'memory': null}, 'method': "  \
    "{'name': " method "}}"
#define HOSTILE RECORD("0", "'reason': '=1+1,\\u0022q\\u0022\\na\\rb', 'command': '', " TRIAL("'full'"))

static void write_records(const struct scratch *scratch, const char *text)
{
    char *json = quoted(text);
    scratch_file(scratch, "r.jsonl", json, strlen(json));
    free(json);
}

static void expect(const struct scratch *scratch, const char *command, const char *expected)
{
    assert_int_equal(run(scratch, command), 0);
    char *text = text_of(scratch, "out");
    assert_string_equal(text, expected);
    free(text);
}

static void expect_bad(const struct scratch *scratch, const char *command, const char *message)
{
    assert_int_equal(run(scratch, command), 2);
    char *text = text_of(scratch, "out");
    assert_string_equal(text, "");
    free(text);
    assert_says(scratch, "err", message);
}

static void fields_are_columns(void **state)
{
    const struct scratch *scratch = *state;
    write_records(
        scratch,
        RECORD("a",
               TRIAL("'seco', 'chunk': 4, 'a.b': 7") ", 'peak_bytes': 12, 'median_ms': 1.5, "
                                                     "'samples_ms': [1, 2], 'peak_by_category': {'weights': 3}")
            RECORD("b", TRIAL("'full'") ", 'peak_bytes': null, 'gradient': {'hash': null}"));
    expect(scratch,
           "$L export r.jsonl --fields id,trial.method.chunk,trial.context,peak_bytes,peak_by_category.weights,"
           "samples_ms,trial.limits.memory",
           "id,trial.method.chunk,trial.context,peak_bytes,peak_by_category.weights,samples_ms,trial.limits."
           "memory\r\n" ID("a") ",4,8,12,3,\"[1,2]\",\r\n" ID("b") ",,8,,,,\r\n");
    expect(scratch, "$L export r.jsonl r.jsonl --fields=trial.method.a.b,trial.limits",
           "trial.method.a.b,trial.limits\r\n7,\"{\"\"memory\"\":null}\"\r\n,\"{\"\"memory\"\":null}\"\r\n"
           "7,\"{\"\"memory\"\":null}\"\r\n,\"{\"\"memory\"\":null}\"\r\n");
    expect(scratch, "$L export r.jsonl --format json --fields peak_bytes,trial.method.name,samples_ms",
           "[\n{\"peak_bytes\":12,\"trial.method.name\":\"seco\",\"samples_ms\":[1,2]},\n"
           "{\"peak_bytes\":null,\"trial.method.name\":\"full\",\"samples_ms\":null}\n]\n");
}

// Of each tensor; their names have dots, and not all records have all of them.
static void parts_of_a_map_are_columns(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, RECORD("a", TRIAL("'full'") ", 'gradient': {'tensors': {'a.b': {'max_abs': 1}}}")
                               RECORD("b", TRIAL("'full'") ", 'gradient': {'tensors': {'a.b': {'max_abs': 2}, "
                                                           "'c': {'max_abs': 3}}}"));
    expect(scratch, "$L export r.jsonl --fields gradient.tensors.a.b.max_abs,gradient.tensors.c.max_abs",
           "gradient.tensors.a.b.max_abs,gradient.tensors.c.max_abs\r\n1,\r\n2,3\r\n");
    expect_bad(scratch, "$L export r.jsonl --fields gradient.tensors.NAME.max_abs",
               "NAME in \"gradient.tensors.NAME.max_abs\" stands for a name in the records, as in "
               "\"gradient.tensors.a.b.max_abs\"");
    expect_bad(scratch, "$L export r.jsonl --fields gradient.tensors.NAME.mox_abs", "no field");
}

static void hostile_texts_stay_data(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, HOSTILE);
    expect(scratch, "$L export r.jsonl --fields reason,command,loss",
           "reason,command,loss\r\n\"=1+1,\"\"q\"\"\na\rb\",\"\",\r\n");
    write_records(scratch, RECORD("0", TRIAL("'full', '=x,\\n': '=y'")));
    expect(scratch, "$L export r.jsonl >all && grep -c '^\"=x,$\\|method.=x,$' all; grep -o ',=y,' all",
           "1\n,=y,\n");
}

// What is flat is a column without being asked for; what is a table in itself is not.
static void all_columns_are_those_of_the_table(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const there[] = {"schema,",        "trial.method.name,",         "trial.measure.warmup,",
                                        "gradient.hash,", "peak_by_category.kv_cache,", "provenance.cpu,",
                                        ",command\r\n"};
    static const char *const absent[] = {"tensors", "rows", "events", ",trial,", ",gradient,", "trial.method,"};
    write_records(scratch, HOSTILE);
    assert_int_equal(run(scratch, "$L export r.jsonl"), 0);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        assert_says(scratch, "out", there[i]);
    char *text = text_of(scratch, "out");
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(strstr(text, absent[i]));
    free(text);
    assert_int_equal(run(scratch, "$L export r.jsonl --format json"), 0);
    text = text_of(scratch, "out");
    json_t *rows = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "status")), "ok");
    json_decref(rows);
    free(text);
    scratch_file(scratch, "none.jsonl", "", 0);
    expect(scratch, "$L export none.jsonl --format json", "[\n]\n");
}

static void mistakes_are_told_before_anything_is_written(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, HOSTILE);
    scratch_file(scratch, "bad.jsonl", "{}\n", 3);
    expect_bad(scratch, "$L export r.jsonl --fields id,peek_bytes",
               "no field \"peek_bytes\"; did you mean \"peak_bytes\"?; `longbp list fields`");
    expect_bad(scratch, "$L export r.jsonl --fields trial.method.nam", "did you mean \"trial.method.name\"?");
    expect_bad(scratch, "$L export r.jsonl --fields trial.method.chunk", "no field \"trial.method.chunk\"");
    expect_bad(scratch, "$L export r.jsonl --fields id,", "no field \"\"");
    expect_bad(scratch, "$L export r.jsonl --fields id,status,id", "--fields: \"id\" is named twice");
    expect_bad(scratch, "$L export r.jsonl bad.jsonl", "bad.jsonl:1: not a record");
    expect_bad(scratch, "cat r.jsonl | $L export /dev/stdin", "/dev/stdin: not a regular file");
    expect_bad(scratch, "$L export r.jsonl --format tsv", "--format: csv or json, not \"tsv\"");
    expect_bad(scratch, "$L export", "name at least one result file");
    assert_int_equal(run(scratch, "$L export r.jsonl >/dev/full"), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(fields_are_columns), TEST(parts_of_a_map_are_columns),
                                       TEST(hostile_texts_stay_data), TEST(all_columns_are_those_of_the_table),
                                       TEST(mistakes_are_told_before_anything_is_written)};
    return cmocka_run_group_tests_name("export", tests, NULL, NULL);
}
