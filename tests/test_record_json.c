// Tests of harness/record_json: every record that was kept is read and written again, to the byte but for the
// fields that came after it, which are null.
#define _GNU_SOURCE // getline
#include "harness/record/record_fields.h"
#include "harness/record/record_json.h"
#include "harness/record/record_read.h"
#include "tests/quoted.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static json_t *rewritten(const char *line, size_t bytes)
{
    struct record record;
    struct interned interned = {0};
    struct status status = {0};
    char *text = strndup(line, bytes);
    if (!record_read(&record, text, bytes, &interned, "line", &status))
        fail_msg("%s: %s", status.message, text);
    json_t *again = record_json(&record);
    interned_free(&interned);
    free(text);
    return again;
}

// The fields of `again` that the object has not, and that hold nothing, go; of its objects and rows too.
static void drop_new(json_t *again, const json_t *object)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;
    json_object_foreach_safe(again, next, key, value)
    {
        const json_t *own = json_object_get(object, key);
        if (own)
            drop_new(value, own);
        else if (json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0))
            json_object_del(again, key);
    }
    json_array_foreach(again, i, value) drop_new(value, json_array_get(object, i));
}

// One of the lines of a file; whether the order of its fields came back too.
static bool check_line(const char *path, size_t number, const char *line)
{
    json_t *object = json_loads(line, 0, NULL);
    assert_non_null(object);
    json_t *again = rewritten(line, strcspn(line, "\n"));
    drop_new(again, object);
    char *text = json_dumps(again, JSON_COMPACT);
    size_t length = strcspn(line, "\n");
    bool same = strlen(text) == length && memcmp(line, text, length) == 0;
    if (!same && !json_equal(object, again))
        fail_msg("%s:%zu was written as\n%s", path, number, text);
    free(text);
    json_decref(again);
    json_decref(object);
    return same;
}

static void check_file(const char *path, size_t *lines, size_t *equal)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    assert_non_null(file);
    for (size_t number = 1; getline(&line, &capacity, file) > 0; number++, ++*lines)
        *equal += check_line(path, number, line);
    free(line);
    fclose(file);
}

static void kept_records_come_back_to_the_byte(void **state)
{
    (void)state;
    static const char *const folders[] = {"results", "results/baseline"};
    size_t lines = 0, equal = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        DIR *folder = opendir(folders[i]);
        assert_non_null(folder);
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name);
            if (strstr(entry->d_name, ".jsonl"))
                check_file(path, &lines, &equal);
        }
        closedir(folder);
    }
    printf("%zu of %zu records to the byte, the others in another order of fields\n", equal, lines);
    assert_true(equal > lines / 2);
}

static void what_is_not_there_is_null(void **state)
{
    (void)state;
    struct record record;
    record_clear(&record);
    assert_true(isnan(record.peak_bytes) && isnan(record.trial.context) && isnan(record.gradient.relative_l2));
    assert_true(isnan(record.peak_by_category[0]) && isnan(record.trial.limits->memory));
    assert_null(record.id);
    assert_null(record.provenance.card);
    assert_int_equal(record.trial.deterministic, -1);
    assert_int_equal(record.status, RECORD_STATUS_COUNT);
    assert_false(record.gradient.given || record.trial.given || record.sm_clock_mhz->given);
    assert_int_equal(record.samples_ms.count + record.gradient.tensors.count + record.categories->rows.count, 0);
}

static void members_are_read_by_type(void **state)
{
    (void)state;
    char *text = quoted(
        "{'schema': 2, 'id': '0123456789abcdef0123456789abcdef', 'experiment': 'e', "
        "'status': 'oom', 'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 64, 'deterministic': "
        "true, 'limits': {'memory': 7}, 'method': "
        "{'name': 'seco'}}, 'samples_ms': [1.5, 2], 'peak_by_category': {'weights': 3}, 'gradient': "
        "{'hash': '0123456789abcdef', 'tensors': {'a': {'max_abs': 0.5}, 'b': {}}}, 'categories': {'rows': "
        "[{'shape': [2, 3, 4], 'ms': 0.25}]}}");
    struct interned interned = {0};
    struct status status = {0};
    struct record record;
    assert_true(record_read(&record, text, strlen(text), &interned, "line", &status));
    assert_int_equal(record.status, RECORD_OOM);
    assert_true(record.trial.context == 64 && record.trial.deterministic == 1 && record.trial.limits->memory == 7);
    assert_string_equal(json_string_value(json_object_get(record.trial.method, "name")), "seco");
    assert_true(record.samples_ms.count == 2 && record.samples_ms.items[1] == 2);
    assert_true(record.peak_by_category[CATEGORY_WEIGHTS] == 3 && isnan(record.peak_by_category[CATEGORY_LOGITS]));
    assert_true(record.gradient.hash == 0x0123456789abcdef);
    const struct record_tensor *tensors = record.gradient.tensors.items;
    assert_int_equal(record.gradient.tensors.count, 2);
    assert_string_equal(record.gradient.tensors.names[1], "b");
    assert_true(tensors[0].max_abs == 0.5 && isnan(tensors[1].max_abs));
    const struct record_row *rows = record.categories->rows.items;
    assert_true(record.categories->rows.count == 1 && rows[0].shape.items[2] == 4 && rows[0].ms == 0.25);
    interned_free(&interned);
    free(text);
}

// Every kind of number may be a list, of a value per sample or per rank.
static void numbers_may_be_lists(void **state)
{
    (void)state;
    static const enum field_type numbers[] = {FIELD_COUNT, FIELD_SIZE, FIELD_WHOLE, FIELD_POSITIVE, FIELD_NUMBER};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct record_field one = {.type = numbers[i]}, list = {.type = numbers[i], .list = true};
        assert_string_not_equal(field_type_name(&one), field_type_name(&list));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_records_come_back_to_the_byte),
        cmocka_unit_test(what_is_not_there_is_null),
        cmocka_unit_test(members_are_read_by_type),
        cmocka_unit_test(numbers_may_be_lists),
    };
    return cmocka_run_group_tests_name("record_json", tests, NULL, NULL);
}
