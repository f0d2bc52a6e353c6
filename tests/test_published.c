// Tests of published points: which files of them are read and which refused, and the pictures that show them.
// JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/plot/figure.h"
#include "harness/plot/plot.h"
#include "harness/record/published.h"
#include "tests/figure_text.h"
#include "tests/parsed_record.h"
#include "tests/published_points.h"
#include "tests/scratch.h"
#include "tests/words.h"

static void bad_points_are_refused_with_the_line(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *name, *text, *message;
    } bad[] = {
        {"e-memory.csv", "method,context,peak_mib\n", "e-memory.csv:1: expected the source"},
        {"e-memory.csv", "# P\nmethod,contxt,peak_mib\n", "e-memory.csv:2: expected columns of"},
        {"e-memory.csv", "# P\nmethod,context,seconds\n", ":2: the file's name gives another quantity"},
        {"e-memory.csv", "# P\nmethod,context,context,peak_mib\n",
         ":2: a column is given twice, found \"context\""},
        {"e-memory.csv", "# P\nmethod,context\n", ":2: expected the columns method"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1,-3\n",
         ":3: expected a number above 0, found \"-3\""},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1,nan\n", ":3: expected a number above 0"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1.5,3\n", ":3: expected a whole number above 0"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,,3\n", ":3: expected a whole number above 0"},
        {"e-memory.csv", "# P\nmethod,context,batch,peak_mib\nseco,1,,3\n", ":3: expected a whole number above 0"},
        {"e-memory.csv", "# P\nmethod,batch,seconds_per_sample\n", ":2: the file's name gives another quantity"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1\n", ":3: fewer fields than columns"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1,2,3\n", ":3: more fields than columns"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\n", "e-memory.csv: no points"},
        {"e-max-context.csv", "# P\nmethod,host,kilotokens\n,1 TB,3\n", ":3: host is yes or empty, found \"1 TB\""},
        {"e-memory.csv", "# P\nmethod,attention,context,peak_mib\ncheckpoint,held,1,2\n",
         ":3: expected a choice of the option that the column names, found \"held\""},
        {"e-memory.csv",
         "# P\nseries,method,model,training,profile,weights,optimizer,host,mark,setting,cards,chunk,context,rate,"
         "peak_mib,segments,inner\n",
         ":2: more columns than are read, found \"inner\""},
        {"e-speed.csv", "# P\n", "the name is not EXPERIMENT-memory.csv"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct published published;
        struct status status = {0};
        scratch_text(scratch, bad[i].name, bad[i].text);
        if (published_load(&published, scratch->folder, &status))
            fail_msg("accepted: %s", bad[i].text);
        if (!strstr(status.message, bad[i].message))
            fail_msg("expected %s\n   found %s", bad[i].message, status.message);
        published_free(&published);
        remove(scratch_path(scratch, bad[i].name).text);
    }
}

static void the_committed_points_are_read(void **state)
{
    (void)state;
    struct published published;
    struct status status = {0};
    if (!published_load(&published, "experiments/published", &status))
        fail_msg("%s", status.message);
    const struct published_file *file = published_find(&published, "seco-figure6", PUBLISHED_MEMORY);
    assert_non_null(file);
    assert_string_equal(file->source, "SeCO/SpaCO, arXiv 2505.16710, Figure 6");
    assert_true(file->points[0].context == 512 && file->points[0].value == 16951.9 * 0x1p20);
    assert_non_null(published_find(&published, "streambp-figure3", PUBLISHED_MEMORY));
    assert_non_null(published_find(&published, "streambp-table1", PUBLISHED_TIME));
    file = published_find(&published, "streambp-table2", PUBLISHED_TIME);
    assert_non_null(file);
    assert_true(file->axis == PUBLISHED_BATCH && file->per_sample && file->points[6].batch == 16 &&
                file->points[6].value == 6470);
    published_free(&published);
}

static void the_figures_table_has_both(void **state)
{
    const struct scratch *scratch = *state;
    scratch_text(scratch, "e-memory.csv", points);
    struct published published;
    struct status status = {0};
    assert_true(published_load(&published, scratch->folder, &status));
    char *lines[] = {record(1, SECO(64), "f32", 1024, 50), record(2, SECO(64), "f32", 4096, 0),
                     record(3, SECO(64), "f32", 8192, 0), record(4, SECO(64), "bf16", 1024, 40)};
    const struct record *records[4];
    for (size_t i = 0; i < 4; i++) {
        records[i] = &parsed_record(lines[i])->record;
        free(lines[i]);
    }
    struct figure_table made = {0};
    const struct published_file *file = published_find(&published, "e", PUBLISHED_MEMORY);
    assert_non_null(file);
    assert_true(figure_published_memory.tabulate_beside(records, 4, file, &made));
    char *text = figure_text(&made);
    // Only the shortest context that does not fit is marked; each panel has the paper's points.
    assert_string_equal(
        text,
        "series\tmethod\tlabel\trank\tpanel\tpanel_label\tchunk\taxis\tof\tcontext\tours\tpublished\tlimit_"
        "bytes\toom\n"
        "1\tseco\tchunk 64\t0\t1\tseco, dKV in f32\t64\tcontext\tstep\t1024\t52428800\t104857600\t1000\t0\n"
        "1\tseco\tchunk 64\t0\t1\tseco, dKV in f32\t64\tcontext\tstep\t4096\tNaN\tNaN\t1000\t1\n"
        "1\tseco\tchunk 64\t0\t1\tseco, dKV in f32\t64\tcontext\tstep\t8192\tNaN\tNaN\t1000\t0\n"
        "2\tseco\tchunk 64\t0\t2\tseco, dKV in bf16\t64\tcontext\tstep\t1024\t41943040\t104857600\t1000\t0\n");
    free(text);
    for (size_t i = 0; i < 4; i++)
        parsed_record_free(records[i]);
    published_free(&published);
}

// An option that points give tells records apart, and each curve has its own points.
static void points_are_of_a_choice(void **state)
{
    const struct scratch *scratch = *state;
    scratch_text(scratch, "e-memory.csv",
                 "# P\nmethod,attention,context,peak_mib\n"
                 "checkpoint,rebuilt,1024,1\ncheckpoint,kept,1024,2\n");
    struct published published;
    struct status status = {0};
    assert_true(published_load(&published, scratch->folder, &status));
    char *lines[] = {record(1, "'checkpoint', 'attention': 'rebuilt'", "f32", 1024, 3),
                     record(2, "'checkpoint', 'attention': 'kept'", "f32", 1024, 4)};
    const struct record *records[2];
    for (size_t i = 0; i < 2; i++) {
        records[i] = &parsed_record(lines[i])->record;
        free(lines[i]);
    }
    struct figure_table made = {0};
    assert_true(figure_published_memory.tabulate_beside(records, 2,
                                                        published_find(&published, "e", PUBLISHED_MEMORY), &made));
    char *text = figure_text(&made);
    assert_non_null(strstr(text, "\t1024\t3145728\t1048576\t"));
    assert_non_null(strstr(text, "\t1024\t4194304\t2097152\t"));
    free(text);
    // A curve that is alone says what the points say of it.
    assert_true(figure_published_memory.tabulate_beside(records + 1, 1,
                                                        published_find(&published, "e", PUBLISHED_MEMORY), &made));
    text = figure_text(&made);
    assert_non_null(strstr(text, "\n1\tcheckpoint\tcheckpoint, attention kept\t0\t"));
    free(text);
    for (size_t i = 0; i < 2; i++)
        parsed_record_free(records[i]);
    published_free(&published);
    remove(scratch_path(scratch, "e-memory.csv").text);
}

static char *read_text(struct scratch_path path)
{
    FILE *file = fopen(path.text, "rb");
    if (!file)
        fail_msg("%s was not written", path.text);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

// Records of max-context; digit: of their ids.
#define BAR(digit, training, method, context, status)                                                              \
    "{'schema': 2, 'id': '000000000000000000000000000000" digit                                                    \
    "', 'experiment': 'max-context', 'status': '" status                                                           \
    "', 'trial': {'model': 'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': 1, 'context': " context       \
    ", 'lora': " training ", 'kv_gradient_dtype': 'f32', 'profile': 'card', 'limits': {'memory': 1073741824}, "    \
    "'method': " method "}, 'search': {'sought': 'context'}, 'provenance': {'revision': 'abc'}}\n"
#define BARS(digit, training)                                                                                      \
    BAR(digit "0", training, "{'name': 'full'}", "1024", "oom")                                                    \
    BAR(digit "1", training, "{'name': 'seco', 'chunk': 64}", "1234567", "ok")

static void the_pictures_are_drawn(void **state)
{
    struct scratch *scratch = *state;
    char *records = all_records(), *card = quoted(BARS("1", "{'rank': 8}")), *other = quoted(BARS("2", "null"));
    scratch_text(scratch, "e-memory.csv", points);
    scratch_text(scratch, "e-time.csv", "# P\nmethod,chunk,context,seconds\nseco,64,1024,2.048\n");
    scratch_text(scratch, "e-max-context.csv",
                 "# P2\nseries,method,model,training,profile,host,mark,setting,kilotokens\n"
                 "S,seco,small,lora,card,,,,1.5\n"
                 "Theirs,,small,,card,,sparse,eight cards,9\n"
                 "With a host,,small,lora,card,yes,,,8\n"
                 "Elsewhere,,large,lora,card,,,,7\n");
    scratch_text(scratch, "r.jsonl", records);
    scratch_text(scratch, "card.jsonl", card);
    scratch_text(scratch, "other.jsonl", other);
    struct scratch_path path = scratch_path(scratch, "r.jsonl"), out = scratch_path(scratch, "out"),
                        bars[] = {scratch_path(scratch, "card.jsonl"), scratch_path(scratch, "other.jsonl")};
    const char *paths[] = {path.text, bars[0].text, bars[1].text};
    struct plot_request request = {.paths = paths,
                                   .path_count = 3,
                                   .form = {.folder = out.text, .scripts = "plots", .formats = "svg,png,tsv"},
                                   .figures = "published-memory,published-time,max-context",
                                   .published = scratch->folder};
    struct status status = {0};
    if (!plot(&request, &status))
        fail_msg("%s", status.message);
    static const char *const names[] = {"out/e-published-memory.svg", "out/e-published-time.svg",
                                        "out/max-context.svg"};
    static const char *const words[][4] = {
        {"planned, not measured", "published: A paper, Figure 1", "seco, dKV in f32", NULL},
        {"times of ours: estimate, profile card", "published: P<", NULL},
        {"1,234,567", "planned, not measured, at revision abc", "9,000, sparse", NULL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *svg = read_text(scratch_path(scratch, names[i]));
        expect_words(svg, words[i]);
        free(svg);
    }
    // Only where the training is the paper's too.
    char *table = read_text(scratch_path(scratch, "out/max-context.tsv"));
    assert_non_null(strstr(table,
                           "\n2\tseco\tseco, chunk 64\t0\t1\tsmall, LoRA rank 8, bf16, dKV f32, on card: 1.00 "
                           "GiB usable\t1234567\t1500\t-\n"));
    assert_non_null(strstr(table, "\t1234567\tNaN\t-\n"));
    // Another's is a row of its own in one group, and not without what it has, nor of another model.
    assert_non_null(strstr(table, "\n3\tpublished\tTheirs\t0\t1\t"));
    assert_non_null(strstr(table, "\tNaN\t9000\tsparse\n"));
    assert_null(strstr(strstr(table, "Theirs") + 1, "Theirs"));
    assert_null(strstr(table, "With a host"));
    assert_null(strstr(table, "Elsewhere"));
    free(table);
    free(card);
    free(other);
    free(records);
}

// Points of two series of one method are told apart, and an axis has ticks as far as it goes.
static void points_of_one_method_have_marks_of_their_own(void **state)
{
    struct scratch *scratch = *state;
    scratch_text(scratch, "e-memory.csv",
                 "# P\nmethod,attention,context,peak_mib\n"
                 "checkpoint,rebuilt,262144,1\ncheckpoint,kept,262144,2\n");
    static const char *const attention[] = {"rebuilt", "kept"};
    char *records = calloc(1, 1 << 16);
    for (int i = 0; i < 4; i++) {
        char method[80];
        snprintf(method, sizeof method, "'checkpoint', 'attention': '%s'", attention[i % 2]);
        char *line = record(i + 1, method, "f32", i < 2 ? 262144 : 524288, 3 + i);
        strcat(strcat(records, line), "\n");
        free(line);
    }
    scratch_text(scratch, "r.jsonl", records);
    struct scratch_path path = scratch_path(scratch, "r.jsonl"), out = scratch_path(scratch, "out");
    const char *paths[] = {path.text};
    const struct plot_request request = {.paths = paths,
                                         .path_count = 1,
                                         .form = {.folder = out.text, .scripts = "plots", .formats = "svg"},
                                         .figures = "published-memory",
                                         .published = scratch->folder};
    struct status status = {0};
    if (!plot(&request, &status))
        fail_msg("%s", status.message);
    char *svg = read_text(scratch_path(scratch, "out/e-published-memory.svg"));
    // A filled square and a hollow one, each on the point and in the legend; below the panel the filled one again.
    // The terminal defines what is filled by what is hollow, once.
    static const struct {
        const char *mark;
        int count;
    } marks[] = {{"xlink:href='#gpPt4'", 3}, {"xlink:href='#gpPt3'", 3}, {"xlink:href='#gpPt5'", 1}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int count = 0;
        for (const char *at = svg; (at = strstr(at, marks[i].mark)); at++)
            count++;
        if (count != marks[i].count)
            fail_msg("%s: expected %d, found %d", marks[i].mark, marks[i].count, count);
    }
    assert_non_null(strstr(svg, ">512k<"));
    free(svg);
    free(records);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_points_are_refused_with_the_line),
        cmocka_unit_test(the_committed_points_are_read),
        TEST(the_figures_table_has_both),
        TEST(points_are_of_a_choice),
        TEST(the_pictures_are_drawn),
        TEST(points_of_one_method_have_marks_of_their_own),
    };
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
