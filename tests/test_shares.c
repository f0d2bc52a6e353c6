// Shares: a budget that a spec gives as a share of the chunks, "25%", runs as a number of them, which depends on
// the context; in records, tables, conditions and comparisons it stays a share.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/words.h"

// 7 and 16 chunks: of the shorter context half is as many as a quarter of the longer one, 4.
static const char spec[] = "{\"experiment\": \"e\", \"model\": \"tiny\", \"device\": \"plan-cpu\", \"axes\": "
                           "{\"context\": [112, 256], \"method\": "
                           "[{\"name\": \"spaco\", \"chunk\": [16], \"budget\": [\"50%\", \"100%\", \"25%\"]}]}}";

static void sweep(const struct scratch *scratch)
{
    scratch_text(scratch, "s.json", spec);
    assert_int_equal(run(scratch, "$L run s.json --out r.jsonl"), 0);
    assert_says(scratch, "err", "6 of 6 trials done");
}

static void expect_printed(const struct scratch *scratch, const char *command, const char *const *words)
{
    assert_int_equal(run(scratch, command), 0);
    char *text = squeezed(text_of(scratch, "out"));
    expect_words(text, words);
    free(text);
}

static void rows_say_the_share(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const rows[] = {"budget 25%, context 112 ",
                                       "budget 50%, context 112 ",
                                       "budget 100%, context 112 ",
                                       "budget 25%, context 256 ",
                                       "budget 50%, context 256 ",
                                       "budget 100%, context 256 ",
                                       NULL};
    // The number beside it.
    static const char *const numbers[] = {
        "112,4,50%\r\n112,7,100%\r\n112,2,25%\r\n256,8,50%\r\n256,16,100%\r\n256,4,25%\r\n", NULL};
    sweep(scratch);
    expect_printed(scratch, "$L report r.jsonl", rows);
    expect_printed(scratch, "$L report r.jsonl --format csv --columns context,budget,shares.budget", numbers);
}

static void conditions_take_the_share_or_the_number(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const quarters[] = {"112,2\r\n256,4\r\n", NULL}, *const fours[] = {"112,4\r\n256,4\r\n",
                                                                                          NULL};
    sweep(scratch);
    expect_printed(scratch, "$L report r.jsonl --format csv --columns context,budget --where budget=25%", quarters);
    expect_printed(scratch, "$L report r.jsonl --format csv --columns context,budget --where budget=4", fours);
    assert_refused(scratch, "$L report r.jsonl --where budget=33%");
}

// Trials of the same share are one curve, and pairs.
static void contexts_are_compared_at_the_same_share(void **state)
{
    const struct scratch *scratch = *state;
    sweep(scratch);
    int code = run(scratch, "$L compare --by context r.jsonl");
    assert_true(code == 0 || code == 1);
    assert_says(scratch, "out", "3 trials in both, 0 only in BASE, 0 only in NEW");
    code = run(scratch, "$L compare --by budget r.jsonl");
    assert_true(code == 0 || code == 1);
    assert_says(scratch, "out", "BASE: budget 50%, NEW: budget 100%");
    assert_says(scratch, "out", "BASE: budget 50%, NEW: budget 25%");
    assert_says(scratch, "out", "2 trials in both, 0 only in BASE, 0 only in NEW");
}

// By their size, whatever order they were asked for in.
static void curves_are_of_a_share_each(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const labels[] = {"budget 25%<", ">spaco, chunk 16, budget 50%<", "budget 100%<"};
    sweep(scratch);
    assert_int_equal(run(scratch, "$L plot r.jsonl --figures memory --format svg --out p"), 0);
    char *picture = text_of(scratch, "p/e-memory.svg"), *before = picture;
    for (size_t i = 0; i < 3; i++) {
        char *first = strstr(picture, labels[i]);
        if (!first || first < before)
            fail_msg("%s is not there, or not in its place", labels[i]);
        before = first;
    }
    assert_null(strstr(picture, "budget 4"));
    free(picture);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_say_the_share),
        TEST(conditions_take_the_share_or_the_number),
        TEST(contexts_are_compared_at_the_same_share),
        TEST(curves_are_of_a_share_each),
    };
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
