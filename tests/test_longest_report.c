// Tests of harness/longest_contexts and longest_report: what is planned and what others report, beside each other.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "harness/papers/longest_contexts.h"
#include "harness/report/report.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include "tests/words.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// What is printed of outputs in the folder, beside its published points; to be freed.
static char *report_of(const struct scratch *scratch, const char *const *paths, size_t count)
{
    struct report_request request = {.max_context_paths = paths,
                                     .max_context_count = count,
                                     .published = scratch->folder,
                                     .table = {.format = TABLE_MARKDOWN}};
    char *text;
    size_t bytes;
    struct status status = {0};
    FILE *stream = open_memstream(&text, &bytes);
    if (!report_write(&request, stream, &status))
        fail_msg("%s", status.message);
    assert_int_equal(fclose(stream), 0);
    return text;
}

// With what fits, in FLOPs of a forward pass, and what does not; at the end what nothing of ours stands beside.
static void longest_contexts_are_tables(void **state)
{
    struct scratch *scratch = *state;
    char *one = quoted(
        "{'setting': {'model': 'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': 1, 'lora': null, "
        "'kv_gradient_dtype': 'f32', 'profile': 'card'}, 'limit_bytes': 1073741824, 'host_limit_bytes': "
        "1048576, 'revision': 'abc', 'methods': [{'method': {'name': 'auto'}, 'max_context': 4567, "
        "'flops': 1, 'forward_flops': 10, 'reason': '8 MiB for weights do not fit on the host: 3'}, "
        "{'method': {'name': 'streambp', 'chunk': 64, 'segments': 3}, 'max_context': 3456}, {'method': {'name': "
        "'streambp', 'chunk': 32}, 'max_context': 2345}, {'method': {'name': 'seco', 'chunk': 32}, "
        "'max_context': 1234}], "
        "'choice': {'method': {'name': 'streambp', 'chunk': 64, 'segments': 3, 'keep': 'lean'}, 'flops': 48, "
        "'kv_gradient_dtype': 'bf16'}}");
    scratch_text(scratch, "e-max-context.csv",
                 "# P2\nseries,method,model,training,profile,host,mark,setting,kilotokens\n"
                 "S,streambp,small,full,card,yes,,,1.5\n"
                 "Theirs,,small,full,card,yes,sparse,eight cards,9\n"
                 "Without a host,,small,full,card,,,,8\n");
    scratch_text(scratch, "card.json", one);
    struct scratch_path bar = scratch_path(scratch, "card.json");
    const char *paths[] = {bar.text};
    char *text = report_of(scratch, paths, 1);
    static const char *const words[] = {
        "planned at revision abc; published: P2\n",
        "**small, bf16, all weights trained, dKV f32, on card: 1.00 GiB usable, and 1.00 MiB of the host**\n",
        "| auto: streambp, chunk 64, segments 3, dKV bf16 |",
        " 4,567 |",
        " 4.80 |",
        " - |", // what is published is of a method as its paper walks it
        "| 8 MiB for weights do not fit on the host |\n",
        "| streambp, chunk 64, segments 3 | 3,456 | - | - |",
        "| streambp, chunk 32 | 2,345 | - | 1,500 |",
        "| seco, chunk 32 | 1,234 | - | - |",
        " 9,000, sparse |",
        " eight cards |\n",
        "**reported of what nothing here is planned for**\n",
        "| Without a host |",
        NULL};
    expect_words(squeezed(text), words);
    free(text);
    free(one);
}

// Others' longest contexts of other models, where no value of ours has one beside it, are left out.
static void a_model_of_ones_own_stands_alone(void **state)
{
    struct scratch *scratch = *state;
    scratch_text(scratch, "f-max-context.csv",
                 "# P3\nseries,method,model,training,profile,host,mark,setting,kilotokens\n"
                 "Theirs,,another,full,card,,,,9\n");
    char *planned =
        quoted("{'setting': {'model': 'own', 'dtype': 'bf16', 'profile': 'card'}, 'limit_bytes': 1073741824, "
               "'methods': [{'method': {'name': 'full'}, 'max_context': 1234}]}");
    scratch_text(scratch, "own.json", planned);
    free(planned);
    struct scratch_path own = scratch_path(scratch, "own.json");
    const char *paths[] = {own.text};
    char *text = report_of(scratch, paths, 1);
    assert_non_null(strstr(squeezed(text), " 1,234 |"));
    assert_null(strstr(text, "9,000"));
    assert_null(strstr(text, "reported"));
    free(text);
}

// A point of several cards stands beside what is planned for as many, with a sequence each.
static void cards_are_as_many(void **state)
{
    struct scratch *scratch = *state;
    static const int cards[] = {3, 4, 4}, batches[] = {3, 4, 8};
    struct scratch_path paths[3];
    const char *names[3];
    for (int i = 0; i < 3; i++) {
        char *json, *text, name[32];
        assert_true(asprintf(&json,
                             "{'setting': {'model': 'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': %d, "
                             "'lora': null, 'parallel': {'data': %d, 'stage': 1, 'zero': 2}, 'kv_gradient_dtype': "
                             "'f32', 'profile': 'card'}, 'limit_bytes': 1073741824, 'revision': 'abc', 'methods': "
                             "[{'method': {'name': 'full'}, 'max_context': %d, 'flops': 4, 'forward_flops': 1}]}",
                             batches[i], cards[i], 1111 * (i + 1)) > 0);
        text = quoted(json);
        snprintf(name, sizeof name, "%d.json", i);
        scratch_text(scratch, name, text);
        paths[i] = scratch_path(scratch, name);
        names[i] = paths[i].text;
        free(text);
        free(json);
    }
    scratch_text(scratch, "e-max-context.csv",
                 "# P4\nseries,method,model,training,profile,cards,kilotokens\n"
                 "four,full,small,full,card,4,1.5\none,full,small,full,card,,0.5\n");
    struct published published;
    struct longest_contexts contexts;
    struct status status = {0};
    assert_true(published_load(&published, scratch->folder, &status));
    assert_true(longest_contexts_open(&contexts, names, 3, &published, &status));
    assert_int_equal(contexts.group_count, 3);
    assert_string_equal(contexts.groups[0].alike, contexts.groups[1].alike);
    assert_non_null(strstr(contexts.groups[0].words, "3 data ranks, zero 2"));
    assert_int_equal(contexts.groups[1].cards, 4);
    assert_true(isnan(contexts.rows[0].published) && contexts.rows[1].published == 1500);
    assert_null(strstr(contexts.groups[1].words, "sequences on a card"));
    assert_non_null(strstr(contexts.groups[2].words, "2 sequences on a card"));
    assert_true(strcmp(contexts.groups[2].alike, contexts.groups[1].alike) != 0);
    assert_true(isnan(contexts.rows[2].published));
    longest_contexts_close(&contexts);
    published_free(&published);
}

// What max-batch prints is counted in sequences, and no published context stands beside it; contexts and batches
// have groups of their own.
static void batches_are_tables_too(void **state)
{
    struct scratch *scratch = *state;
    static const char *const extents[] = {"'max_batch': 38", "'max_context': 1200"};
    struct scratch_path paths[2];
    for (int i = 0; i < 2; i++) {
        char *json, *text, name[32];
        assert_true(asprintf(&json,
                             "{'setting': {'model': 'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'lora': null, "
                             "'context': 4000, 'kv_gradient_dtype': 'f32', 'profile': 'card'}, 'limit_bytes': "
                             "1073741824, 'revision': 'abc', 'methods': [{'method': {'name': 'streambp', 'chunk': "
                             "500}, %s, 'flops': 4, 'forward_flops': 1, 'reason': '7 bytes do not fit: 3'}]}",
                             extents[i]) > 0);
        text = quoted(json);
        snprintf(name, sizeof name, "%d.json", i);
        scratch_text(scratch, name, text);
        paths[i] = scratch_path(scratch, name);
        free(text);
        free(json);
    }
    scratch_text(scratch, "e-max-context.csv",
                 "# P5\nseries,method,model,training,profile,kilotokens\none,streambp,small,full,card,0.5\n");
    static const char *const batch_words[] = {
        "## largest batches\n\nplanned at revision abc\n\n",
        "**small, bf16, sequences of 4000 tokens, all weights trained, dKV f32, on card: 1.00 GiB usable**\n",
        "| planned, sequences |",
        "| one more |\n",
        "| streambp, chunk 500 |",
        " 38 |",
        " - |",
        NULL};
    static const char *const both_words[] = {
        "## longest contexts, of one sequence on a card but where it says more; largest batches\n",
        "published: P5\n",
        "| planned, sequences |",
        " 38 |",
        " - |",
        "**small, bf16, all weights trained, dKV f32, on card: 1.00 GiB usable**\n",
        "| planned, tokens |",
        " 1,200 |",
        " 500 |",
        NULL};
    for (size_t count = 1; count <= 2; count++) {
        const char *names[] = {paths[0].text, paths[1].text};
        char *text = report_of(scratch, names, count);
        expect_words(squeezed(text), count == 1 ? batch_words : both_words);
        assert_null(strstr(text, "reported of what nothing"));
        free(text);
    }
}

// More cards than can be counted are not none.
static void cards_beyond_counting_are_no_crash(void **state)
{
    struct scratch *scratch = *state;
    static const struct published nothing = {0};
    struct longest_contexts contexts;
    struct status status = {0};
    char *text =
        quoted("{'setting': {'batch': 3, 'model': 'a\\tb', 'parallel': {'data': 4294967296, 'sequence': "
               "4294967296}}, 'limit_bytes': 1, 'methods': [{'method': {'name': 'full'}, 'max_context': 7}]}");
    scratch_text(scratch, "m.json", text);
    struct scratch_path path = scratch_path(scratch, "m.json");
    assert_true(longest_contexts_open(&contexts, (const char *[]){path.text}, 1, &nothing, &status));
    assert_true(contexts.groups[0].cards == SIZE_MAX && contexts.rows[0].extent == 7);
    assert_non_null(
        strstr(contexts.groups[0].words, "a b, ")); // a tab would be another column of a picture's table
    longest_contexts_close(&contexts);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(longest_contexts_are_tables, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_model_of_ones_own_stands_alone, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(batches_are_tables_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cards_are_as_many, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cards_beyond_counting_are_no_crash, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("longest report", tests, NULL, NULL);
}
