// Tests of harness/result_file: read records, tolerated deviations, and errors with their line.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/record/result_file.h"
#include "harness/record/result_ids.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define ID_A               "0123456789abcdef0123456789abcdef"
#define ID_B               "ffffffffffffffffffffffffffffffff"
#define TRIAL              "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'method': {'name': 'full'}}"
#define RECORD(id, status) "{'schema': 2, 'id': '" id "', 'experiment': 'e', 'status': '" status "', " TRIAL "}"

static bool read_text(struct scratch *scratch, struct result_file *file, const char *text, struct status *status)
{
    char *json = quoted(text);
    struct scratch_path path = scratch_file(scratch, "r.jsonl", json, strlen(json));
    free(json);
    return result_file_read(file, path.text, status);
}

static struct result_file must_read(struct scratch *scratch, const char *text)
{
    struct result_file file;
    struct status status = {0};
    if (!read_text(scratch, &file, text, &status))
        fail_msg("%s", status.message);
    return file;
}

static void expect_bad(struct scratch *scratch, const char *text, const char *message)
{
    struct result_file file;
    struct status status = {0};
    if (read_text(scratch, &file, text, &status))
        fail_msg("accepted: %s", text);
    char *expected = quoted(message);
    if (status.code != STATUS_BAD_INPUT || !strstr(status.message, expected))
        fail_msg("expected %s\n   found %s", expected, status.message);
    free(expected);
    result_file_close(&file);
}

// Left by a power cut where a newline and the next record were about to be: the record before them stays.
static void zeros_behind_a_record_cost_only_themselves(void **state)
{
    struct scratch *scratch = *state;
    struct result_file file;
    struct status status = {0};
    char *json = quoted(RECORD(ID_A, "ok") "000");
    size_t bytes = strlen(json) - 3;
    memset(json + bytes, 0, 3);
    struct scratch_path path = scratch_file(scratch, "r.jsonl", json, bytes + 3);
    assert_true(result_file_read(&file, path.text, &status));
    assert_int_equal(file.count, 1);
    assert_int_equal(file.bytes, bytes + 3);
    assert_int_equal(file.intact_bytes, bytes);
    assert_int_equal(file.torn_line, 1);
    assert_true(file.unterminated);
    result_file_close(&file);
    free(json);
}

static void test_whole_records(void **state)
{
    struct result_file file = must_read(*state, RECORD(ID_A, "ok") "\n" RECORD(ID_B, "ok") "\n");
    assert_int_equal(file.count, 2);
    assert_int_equal(file.intact_bytes, file.bytes);
    assert_int_equal(file.torn_line, 0);
    assert_false(file.unterminated);
    result_file_close(&file);
}

static bool count_id(void *ids, const struct result_line *line, struct status *status)
{
    (void)status;
    result_ids_add(ids, line->record);
    return true;
}

static void expect_count(struct result_ids *ids, const char *id, size_t records, size_t ok)
{
    struct result_id found = result_ids_find(ids, id);
    assert_int_equal(found.records, records);
    assert_int_equal(found.ok, ok);
}

static void test_records_with_an_id_are_counted(void **state)
{
    struct result_file file =
        must_read(*state, RECORD(ID_A, "ok") "\n" RECORD(ID_B, "ok") "\n" RECORD(ID_A, "oom") "\n");
    struct result_file scanned;
    struct result_ids ids = {0};
    struct status status = {0};
    assert_true(result_file_scan(&scanned, file.path, count_id, &ids, &status));
    assert_int_equal(scanned.count, 0);
    assert_int_equal(scanned.intact_bytes, file.intact_bytes);
    expect_count(&ids, ID_A, 2, 1);
    expect_count(&ids, ID_B, 1, 1);
    expect_count(&ids, "00000000000000000000000000000000", 0, 0);
    assert_int_equal(ids.count, 2);
    result_ids_free(&ids);
    result_file_close(&scanned);
    result_file_close(&file);
}

// In rounds and out of order, looked up in between.
static void test_many_ids_are_counted(void **state)
{
    (void)state;
    struct result_ids ids = {0};
    char id[33];
    for (size_t i = 0; i < 30000; i++) {
        snprintf(id, sizeof id, "%032zx", i % 10000 * 7919 % 10000);
        result_ids_add(&ids, &(struct record){.id = id,
                                              .status = i % 10000 < 5000 ? RECORD_OK
                                                        : i % 2          ? RECORD_CRASH
                                                                         : RECORD_OOM});
        if (i % 7777 == 0)
            assert_int_equal(result_ids_find(&ids, id).records, i / 10000 + 1);
    }
    for (size_t i = 0; i < 10000; i++) {
        snprintf(id, sizeof id, "%032zx", i * 7919 % 10000);
        expect_count(&ids, id, 3, i < 5000 ? 3 : 0);
    }
    assert_int_equal(ids.count, 10000);
    assert_true(ids.capacity <= 4 * ids.count);
    result_ids_free(&ids);
}

static void test_an_empty_file_has_no_records(void **state)
{
    struct result_file file = must_read(*state, "");
    assert_int_equal(file.count, 0);
    assert_int_equal(file.intact_bytes, 0);
    result_file_close(&file);
}

// A crash can cut a line anywhere: whatever is left of the second record, the first one stands.
static void test_every_torn_end(void **state)
{
    const char *second = RECORD(ID_B, "ok");
    size_t first_bytes = strlen(RECORD(ID_A, "ok") "\n");
    for (size_t length = 1; length < strlen(second); length++) {
        char text[1024];
        snprintf(text, sizeof text, "%s\n%.*s", RECORD(ID_A, "ok"), (int)length, second);
        struct result_file file = must_read(*state, text);
        assert_int_equal(file.count, 1);
        assert_int_equal(file.intact_bytes, first_bytes);
        assert_int_equal(file.bytes, first_bytes + length);
        assert_int_equal(file.torn_line, 2);
        result_file_close(&file);
    }
}

static void test_a_missing_newline_is_not_torn(void **state)
{
    struct result_file file = must_read(*state, RECORD(ID_A, "ok") "\n" RECORD(ID_B, "ok"));
    assert_int_equal(file.count, 2);
    assert_int_equal(file.torn_line, 0);
    assert_int_equal(file.intact_bytes, file.bytes);
    assert_true(file.unterminated);
    result_file_close(&file);
}

static void test_a_tail_of_zeros_is_torn(void **state)
{
    struct scratch *scratch = *state;
    char *json = quoted(RECORD(ID_A, "ok") "\n");
    size_t bytes = strlen(json);
    json = realloc(json, bytes + 100);
    assert_non_null(json);
    memset(json + bytes, 0, 100); // what some file systems leave after a power cut
    struct scratch_path path = scratch_file(scratch, "r.jsonl", json, bytes + 100);
    free(json);
    struct result_file file;
    struct status status = {0};
    assert_true(result_file_read(&file, path.text, &status));
    assert_int_equal(file.intact_bytes, bytes);
    assert_int_equal(file.torn_line, 2);
    result_file_close(&file);
}

static void test_bad_lines_are_named(void **state)
{
    expect_bad(*state, "{'step': 1, 'loss': 2.5}\n",
               "r.jsonl:1: no record, but a step as `longbp train` prints it");
    expect_bad(*state, "{'step': 0, 'evaluation_loss': 2.5}\n", "r.jsonl:1: no record, but a step");
    expect_bad(*state, RECORD(ID_A, "ok") "\n{'schema': 2,\n" RECORD(ID_B, "ok") "\n", "r.jsonl:2:");
    expect_bad(*state, RECORD(ID_A, "ok") "\nnonsense\n", "not JSON");
    expect_bad(*state, "{\"experiment\": \"e\", \"axes\": {\n  \"context\": [8]}}\n",
               "no record, but JSON over several lines");
    expect_bad(*state, "{\n  \"setting\": {},\n  \"methods\": []\n}\n",
               "no record, but JSON over several lines: result files, which `longbp run` makes of");
    expect_bad(*state, RECORD(ID_A, "ok") "\n\n", "r.jsonl:2:");
    // Without a newline, but not what a record begins with.
    expect_bad(*state, RECORD(ID_A, "ok") "\nnonsense", "r.jsonl:2:");
    expect_bad(*state, RECORD(ID_A, "ok") "\n{'schema': 22", "r.jsonl:2:");
    expect_bad(*state, "{'layers': 1", "r.jsonl:1:");
    expect_bad(*state, "{'schema': 2, 'i", "r.jsonl:1:"); // too little to be known for ours
    expect_bad(*state, "[1]\n", "r.jsonl:1: not a record: a JSON object was expected");
    expect_bad(*state, "{}\n", "r.jsonl:1: not a record: 'schema' is missing");
    expect_bad(*state, "{}", "r.jsonl:1: not a record: 'schema' is missing"); // whole, so not torn
    expect_bad(*state, "{'schema': 3}\n", "r.jsonl:1: schema 3, but this program reads schema 2");
    expect_bad(*state, "{'schema': 2, 'schema': 2}\n", "duplicate");
    expect_bad(*state, "{'schema': 2}\n", "'id' is missing");
    expect_bad(*state, "{'schema': 2, 'id': 'zz', 'experiment': 'e', 'status': 'ok', " TRIAL "}\n",
               "not 32 hexadecimal digits");
    expect_bad(*state, "{'schema': 2, 'id': '" ID_A "', 'experiment': 'e', 'status': 'fine', " TRIAL "}\n",
               "'status' is 'fine'");
    expect_bad(*state, "{'schema': 2, 'id': '" ID_A "', 'experiment': 'e', 'status': 'ok', 'trial': {}}\n",
               "'trial.dtype' is missing");
    expect_bad(*state,
               "{'schema': 2, 'id': '" ID_A "', 'experiment': 'e', 'status': 'ok', 'peak_bytes': -1, " TRIAL "}\n",
               "'peak_bytes' is not a whole number");
    expect_bad(*state,
               "{'schema': 2, 'id': '" ID_A "', 'experiment': 'e', 'status': 'ok', 'median_ms': '5', " TRIAL "}\n",
               "'median_ms' is not a number");
}

static void test_a_file_that_is_not_there(void **state)
{
    struct result_file file;
    struct status status = {0};
    assert_false(result_file_read(&file, scratch_path(*state, "absent").text, &status));
    assert_int_equal(status.code, STATUS_IO);
    assert_non_null(strstr(status.message, "absent: No such file"));
    result_file_close(&file);
    status = (struct status){0};
    assert_false(result_file_read(&file, ((struct scratch *)*state)->folder, &status));
    assert_non_null(strstr(status.message, "Is a directory"));
    result_file_close(&file);
    status = (struct status){0};
    assert_false(result_file_read(&file, "/dev/zero", &status)); // which has no end
    assert_non_null(strstr(status.message, "/dev/zero: a device"));
    result_file_close(&file);
}

// A copy of a record is no other measurement of it, in its file or in the next.
static void test_repeated_lines_count_once(void **state)
{
    struct scratch *scratch = *state;
    struct result_file files[2];
    struct line_set lines = {0};
    struct status status = {0};
    char *text = quoted(RECORD(ID_A, "ok") "\n" RECORD(ID_B, "ok") "\n" RECORD(ID_A, "ok") "\n" RECORD(
             ID_A, "oom") "\n" RECORD(ID_A, "ok")),
         *other = quoted(RECORD(ID_B, "oom") "\n" RECORD(ID_B, "ok") "\n");
    struct scratch_path path = scratch_text(scratch, "a.jsonl", text),
                        next = scratch_text(scratch, "b.jsonl", other);
    assert_true(result_file_read_next(&files[0], path.text, &lines, &status));
    assert_true(result_file_read_next(&files[1], next.text, &lines, &status));
    assert_int_equal(files[0].count, 3);
    assert_int_equal(files[0].repeated, 2);
    assert_true(files[0].unterminated);
    assert_int_equal(files[0].records[2].status, RECORD_OOM);
    assert_int_equal(files[1].count, 1);
    assert_int_equal(files[1].repeated, 1);
    result_file_close(&files[1]);
    assert_true(result_file_read(&files[1], next.text, &status)); // by itself
    assert_int_equal(files[1].count, 2);
    result_file_close(&files[1]);
    result_file_close(&files[0]);
    line_set_free(&lines);
    free(other);
    free(text);
}

static void test_many_lines_are_told_apart(void **state)
{
    (void)state;
    struct line_set lines = {0};
    for (uint32_t i = 0; i < 20000; i++)
        assert_true(line_set_add(&lines, (const char *)&i, sizeof i));
    for (uint32_t i = 0; i < 20000; i++)
        assert_false(line_set_add(&lines, (const char *)&i, sizeof i));
    assert_int_equal(lines.count, 20000);
    line_set_free(&lines);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_whole_records),
        TEST(zeros_behind_a_record_cost_only_themselves),
        TEST(test_records_with_an_id_are_counted),
        TEST(test_many_ids_are_counted),
        TEST(test_an_empty_file_has_no_records),
        TEST(test_every_torn_end),
        TEST(test_a_missing_newline_is_not_torn),
        TEST(test_a_tail_of_zeros_is_torn),
        TEST(test_bad_lines_are_named),
        TEST(test_a_file_that_is_not_there),
        TEST(test_repeated_lines_count_once),
        TEST(test_many_lines_are_told_apart),
    };
    return cmocka_run_group_tests_name("result_file", tests, NULL, NULL);
}
