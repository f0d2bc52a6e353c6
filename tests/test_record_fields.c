// Tests of the table of record fields: it has exactly the fields that the program writes, and `longbp list fields`
// prints it.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/record/record_fields.h"
#include "harness/record/record_read.h"
#include "harness/record/result_file.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include "tests/records_of.h"

// Every field of the table stands in the object, but for the names in `absent`, each followed by a blank; also in
// objects within it, where they are not null.
static void expect_all(const json_t *object, const struct record_field *fields, const char *absent)
{
    for (const struct record_field *field = fields; field->name; field++) {
        const json_t *value = json_object_get(object, field->name);
        char blank[64];
        snprintf(blank, sizeof blank, "%s ", field->name);
        if (!value && !strstr(absent, blank))
            fail_msg("no record has the field \"%s\"", field->name);
        if (!field->members || !value || json_is_null(value))
            continue;
        if (field->type == FIELD_MAP)
            value = json_object_iter_value(json_object_iter((json_t *)value));
        else if (field->type == FIELD_ROWS)
            value = json_array_get(value, 0);
        expect_all(value, field->members, "");
    }
}

static void records_are_the_table(void **state)
{
    struct scratch *scratch = *state;
    char *spec =
        quoted("{'experiment': 't', 'model': {'layers': 1, 'width': 8, 'heads': 2, 'ffn': 8, 'vocab': 11}, "
               "'dtype': 'f32', 'profile': 'rtx-3090', 'axes': {'context': [16], 'method': ['full', {'name': "
               "'spaco', 'chunk': 4, "
               "'budget': 1, 'sampler': 'uniform'}]}, 'measure': {'warmup': 0, 'samples': 2, 'timeline': "
               "true, 'bias': true, 'categories': true}}");
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    free(spec);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    struct result_file file;
    struct status status = {0};
    if (!result_file_read(&file, scratch_path(scratch, "r.jsonl").text,
                          &status)) // nothing but what is in the table
        fail_msg("%s", status.message);
    json_t *objects = records(scratch, "r.jsonl");
    assert_int_equal(file.count, 2);
    static const char *const absent[] = {"drawn_chunks skipped_chunks sample_chunks slowdown ",
                                         "skipped_chunks slowdown "};
    static const char *const parts[] = {"gradient", "timeline", "categories", "provenance"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *record = json_array_get(objects, i);
        expect_all(record, record_fields, absent[i]);
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++)
            assert_true(json_is_object(json_object_get(record, parts[j])));
    }
    assert_true(json_is_object(json_object_get(json_array_get(objects, 1), "bias")));
    json_decref(objects);
    result_file_close(&file);
}

static void list_prints_the_table(void **state)
{
    struct scratch *scratch = *state;
    static const char *const names[] = {"\npeak_bytes ",
                                        "\ntrial.measure.samples ",
                                        "\ngradient.tensors.NAME.hash ",
                                        "\ncategories.rows[].ms ",
                                        "bytes     maximum live bytes during a step\n",
                                        " | null: planned\n"};
    assert_int_equal(run(scratch, "$L list fields"), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_says(scratch, "out", names[i]);
    assert_int_equal(run(scratch, "$L list fields --json"), 0);
    char *text = text_of(scratch, "out");
    json_t *list = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_array_size(list) > 100);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")), record_fields[0].name);
    json_decref(list);
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(records_are_the_table), TEST(list_prints_the_table)};
    return cmocka_run_group_tests_name("record_fields", tests, NULL, NULL);
}
