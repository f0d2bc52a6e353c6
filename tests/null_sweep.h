// Null sweep: a spec of trials of method `null`, and what its result file holds. Includers define _GNU_SOURCE
// first.
#pragma once
#include "harness/record/result_file.h"
#include "tests/program.h"
#include "tests/records_of.h"

#define TRIALS 8
static const char spec_head[] =
    "{\"experiment\": \"t\", \"model\": {\"layers\": 1, \"width\": 8, \"heads\": 2, \"ffn\": 8, \"vocab\": 11},\n"
    " \"measure\": {\"warmup\": 0, \"samples\": 1, \"max_seconds\": 1, \"gradient\": \"none\"},\n";
// TRIALS trials of a fifth of a second each.
static const char slow_axes[] = " \"axes\": {\"context\": [8], \"seed\": [1, 2, 3, 4, 5, 6, 7, 8],\n"
                                "            \"method\": [{\"name\": \"null\", \"seconds\": 0.2}]}}\n";
static const char fast_axes[] =
    " \"axes\": {\"context\": [8], \"seed\": [1, 2, 3, 4, 5, 6, 7, 8], \"method\": [\"null\"]}}\n";

static inline void spec_write(const struct scratch *scratch, const char *axes)
{
    char *text;
    assert_true(asprintf(&text, "%s%s", spec_head, axes) > 0);
    scratch_file(scratch, "spec.json", text, strlen(text));
    free(text);
}

// The result file holds exactly the spec's trials, each once, every line a valid record, nothing torn.
static inline void assert_complete(const struct scratch *scratch, size_t trials)
{
    struct result_file file;
    struct status status = {0};
    if (!result_file_read(&file, scratch_path(scratch, "r.jsonl").text, &status))
        fail_msg("%s", status.message);
    json_t *objects = records(scratch, "r.jsonl");
    assert_int_equal(file.torn_line, 0);
    assert_int_equal(file.count, trials);
    assert_int_equal(run(scratch, "$L run spec.json --list"), 0);
    assert_int_equal(line_count(scratch, "out"), trials);
    char *list = text_of(scratch, "out");
    for (size_t i = 0; i < trials; i++) {
        const char *id = json_string_value(json_object_get(json_array_get(objects, i), "id"));
        assert_non_null(strstr(list, id));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(id, json_string_value(json_object_get(json_array_get(objects, j), "id")));
    }
    free(list);
    json_decref(objects);
    result_file_close(&file);
}

static inline void wait_for_lines(const struct scratch *scratch, size_t lines)
{
    for (int tries = 0; line_count(scratch, "r.jsonl") < lines; tries++) {
        assert_true(tries < 1000);
        pause_ms(10);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
