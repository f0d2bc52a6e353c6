// Interconnects: those that come with the program, wrong files, and files written and read again.
#define _GNU_SOURCE // nftw
#include "harness/profile/profile.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void those_that_come_with_the_program_are_read(void **state)
{
    (void)state;
    struct named_files files;
    interconnect_list(&files);
    assert_true(files.names.count >= 5);
    for (size_t i = 0; i < files.names.count; i++) {
        struct interconnect interconnect;
        struct status status = {0};
        if (!interconnect_load(&interconnect, files.names.items[i], &status))
            fail_msg("%s", status.message);
        assert_string_equal(interconnect.name, files.names.items[i]);
        assert_true(interconnect_reach(&interconnect, 100000, &status));
        for (size_t l = 1; l < interconnect.count; l++)
            assert_true(interconnect.levels[l].bytes_per_s.value < interconnect.levels[l - 1].bytes_per_s.value);
    }
    struct profile profile;
    struct status status = {0};
    assert_true(profile_load(&profile, "h100-80g", &status));
    assert_int_equal(profile.interconnect.count, 2);
    assert_ptr_equal(interconnect_between(&profile.interconnect, 0, 7), &profile.interconnect.levels[0]);
    assert_ptr_equal(interconnect_between(&profile.interconnect, 7, 8), &profile.interconnect.levels[1]);
    assert_true(profile_load(&profile, "rtx-3090", &status));
    assert_false(interconnect_reach(&profile.interconnect, 3, &status));
    assert_non_null(strstr(status.message, "interconnect rtx-3090 joins 2 ranks, but the trial has 3"));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
}

#define RATE     "'bytes_per_s': {'value': 10, 'source': 'a'}"
#define LATENCY  "'latency_s': {'value': 0.5, 'source': 'b'}"
#define NEAR(n)  "{'name': 'near', 'ranks': " n ", " RATE ", " LATENCY "}"
#define FAR      "{'name': 'far', " RATE ", " LATENCY "}"
#define OF(list) "{'name': 'l', 'interconnect':\n" list "}"

static bool load(const struct scratch *scratch, const char *json, struct interconnect *interconnect,
                 struct status *status)
{
    char *text = quoted(json);
    struct scratch_path path = scratch_file(scratch, "l.json", text, strlen(text));
    bool ok = interconnect_load(interconnect, path.text, status);
    free(text);
    return ok;
}

static void bad_files_are_refused_with_the_place(void **state)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{}", "l.json:1:1: key 'name': missing; expected a name for the interconnect"},
        {"{'name': 'l'}", "key 'interconnect': missing; expected a list of levels"},
        {OF("[]"), "l.json:2:1: key 'interconnect': expected a list of 1 to 4 levels, the nearest first"},
        {OF("[3]"), "expected an object with the keys: name, ranks, bytes_per_s, latency_s"},
        {OF("[{'name': 'far', " RATE "}]"), "key 'latency_s': missing"},
        {OF("[" FAR ", " FAR "]"), "key 'ranks': missing; the last level alone joins all ranks"},
        {OF("[" NEAR("1") "]"), "a whole number"},
        {OF("[" NEAR("8") ", " NEAR("8") "]"), "found 8"},
        {OF("[" NEAR("8") ", " NEAR("12") "]"), "expected a multiple of the 8 of the level before it, found 12"},
        {OF("[{'name': 'far', 'bytes_per_s': {'value': 0, 'source': 'a'}, " LATENCY "}]"), "found 0"},
        {OF("[{'name': 'far', " RATE ", 'latency_s': {'value': -1, 'source': 'a'}}]"), "found -1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct interconnect interconnect;
        struct status status = {0};
        char *expected = quoted(cases[i].message);
        assert_false(load(*state, cases[i].json, &interconnect, &status));
        assert_int_equal(status.code, STATUS_BAD_INPUT);
        if (!strstr(status.message, expected))
            fail_msg("%s: expected \"%s\" in: %s", cases[i].json, expected, status.message);
        free(expected);
    }
    struct interconnect interconnect;
    struct status status = {0};
    assert_false(interconnect_load(&interconnect, "infinyband", &status));
    assert_non_null(strstr(status.message,
                           "no interconnect \"infinyband\" in experiments/interconnects; did you mean "
                           "\"infiniband\"? known interconnects: ethernet-100g"));
}

static void what_is_written_is_read_again(void **state)
{
    struct interconnect interconnect, again;
    struct status status = {0};
    if (!load(*state, OF("[" NEAR("8") ", " FAR "]"), &interconnect, &status))
        fail_msg("%s", status.message);
    json_t *object = json_pack("{s:s, s:o}", "name", "l", "interconnect", interconnect_json(&interconnect));
    char *text = json_dumps(object, 0);
    struct scratch_path path = scratch_file(*state, "again.json", text, strlen(text));
    assert_true(interconnect_load(&again, path.text, &status));
    assert_memory_equal(&again, &interconnect, sizeof interconnect);
    free(text);
    json_decref(object);
}

// When a rank of several machines exchanges with all others, each kind of links carries the bytes of the ranks
// behind it, at once; both directions are independent.
static void each_kind_of_links_has_its_share(void **state)
{
    static const struct {
        size_t rank, first, stride, size;
        double sent, received, seconds;
    } cases[] = {
        {0, 0, 1, 4, 30, 10, 0.5 + 30.0 / 10},           // one machine
        {9, 0, 1, 16, 10, 30, 0.5 + 30 * 8.0 / 15 / 10}, // 7 of 15 within it
        {9, 0, 1, 12, 30, 30, 0.5 + 30 * 8.0 / 11 / 10}, // 3 of 11 within the last one
        {0, 0, 8, 4, 30, 30, 0.5 + 30.0 / 10},           // one of each of four machines
        {0, 0, 4, 4, 30, 30, 0.5 + 30 * 2.0 / 3 / 10},   // two of each of two
        {0, 0, 1, 1, 30, 30, 0},
    };
    struct interconnect interconnect;
    struct status status = {0};
    assert_true(load(*state, OF("[" NEAR("8") ", " FAR "]"), &interconnect, &status));
    for (size_t i = 0; i < COUNT(cases); i++) {
        double seconds = interconnect_seconds(&interconnect, cases[i].rank, cases[i].first, cases[i].stride,
                                              cases[i].size, cases[i].sent, cases[i].received);
        if (fabs(seconds - cases[i].seconds) > 1e-12)
            fail_msg("%zu: %.17g s, expected %.17g", i, seconds, cases[i].seconds);
    }
    interconnect.levels[0].bytes_per_s.value = 1; // the near ones are what takes longest
    assert_true(fabs(interconnect_seconds(&interconnect, 9, 0, 1, 16, 30, 30) - (0.5 + 30 * 7.0 / 15)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_come_with_the_program_are_read),
        cmocka_unit_test_setup_teardown(bad_files_are_refused_with_the_place, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_again, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(each_kind_of_links_has_its_share, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
