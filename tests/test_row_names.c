// Tests of names of rows and curves: options that are lists, keys whose value follows from the dtype; and choices
// by lists.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/program.h"
#include "tests/words.h"

static void sweep(const struct scratch *scratch, const char *spec)
{
    scratch_text(scratch, "s.json", spec);
    assert_int_equal(run(scratch, "$L run s.json --out r.jsonl"), 0);
}

static void expect_printed(const struct scratch *scratch, const char *command, const char *const *words)
{
    assert_int_equal(run(scratch, command), 0);
    char *text = squeezed(text_of(scratch, "out"));
    expect_words(text, words);
    free(text);
}

// 8 chunks: the last entry's budget is 4, and tells it from the others.
static const char listed[] = "{\"experiment\": \"e\", \"model\": \"tiny\", \"device\": \"plan-cpu\", \"axes\": "
                             "{\"context\": [128], \"method\": ["
                             "{\"name\": \"spaco\", \"chunk\": 16, \"sampler\": \"fixed\", \"budget\": 2, "
                             "\"drawn_chunks\": [[0, 3], [1, 2], [3]]}, "
                             "{\"name\": \"spaco\", \"chunk\": 16, \"sampler\": \"fixed\", \"budget\": \"50%\", "
                             "\"drawn_chunks\": [[0, 3]]}]}}";

// A list that is said of one row is said of each that has one.
static void lists_are_said_of_every_row_or_of_none(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const rows[] = {"budget 2, drawn_chunks [0,3] ", "budget 2, drawn_chunks [1,2] ",
                                       "budget 2, drawn_chunks [3] ", "budget 50%, drawn_chunks [0,3] ", NULL};
    static const char *const told_by_budget[] = {"spaco, chunk 16, budget 2 ", "spaco, chunk 16, budget 50% ",
                                                 NULL};
    sweep(scratch, listed);
    expect_printed(scratch, "$L report r.jsonl", rows);
    expect_printed(scratch, "$L report r.jsonl --where 'drawn_chunks=[0,3]'", told_by_budget);
}

// As they are told, with their commas.
static void lists_choose_records_and_curves(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const both[] = {"trial.method.drawn_chunks\r\n\"[1,2]\"\r\n[3]\r\n", NULL},
                             *const one[] = {"trial.method.drawn_chunks\r\n[3]\r\n", NULL};
    sweep(scratch, listed);
    expect_printed(
        scratch,
        "$L report r.jsonl --format csv --columns trial.method.drawn_chunks --where 'drawn_chunks=[1, 2],[3]'",
        both);
    expect_printed(scratch,
                   "$L report r.jsonl --format csv --columns trial.method.drawn_chunks --where 'drawn_chunks=[3]'",
                   one);
    assert_refused(scratch, "$L report r.jsonl --where 'drawn_chunks=[3,1]'");
    assert_int_equal(
        run(scratch, "sed 's/\"context\": \\[128/&, 256/' s.json >two.json && $L run two.json --out two.jsonl && "
                     "$L plot two.jsonl --figures memory --format tsv --out p "
                     "--series 'spaco, chunk 16, budget 2, drawn_chunks [1,2]'"),
        0);
    static const char *const curve[] = {"rank\t", "\n1\tspaco\tspaco, chunk 16, budget 2, drawn_chunks [1,2]\t",
                                        NULL};
    expect_printed(scratch, "cat p/e-memory.tsv", curve);
}

// An accumulator's dtype is left out where it is the model's default; if any row has another, all rows name
// theirs.
static void defaults_of_the_dtype_are_not_said(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const rows[] = {"\nfull, dtype f32 ", "\nfull, dtype f64 ", NULL};
    static const char *const other[] = {"\nfull, kv_gradient_dtype f32 ", "\nfull, kv_gradient_dtype bf16 ", NULL};
    sweep(scratch, "{\"experiment\": \"e\", \"model\": \"tiny\", \"device\": \"plan-cpu\", \"axes\": "
                   "{\"dtype\": [\"f32\", \"f64\"], \"context\": [64], \"method\": [\"full\"]}}");
    expect_printed(scratch, "$L report r.jsonl", rows);
    assert_int_equal(run(scratch, "rm r.jsonl"), 0);
    sweep(scratch, "{\"experiment\": \"e\", \"model\": \"tiny\", \"device\": \"plan-cpu\", \"dtype\": \"bf16\", "
                   "\"axes\": {\"kv_gradient_dtype\": [\"f32\", \"bf16\"], \"context\": [64], "
                   "\"method\": [\"full\"]}}");
    expect_printed(scratch, "$L report r.jsonl", other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists_are_said_of_every_row_or_of_none),
        TEST(lists_choose_records_and_curves),
        TEST(defaults_of_the_dtype_are_not_said),
    };
    return cmocka_run_group_tests_name("row names", tests, NULL, NULL);
}
