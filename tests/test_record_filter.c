// Tests of --where: the records that a condition keeps, and messages about impossible ones.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/quoted.h"

#define RECORD(digit, device, context, method, peak)                                                               \
    "{'schema': 2, 'id': '" digit "123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'ok', 'trial': " \
    "{'model': 'tiny', 'dtype': 'f32', 'device': '" device "', 'batch': 1, 'context': " context ", 'method': "     \
    "{'name': " method "}}, 'peak_bytes': " peak "}\n"

static int write_four(void **state)
{
    int failed = scratch_setup(state);
    char *json = quoted(
        RECORD("a", "cpu", "64", "'full'", "2048") RECORD("b", "cpu", "32", "'seco', 'chunk': 8", "1024")
            RECORD("c", "cpu", "64", "'seco', 'chunk': 16", "3072") RECORD("d", "plan-cpu", "64", "'full'", "512"));
    scratch_file(*state, "r.jsonl", json, strlen(json));
    free(json);
    return failed;
}

static void rows_are_those_of_which_all_holds(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *where, *ids;
    } cases[] = {{"method=seco", "bc"},
                 {"method=seco,full", "abcd"},
                 {"chunk=8,16 --where context=64", "c"},
                 {"trial.device=plan-cpu", "d"},
                 {"chunk=null", "ad"},
                 {"peak_bytes=2048.0", "a"},
                 {"status=oom,ok", "abcd"},
                 {"context=0.0625K", "acd"},
                 {"trial.context=0.03125k,64", "abcd"},
                 {"chunk=0.015625K", "c"},
                 {"method=seco --where chunk=null,16", "c"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "$L report r.jsonl --format csv --columns id --where %s | tail -n +2 | cut -c1 | tr -d '\\n'",
                 cases[i].where);
        assert_int_equal(run(scratch, command), 0);
        char *ids = text_of(scratch, "out");
        assert_string_equal(ids, cases[i].ids);
        free(ids);
    }
}

static void what_cannot_be_meant_is_refused(void **state)
{
    const struct scratch *scratch = *state;
    assert_refused(scratch, "$L report r.jsonl --where method=none");
    assert_refused(scratch, "$L report r.jsonl --where method=seco --where chunk=32");
    assert_refused(scratch, "$L report r.jsonl --where chunk=32");
    assert_refused(scratch, "$L report r.jsonl --html r.html --where method=none");
    assert_refused(scratch, "$L history r.jsonl --where method=none");
    assert_refused(scratch, "$L report r.jsonl --where context=32K");
    assert_refused(scratch, "$L report r.jsonl --where peak_bytes=2K");
    assert_refused(scratch, "$L report r.jsonl --where model=32K");
    assert_refused(scratch, "$L report r.jsonl --where method");
    assert_refused(scratch, "$L report r.jsonl --where metod=seco");
    assert_refused(scratch, "$L report r.jsonl --where setting=full");
}

static void a_condition_is_no_value_of_a_list(void **state)
{
    const struct scratch *scratch = *state;
    assert_refused(scratch, "$L report r.jsonl --where method=seco,chunk=8");
    assert_refused(scratch, "$L history r.jsonl --where method=seco,chunk=8");
    assert_refused(scratch, "$L report r.jsonl --where status=ok,oom,trial.method.chunk=8,16,dtype=f32");
    // Alone it is a value that no record has.
    assert_refused(scratch, "$L report r.jsonl --where method=chunk=8");
}

// Whatever the other conditions leave of them.
static void each_value_of_a_list_is_some_records(void **state)
{
    const struct scratch *scratch = *state;
    assert_refused(scratch, "$L report r.jsonl --where method=seco,chonk=8");
    assert_refused(scratch, "$L report r.jsonl --where chunk=8,32,16");
    assert_refused(scratch, "$L plot r.jsonl --where chunk=8,32,16 --out p");
    assert_refused(scratch, "$L report r.jsonl --where chunk=32,64");
    assert_refused(scratch, "$L report r.jsonl --where status=ok,okay");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, write_four, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_are_those_of_which_all_holds),
        TEST(what_cannot_be_meant_is_refused),
        TEST(a_condition_is_no_value_of_a_list),
        TEST(each_value_of_a_list_is_some_records),
    };
    return cmocka_run_group_tests_name("record filter", tests, NULL, NULL);
}
