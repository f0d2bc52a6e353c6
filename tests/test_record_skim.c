// Tests of the record skim: what it reads is what the record's JSON says, it takes nothing that record_check
// refuses, and of the records that are kept it reads every one.
#define _GNU_SOURCE // getline
#include "harness/record/record_check.h"
#include "harness/record/record_json.h"
#include "harness/record/record_skim.h"
#include "kernels/base/random.h"
#include "tests/quoted.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Whether the line was skimmed; if so, as its JSON is read.
static bool expect_same(const char *line, size_t bytes)
{
    struct interned interned = {0};
    struct record record, slow;
    struct status status = {0};
    bool skimmed = record_skim(&record, line, bytes, &interned);
    json_t *object = skimmed ? json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (skimmed && !record_check(object, "line", &status))
        fail_msg("%s: %.*s", status.message, (int)bytes, line);
    if (skimmed) {
        record_read(&slow, object);
        json_t *both[2] = {record_json(&record), record_json(&slow)};
        if (!json_equal(both[0], both[1]))
            fail_msg("%s\nis not %.*s", json_dumps(both[0], JSON_COMPACT), (int)bytes, line);
        json_decref(both[0]);
        json_decref(both[1]);
        record_free(&slow);
    }
    json_decref(object);
    record_free(&record);
    interned_free(&interned);
    return skimmed;
}

static void check_file(const char *path, size_t *lines)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    assert_non_null(file);
    for (ssize_t bytes; (bytes = getline(&line, &capacity, file)) > 0; ++*lines)
        if (!expect_same(line, (size_t)bytes - 1))
            fail_msg("%s: line %zu of all takes a closer look", path, *lines);
    free(line);
    fclose(file);
}

static void kept_records_are_skimmed(void **state)
{
    (void)state;
    static const char *const folders[] = {"results", "results/baseline"};
    size_t lines = 0;
    for (size_t i = 0; i < COUNT(folders); i++) {
        DIR *folder = opendir(folders[i]);
        assert_non_null(folder);
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name);
            if (strstr(entry->d_name, ".jsonl"))
                check_file(path, &lines);
        }
        closedir(folder);
    }
    assert_true(lines > 1000);
}

// Every type of field.
static const char sample[] =
    "{'schema': 2, 'id': '0123456789abcdef0123456789abcdef', 'experiment': 'a \\\\'b\\\\' \\\\\\\\ \\\\n', "
    "'status': "
    "'ok', 'reason': null, 'trial': {'model': {'layers': 1}, 'dtype': 'f64', 'device': 'cpu', 'batch': 1, "
    "'context': 64, 'tf32': false, 'method': {'name': 'seco', 'chunk': 8}, 'measure': {'max_seconds': 1.5}, "
    "'documents': [3, 4], 'limits': {'memory': null}}, 'loss': -1.25e-3, 'columns': [1, 2], 'samples_ms': [1.5, "
    "2], "
    "'sample_columns': [2, 3], 'slowdown': [1.5, 2.25], 'peak_by_category': {'weights': 3}, 'flops': 12, "
    "'gradient': {'hash': "
    "'0123456789abcdef', 'tensors': {'a': {'max_abs': 0.5}, 'b': {}}}, 'categories': {'rows': [{'shape': [2, 3, "
    "4], "
    "'ms': 0.25}]}, 'timeline': {'events': [[1, 2]]}, 'provenance': {'dirty': true}}";

static char *sample_line(void)
{
    char *line = quoted(sample);
    for (char *at; (at = strstr(line, "\\\\\""));) // quoted() makes a quote of what is escaped
        memmove(at, at + 1, strlen(at));
    return line;
}

static void every_type_is_read(void **state)
{
    (void)state;
    char *line = sample_line();
    assert_true(expect_same(line, strlen(line)));
    for (size_t bytes = 0; bytes < strlen(line); bytes++) {
        char *cut = strndup(line, bytes);
        assert_false(expect_same(cut, bytes));
        free(cut);
    }
    free(line);
}

// A closer look is taken of what record_check refuses, or what this program does not write.
static void others_take_a_closer_look(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to; // of one length
    } changes[] = {
        {"'schema': 2", "'schema': 3"},
        {"'id': '0", "'id': 'g"},
        {"'ok'", "'OK'"},
        {"'batch': 1", "'batch': 0"},
        {"'batch': 1", "'Batch': 1"},
        {"'context': 64", "'context': -1"},
        {"'context': 64", "'context': .5"},
        {"'memory': null", "'memory': true"},
        {"'tf32': false", "'tf32': 'no' "},
        {"'name': 'seco'", "'none': 'seco'"},
        {"[1.5, 2]", "[1.5, 0]"},
        {"[1.5, 2]", "[1.5]   "},
        {"[2, 3], ", "[2]   , "},
        {"'sample_columns': [2, 3]", "'sample_columns': []    "},
        {"[1.5, 2.25]", "[1.5]      "},
        {"'slowdown': [1.5, 2.25]", "'slowdown': []         "},
        {"'weights': 3", "'weighty': 3"},
        {"'weights': 3", "'weights':-3"},
        {"'b': {}", "'a': {}"},
        {"'hash': '0", "'hash': 'G"},
        {"'loss': -1.25e-3", "'flops': 1.25e-3"},
        {"'documents': [3, 4]", "'batch':          1"},
        {"[[1, 2]]", "{'a': 1}"},
        {"'dirty': true", "'dirty': 1   "},
        {"{'layers': 1}", "{'a':1,'a':1}"},
    };
    char *line = sample_line();
    for (size_t i = 0; i < COUNT(changes); i++) {
        char *from = quoted(changes[i].from), *to = quoted(changes[i].to), *text = strdup(line);
        char *at = strstr(text, from);
        assert_true(at && strlen(from) == strlen(to));
        memcpy(at, to, strlen(to));
        if (expect_same(text, strlen(text)))
            fail_msg("skimmed: %s", text);
        free(text);
        free(to);
        free(from);
    }
    free(line);
}

// Bytes of the sample are changed, and pieces of it repeated, left out and put elsewhere.
static void changed_lines_are_judged_as_their_json(void **state)
{
    (void)state;
    static const char signs[] = "\"\\{}[]:,0123456789.-+eEtfnu \n\x01\x80";
    struct random random = random_named(1, "bytes");
    char *line = sample_line();
    size_t length = strlen(line), skimmed = 0, draw = 0;
    for (size_t i = 0; i < 10000; i++) {
        char *text = strdup(line);
        for (size_t change = 0; change <= i % 3; change++, draw += 3) {
            size_t at = random_below(&random, draw, length), from = random_below(&random, draw + 1, length);
            size_t most = length - (at > from ? at : from);
            if (i % 2)
                memmove(text + at, line + from, random_below(&random, draw + 2, most < 40 ? most : 40));
            else
                text[at] = signs[random_below(&random, draw + 1, sizeof signs - 1)];
        }
        skimmed += expect_same(text, length);
        free(text);
    }
    printf("%zu of 10000 changed lines were skimmed\n", skimmed);
    assert_true(skimmed > 150 && skimmed < 9850);
    free(line);
}

static void the_same_is_kept_once(void **state)
{
    (void)state;
    struct interned interned = {0};
    char text[16];
    const char *first = interned_text(&interned, "text 7", 6);
    const json_t *list = interned_json(&interned, "[1, 2]", 6);
    for (size_t i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "text %zu", i);
        assert_string_equal(interned_text(&interned, text, strlen(text)), text);
    }
    assert_ptr_equal(interned_text(&interned, "text 77", 6), first);
    assert_string_equal(first, "text 7");
    assert_ptr_equal(interned_json(&interned, "[1, 2]", 6), list);
    struct interned_item *later = interned_item(&interned, "[3]", 3);
    assert_int_equal(json_array_size(list), 2);
    assert_null(interned_json(&interned, "{\"a\": 1, \"a\": 1}", 16));
    assert_null(interned_json(&interned, "[1, 2", 5));
    char *large = calloc(1, 200000);
    memset(large, 'x', 199999);
    assert_string_equal(interned_text(&interned, large, 199999), large);
    free(large);
    interned_finish(&interned);
    assert_int_equal(json_array_size(interned_item_json(later)), 1);
    assert_string_equal(first, "text 7");
    interned_free(&interned);
}

// Records of rounds with the same bits have their arrays, and what stands apart, in memory once.
static void records_have_what_is_alike_in_memory_once(void **state)
{
    (void)state;
    struct interned interned = {0};
    struct record records[3];
    char *line = sample_line();
    for (size_t i = 0; i < COUNT(records); i++) {
        char *hash = i == 2 ? strstr(line, "\"max_abs\"") : NULL; // of a tensor
        if (hash)
            memcpy(strstr(hash, "0.5"), "0.6", 3);
        assert_true(record_skim(&records[i], line, strlen(line), &interned));
    }
    const struct record_parts *first = &records[0].gradient.tensors, *second = &records[1].gradient.tensors,
                              *third = &records[2].gradient.tensors;
    assert_int_equal(first->count, 2);
    assert_ptr_equal(first->items, second->items);
    assert_ptr_not_equal(first->items, third->items);
    assert_ptr_equal(first->names, third->names);
    assert_ptr_equal(records[0].samples_ms.items, records[2].samples_ms.items);
    assert_ptr_equal(records[0].categories, records[2].categories);
    assert_ptr_equal(records[0].peak_by_category, records[2].peak_by_category);
    for (size_t i = 0; i < COUNT(records); i++)
        record_free(&records[i]); // frees nothing of theirs
    free(line);
    interned_free(&interned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_records_are_skimmed),  cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(others_take_a_closer_look), cmocka_unit_test(changed_lines_are_judged_as_their_json),
        cmocka_unit_test(the_same_is_kept_once),     cmocka_unit_test(records_have_what_is_alike_in_memory_once),
    };
    return cmocka_run_group_tests_name("record_skim", tests, NULL, NULL);
}
