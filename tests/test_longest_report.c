// Tests of harness/longest_contexts and longest_report: planned and published contexts side by side.
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

// A record's beginning up to its trial; digit: of its id.
#define BEGIN(digit, sought)                                                                                       \
    "{'schema': 2, 'id': '0000000000000000000000000000000" digit "', 'experiment': 'max-" sought                   \
    "', 'status': 'ok', 'trial': {'dtype': 'bf16', 'device': 'plan-cuda', 'kv_gradient_dtype': 'f32', "
#define REVISION "'provenance': {'revision': 'abc'}}\n"

// The report of records in the folder, beside its published points; the caller frees it.
static char *report_of(const struct scratch *scratch, const char *const *paths, size_t count)
{
    struct report_request request = {
        .paths = paths, .path_count = count, .published = scratch->folder, .table = {.format = TABLE_MARKDOWN}};
    char *text;
    size_t bytes;
    struct status status = {0};
    FILE *stream = open_memstream(&text, &bytes);
    if (!report_write(&request, stream, &status))
        fail_msg("%s", status.message);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void open_records(const struct scratch *scratch, const char *lines, struct results *results)
{
    char *text = quoted(lines);
    scratch_text(scratch, "m.jsonl", text);
    free(text);
    struct scratch_path path = scratch_path(scratch, "m.jsonl");
    struct status status = {0};
    if (!results_open(results, (const char *[]){path.text}, 1, false, &status))
        fail_msg("%s", status.message);
}

// With what fits, in FLOPs of a forward pass, and what does not; at the end what nothing of ours stands beside.
static void longest_contexts_are_tables(void **state)
{
    struct scratch *scratch = *state;
#define SMALL                                                                                                      \
    "'model': 'small', 'batch': 1, 'lora': null, 'profile': 'card', 'limits': {'memory': 1073741824, "             \
    "'host_memory': 1048576}, "
#define FOUND "'search': {'sought': 'context'}, " REVISION
    char *one = quoted(
        "{'schema': 2, 'id': '00000000000000000000000000000000', 'experiment': 'max-context', 'status': 'ok', "
        "'trial': {'dtype': 'bf16', 'device': 'plan-cuda', 'kv_gradient_dtype': 'bf16', " SMALL
        "'context': 4567, 'method': {'name': 'streambp', 'chunk': 64, 'segments': 3, 'keep': 'lean'}}, 'flops': "
        "48, 'search': {'sought': 'context', 'among': 'auto', 'asked': {'kv_gradient_dtype': 'f32'}, "
        "'forward_flops': 10, 'beyond': '8 MiB for weights do not fit on the host: 3'}, " REVISION BEGIN(
            "1", "context") SMALL
        "'context': 3456, 'method': {'name': 'streambp', 'chunk': 64, 'segments': 3}}, " FOUND BEGIN("2", "context")
            SMALL "'context': 2345, 'method': {'name': 'streambp', 'chunk': 32}}, " FOUND BEGIN("3", "context")
                SMALL "'context': 1234, 'method': {'name': 'seco', 'chunk': 32}}, " FOUND);
    scratch_text(scratch, "e-max-context.csv",
                 "# P2\nseries,method,model,training,profile,host,mark,setting,kilotokens\n"
                 "S,streambp,small,full,card,yes,,,1.5\n"
                 "Theirs,,small,full,card,yes,sparse,eight cards,9\n"
                 "Without a host,,small,full,card,,,,8\n");
    scratch_text(scratch, "card.jsonl", one);
    struct scratch_path bar = scratch_path(scratch, "card.jsonl");
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
        "**published without a plan here**\n",
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
    char *planned = quoted(
        BEGIN("1", "context") "'model': 'own', 'batch': 1, 'context': 1234, 'profile': 'card', 'method': {'name': "
                              "'full'}, 'limits': {'memory': 1073741824}}, 'search': {'sought': 'context'}}\n");
    scratch_text(scratch, "own.jsonl", planned);
    free(planned);
    struct scratch_path own = scratch_path(scratch, "own.jsonl");
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
    char *lines = strdup("");
    for (int i = 0; i < 3; i++) {
        char *more;
        assert_true(
            asprintf(
                &more,
                "%s" BEGIN(
                    "%d",
                    "context") "'model': 'small', 'batch': %d, 'lora': null, 'parallel': "
                               "{'data': %d, 'stage': 1, 'zero': 2}, 'profile': 'card', 'context': %d, 'method': "
                               "{'name': 'full'}, 'limits': {'memory': 1073741824}}, 'flops': 4, 'search': "
                               "{'sought': 'context', 'forward_flops': 1}, " REVISION,
                lines, i, batches[i], cards[i], 1111 * (i + 1)) > 0);
        free(lines);
        lines = more;
    }
    struct results results;
    open_records(scratch, lines, &results);
    free(lines);
    scratch_text(scratch, "e-max-context.csv",
                 "# P4\nseries,method,model,training,profile,cards,kilotokens\n"
                 "four,full,small,full,card,4,1.5\none,full,small,full,card,,0.5\n");
    struct published published;
    struct longest_contexts contexts;
    struct status status = {0};
    assert_true(published_load(&published, scratch->folder, &status));
    longest_contexts_open(&contexts, &results, &published);
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
    results_close(&results);
    published_free(&published);
}

// Output of max-batch counts sequences and stands beside no published context; contexts and batches have separate
// groups.
static void batches_are_tables_too(void **state)
{
    struct scratch *scratch = *state;
#define FITS(sought)                                                                                               \
    "'model': 'small', 'lora': null, 'profile': 'card', 'method': {'name': 'streambp', 'chunk': 500}, 'limits': "  \
    "{'memory': 1073741824}}, 'flops': 4, 'search': {'sought': '" sought                                           \
    "', 'forward_flops': 1, 'beyond': '7 bytes do not fit: 3'}, " REVISION
    static const char *const lines[] = {BEGIN("1", "batch") "'context': 4000, 'batch': 38, " FITS("batch"),
                                        BEGIN("2", "context") "'context': 1200, 'batch': 1, " FITS("context")};
    struct scratch_path paths[2];
    for (int i = 0; i < 2; i++) {
        char *text = quoted(lines[i]), name[32];
        snprintf(name, sizeof name, "%d.jsonl", i);
        scratch_text(scratch, name, text);
        paths[i] = scratch_path(scratch, name);
        free(text);
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
        "## longest contexts, with one sequence on a card unless stated; largest batches\n",
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
        assert_null(strstr(text, "published without a plan"));
        free(text);
    }
}

// Another framework's steps come first among the methods of their setting, wherever their records are, whatever
// dtype gradients have there; the paper's baseline is beside the one with whole logits. Of another setting they
// stand alone.
static void frameworks_come_first(void **state)
{
    struct scratch *scratch = *state;
#define OF_CARD(card)                                                                                              \
    "'model': 'small', 'batch': 1, 'lora': null, 'profile': '" card "', 'limits': {'memory': 1073741824}, "
#define THEIRS(digit, card, context, keys)                                                                         \
    BEGIN(digit, "context")                                                                                        \
    OF_CARD(card)                                                                                                  \
    "'context': " context ", 'framework': {'version': '5.24', " keys                                               \
    "}, 'method': {'name': 'checkpoint'}}, 'framework': {'name': 'transformers', 'version': "                      \
    "'5.24.0'}, " FOUND
    struct results results;
    open_records(
        scratch,
        THEIRS("1", "card", "100", "'loss': 'whole', 'outputs': 'kept'") BEGIN("2", "context")
            OF_CARD("card") "'gradient_dtype': 'bf16', 'context': 300, 'method': {'name': 'checkpoint'}}, " FOUND
                BEGIN("3", "context") OF_CARD(
                    "card") "'gradient_dtype': 'f32', 'context': 290, 'method': {'name': 'checkpoint'}}, " FOUND
                    THEIRS("4", "card", "200", "'loss': 'chunked', 'inferred': ['head']")
                        THEIRS("5", "other", "50", "'loss': 'whole'"),
        &results);
    scratch_text(scratch, "e-max-context.csv",
                 "# P6\nseries,method,model,training,profile,kilotokens\none,checkpoint,small,full,card,0.09\n");
    struct published published;
    struct longest_contexts contexts;
    struct status status = {0};
    assert_true(published_load(&published, scratch->folder, &status));
    longest_contexts_open(&contexts, &results, &published);
    static const struct {
        const char *label, *chosen;
        size_t group;
        double extent, published; // 0: none
    } rows[] = {{"checkpoint, transformers 5.24.0", "outputs kept", 1, 100, 90},
                {"checkpoint, transformers 5.24.0, loss chunked, head inferred", "", 1, 200, 0},
                {"checkpoint", "", 1, 300, 90},
                {"checkpoint", "", 2, 290, 90},
                {"checkpoint, transformers 5.24.0", "", 3, 50, 0}};
    assert_int_equal(contexts.row_count, sizeof rows / sizeof *rows);
    assert_int_equal(contexts.group_count, 3);
    for (size_t i = 0; i < contexts.row_count; i++) {
        const struct longest_row *row = &contexts.rows[i];
        assert_string_equal(row->label, rows[i].label);
        assert_string_equal(row->chosen, rows[i].chosen);
        assert_int_equal(row->group, rows[i].group);
        assert_true(row->extent == rows[i].extent);
        assert_true(rows[i].published > 0 ? row->published == rows[i].published : isnan(row->published));
    }
    longest_contexts_close(&contexts);
    results_close(&results);
    published_free(&published);
}

// More cards than can be counted are not none.
static void cards_beyond_counting_are_no_crash(void **state)
{
    struct scratch *scratch = *state;
    static const struct published nothing = {0};
    struct longest_contexts contexts;
    struct results results;
    open_records(scratch,
                 BEGIN("1", "context") "'batch': 3, 'model': 'a\\tb', 'context': 7, 'parallel': {'data': "
                                       "4294967296, 'sequence': 4294967296}, 'method': {'name': 'full'}}, "
                                       "'search': {'sought': 'context'}}\n",
                 &results);
    longest_contexts_open(&contexts, &results, &nothing);
    assert_true(contexts.groups[0].cards == SIZE_MAX && contexts.rows[0].extent == 7);
    assert_non_null(
        strstr(contexts.groups[0].words, "a b, ")); // a tab would be another column of a picture's table
    longest_contexts_close(&contexts);
    results_close(&results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(longest_contexts_are_tables, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_model_of_ones_own_stands_alone, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(batches_are_tables_too, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(frameworks_come_first, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cards_are_as_many, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cards_beyond_counting_are_no_crash, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("longest report", tests, NULL, NULL);
}
