// Tests of the readers of specs: JSON files and positions in them, corrections of names, sizes in bytes.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/json/json_source.h"
#include "harness/text/names.h"
#include "harness/text/size.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {
        {"24gb", 24000000000},
        {"24 gib", (size_t)24 << 30},
        {"24g", (size_t)24 << 30},
        {"3b", 3},
        {"24GiB", 25769803776},
        {"24 GiB", 25769803776},
        {"24G", 25769803776},
        {"24GB", 24000000000},
        {"2K", 2048},
        {"1.5 M", 1572864},
        {"1T", 1099511627776},
        {"4096B", 4096},
        {"512MiB", 536870912},
        {"1.5 GB", 1500000000},
        {"1024B", 1024},
        {"1 B", 1},
        {"3kB", 3000},
        {"3KB", 3000},
        {"2KiB", 2048},
        {"0.5KiB", 512},
        {"2TB", 2000000000000},
        {"1TiB", 1099511627776},
        {"9 MB", 9000000},
        {"1.23456 GB", 1234560000},
        {"0.1 MiB", 104857},
    };
    static const char *const bad[] = {
        "",      "GiB",   "-1GiB",       "24Gib",  "1e9",  "0x10",  "inf",    "nan",
        "0",     "0GiB",  "24",          "24 ",    "1.GB", ".5GB",  "1..5GB", "24GiB ",
        " 24GB", "1,5GB", "99999999TiB", "1 GB\n", "1.5",  "0.9 B", "1.5B",   "0.0000000000000000001GB",
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        size_t bytes = 0;
        if (!size_parse(good[i].text, &bytes) || bytes != good[i].bytes)
            fail_msg("\"%s\": %zu bytes", good[i].text, bytes);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        size_t bytes = 0;
        if (size_parse(bad[i], &bytes))
            fail_msg("accepted \"%s\" as %zu bytes", bad[i], bytes);
    }
    // The wrong part: its size, or its words.
    assert_string_equal(size_expected("0GiB"), "a size of 1B to 8192TiB");
    assert_string_equal(size_expected("99999999TiB"), "a size of 1B to 8192TiB");
    assert_non_null(strstr(size_expected("24"), "with its unit"));
    assert_non_null(strstr(size_expected(NULL), "with its unit"));
}

static void the_nearest_name_is_the_one_meant(void **state)
{
    (void)state;
    const struct names names = {7, {"full", "checkpoint", "streambp", "seco", "spaco", "llama-3-8b", "qwen3-4b"}};
    static const struct {
        const char *found, *nearest;
    } cases[] = {
        {"sceo", "seco"},
        {"sec", "seco"},
        {"SECO", "seco"},
        {"streambq", "streambp"},
        {"ful", "full"},
        {"llama", "llama-3-8b"},
        {"lama", "llama-3-8b"},
        {"check", "checkpoint"},
        {"stream_bp", "streambp"},
        {"llama3-8b", "llama-3-8b"},
        {"spcao", "spaco"},
        {"qwen3-4", "qwen3-4b"},
        {"chekpoint", "checkpoint"},
        {"checkpointing", "checkpoint"},
        {"qwen3_4b", "qwen3-4b"},
        // Another number, another size or another thing is no misspelling.
        {"qwen3-8b", NULL},
        {"qwen3-30b-a3b", NULL},
        {"llama-3.1-8b", NULL},
        {"llama-3-70b", NULL},
        {"fuse", NULL},
        {"s", NULL},
        {"xyz", NULL},
        {"", NULL},
        {"q", NULL},
        {"toolongtobeanynamethatwemighthavemeantbyitsletters", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *nearest = names_nearest(&names, cases[i].found);
        if (nearest != cases[i].nearest && (!nearest || !cases[i].nearest || strcmp(nearest, cases[i].nearest)))
            fail_msg("\"%s\": %s", cases[i].found, nearest ? nearest : "none");
    }
    char text[64];
    names_hint(&names, "sceo", "known methods", text, sizeof text); // cut, not overrun
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_memory_equal(text, "did you mean \"seco\"? known methods: full, ", 42);
}

static void of_several_beginnings_none_is_meant(void **state)
{
    (void)state;
    const struct names names = {6, {"llama-3-8b", "llama-3-70b", "qwen3-14b", "adamw", "bf16", "silu"}};
    static const char *const found[] = {"llama", "llama-3", "qwen3-1", "adam", "f16", "gelu"};
    for (size_t i = 0; i < COUNT(found); i++)
        if (names_nearest(&names, found[i]))
            fail_msg("\"%s\": %s", found[i], names_nearest(&names, found[i]));
    assert_string_equal(names_nearest(&names, "bfloat16"), "bf16");
    assert_string_equal(names_nearest(&names, "qwen"), "qwen3-14b");
}

static void every_path_leads_to_its_line_and_column(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": {\"]}\\\"\": [1, [2, 3],\n"
                               "   {\"\xc3\xa9\xe2\x82\xac\": 5, \"b\" : -6.5e1}, \"x\"]},\n"
                               "\n"
                               " \"\\u0062\":null}";
    struct json_source source;
    struct status status = {0};
    assert_true(json_source_parse(&source, "t.json", text, strlen(text), &status));
    const struct json_path root = {0};
    struct json_path list = json_path_key(json_path_key(root, "a"), "]}\"");
    const struct {
        struct json_path path;
        enum json_part part;
        size_t line, column;
    } cases[] = {
        {root, JSON_VALUE, 1, 1},
        {json_path_key(root, "a"), JSON_KEY, 1, 2},
        {json_path_key(root, "a"), JSON_VALUE, 1, 7},
        {list, JSON_VALUE, 1, 16},
        {json_path_index(list, 0), JSON_VALUE, 1, 17},
        {json_path_index(json_path_index(list, 1), 1), JSON_VALUE, 1, 24},
        {json_path_key(json_path_index(list, 2), "b"), JSON_KEY, 2, 14}, // columns count characters, not bytes
        {json_path_key(json_path_index(list, 2), "b"), JSON_VALUE, 2, 20},
        {json_path_index(list, 3), JSON_VALUE, 2, 29},
        {json_path_key(root, "b"), JSON_KEY, 4, 2}, // written with an escape
        {json_path_key(root, "b"), JSON_VALUE, 4, 11},
        {json_path_key(json_path_key(root, "a"), "none"), JSON_VALUE, 1, 7}, // not there: the object around
        {json_path_index(list, 9), JSON_VALUE, 1, 16},
        {json_path_key(json_path_key(root, "b"), "c"), JSON_KEY, 4, 11},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t line, column;
        json_source_locate(&source, cases[i].path, cases[i].part, &line, &column);
        if (line != cases[i].line || column != cases[i].column)
            fail_msg("case %zu: %zu:%zu, expected %zu:%zu", i, line, column, cases[i].line, cases[i].column);
    }
    json_source_close(&source);
}

static void a_path_too_deep_has_the_place_around(void **state)
{
    (void)state;
    const char *text = "[[[[[[[[[[[7]]]]]]]]]]]";
    struct json_source source;
    struct status status = {0};
    assert_true(json_source_parse(&source, "t.json", text, strlen(text), &status));
    struct json_path path = {0};
    for (size_t i = 0; i < 11; i++)
        path = json_path_index(path, 0);
    size_t line, column;
    json_source_locate(&source, path, JSON_VALUE, &line, &column);
    assert_int_equal(column, 1 + JSON_PATH_DEPTH);
    json_source_close(&source);
}

static void bad_texts_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "t:1:1: empty; expected a JSON object"},
        {" \n\t", "t:1:1: empty"},
        {"5", "t:1:1: not valid JSON"},
        {"{", "t:1:2: the text ends too early"},
        {"{'a': 1,\n}", "t:2:1: not valid JSON here; look for a missing or extra comma"},
        {"{'a': tru}", "t:1:7: not valid JSON"},
        {"{'a': 01}", "t:1:7: not valid JSON"},
        {"{'a': 1}\n{", "t:2:1: text after the end of the value"},
        {"{} // c", "t:1:4: text after the end of the value"},
        {"{'a': 1, // c\n}",
         "t:1:10: not valid JSON here; look for a missing or extra comma, quote or bracket, or a comment"},
        {"{'a': 1,\n  'a': 2}", "t:2:3: the key is given twice; keep one: duplicate object key"},
        {"{'a':\n '\xc3\x28'}", "t:2:3: not UTF-8; save the file as UTF-8"},
        {"\xef\xbb\xbf{}", "t:1:1: begins with a byte order mark"},
        {"['\\u0000']", "\\u0000 cannot be part of a name or path"},
        {"['\\ud800']", "t:1:2: not valid JSON"},
        {"['a\xc2\x9b\x01']", "a??"}, // nothing that a terminal obeys
        {"[1e400]", "t:1:2: the number is too large"},
        {"{\"a\": [1,\n Infinity]}", "t:2:2: not a number of JSON; write a finite one, or null"},
        {"[-Infinity]", "t:1:2: not a number of JSON"},
        {"[NaN]", "t:1:2: not a number of JSON"},
        {"[99999999999999999999]", "t:1:2: the number is too large; whole numbers go to 2^53"},
        {"[-99999999999999999999]", "t:1:2: the number is too large"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_source source;
        struct status status = {0};
        char *text = quoted(cases[i].text);
        if (json_source_parse(&source, "t", text, strlen(text), &status))
            fail_msg("accepted %s", text);
        if (!strstr(status.message, cases[i].message))
            fail_msg("expected \"%s\"\n   found \"%s\"\n   in %s", cases[i].message, status.message, text);
        assert_int_equal(status.code, STATUS_BAD_INPUT);
        json_source_close(&source);
        free(text);
    }
}

static void expect_bad_file(const char *path, const char *message)
{
    struct json_source source;
    struct status status = {0};
    if (json_source_open(&source, path, &status))
        fail_msg("accepted %s", path);
    if (!strstr(status.message, message))
        fail_msg("expected \"%s\"\n   found \"%s\"", message, status.message);
    json_source_close(&source);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct scratch scratch = scratch_open();
    struct scratch_path path = scratch_file(&scratch, "huge", "{", 1);
    assert_int_equal(truncate(path.text, 100 << 20), 0);
    expect_bad_file(path.text, "huge: more than 8388608 bytes (is this the right file?)");

    static char deep[5000];
    memset(deep, '[', sizeof deep);
    path = scratch_file(&scratch, "deep", deep, sizeof deep);
    expect_bad_file(path.text, "deep:1:2049: nested too deeply");
    expect_bad_file(scratch_file(&scratch, "empty", "", 0).text, "empty:1:1: empty; expected a JSON object");
    expect_bad_file(scratch_file(&scratch, "zero", "{\"a\n\0\"}", 7).text, "zero:2:1: a zero byte");
    expect_bad_file(scratch_file(&scratch, "wide", "\xff\xfe{\0}\0", 6).text, "wide:1:4: a zero byte");
    expect_bad_file(scratch_file(&scratch, "latin", "[\"\xe9t\xe9\"]", 7).text, "latin:1:3: not UTF-8");
    expect_bad_file(scratch.folder, "is a folder; expected a JSON file");
    expect_bad_file("/dev/null", "/dev/null: is not a regular file");
    expect_bad_file("no/such.json", "no/such.json: cannot be opened: No such file or directory");
    expect_bad_file("", "cannot be opened");

    path = scratch_path(&scratch, "pipe");
    assert_int_equal(mkfifo(path.text, 0600), 0);
    expect_bad_file(path.text, "is not a regular file"); // and nobody waits for a writer

    path = scratch_file(&scratch, "secret", "{}", 2);
    assert_int_equal(chmod(path.text, 0), 0);
    if (access(path.text, R_OK) != 0) // root reads everything
        expect_bad_file(path.text, "cannot be opened: Permission denied");
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(the_nearest_name_is_the_one_meant),
        cmocka_unit_test(of_several_beginnings_none_is_meant),
        cmocka_unit_test(every_path_leads_to_its_line_and_column),
        cmocka_unit_test(a_path_too_deep_has_the_place_around),
        cmocka_unit_test(bad_texts_are_refused_with_the_place),
        cmocka_unit_test(bad_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
