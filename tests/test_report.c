// Tests of harness/report/report and pairing: the point that each record is compared with, the ratios and slopes,
// the output, and refusals. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/plot/figure.h"
#include "harness/report/report.h"
#include "tests/figure_text.h"
#include "tests/parsed_record.h"
#include "tests/published_points.h"
#include "tests/scratch.h"
#include "tests/words.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool report_of(const struct scratch *scratch, bool markdown, bool summary, char **text,
                      struct status *status)
{
    struct scratch_path path = scratch_path(scratch, "r.jsonl");
    const char *paths[] = {path.text};
    struct report_request request = {.paths = paths,
                                     .path_count = 1,
                                     .published = scratch->folder,
                                     .summary = summary,
                                     .table = {.format = markdown ? TABLE_MARKDOWN : TABLE_TEXT}};
    size_t bytes;
    FILE *stream = open_memstream(text, &bytes);
    bool fine = report_write(&request, stream, status);
    assert_int_equal(fclose(stream), 0);
    return fine;
}

static bool report(const struct scratch *scratch, bool markdown, char **text, struct status *status)
{
    return report_of(scratch, markdown, false, text, status);
}

// Published points of another experiment.
static const char other[] = "# P\nmethod,context,seconds\nseco,1,1\n";

// The report, squeezed, of these records beside these published points, to be freed.
static char *reported(const struct scratch *scratch, const char *file, const char *published, const char *records)
{
    char *text;
    struct status status = {0};
    scratch_text(scratch, file, published);
    scratch_text(scratch, "r.jsonl", records);
    if (!report(scratch, false, &text, &status))
        fail_msg("%s", status.message);
    return squeezed(text);
}

// A trial that was predicted by measured rates.
struct prediction {
    const char *method;
    int context;
    double measured_ms, predicted_ms;
    const char *slowdown; // with its key; "": none is known
};

// With its range, as a line.
static void put_prediction(FILE *stream, size_t id, const struct prediction *p)
{
    char *text, *line;
    assert_true(
        asprintf(
            &text,
            "{'schema': 2, 'id': '%032zx', 'experiment': 'p', 'status': 'ok', 'reason': '', 'trial': {'model': "
            "'small', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': %d, 'seed': 1, 'method': {'name': "
            "%s}}, 'peak_bytes': 1, 'lower_bound_bytes': 1, 'median_ms': %g, 'estimate_ms': %g, "
            "'estimate_low_ms': %g, 'estimate_high_ms': %g, 'profile': 'host', 'samples_ms': [%g, %g, %g]%s, "
            "'provenance': {}}",
            id, p->context, p->method, p->measured_ms, p->predicted_ms, 0.9 * p->predicted_ms,
            1.1 * p->predicted_ms, 0.5 * p->measured_ms, p->measured_ms, 2 * p->measured_ms, p->slowdown) > 0);
    line = quoted(text);
    fprintf(stream, "%s\n", line);
    free(line);
    free(text);
}

// Their report, to be freed.
static char *reported_predictions(const struct scratch *scratch, const struct prediction *predictions, size_t count)
{
    char *records;
    size_t bytes;
    FILE *stream = open_memstream(&records, &bytes);
    for (size_t i = 0; i < count; i++)
        put_prediction(stream, i + 1, &predictions[i]);
    assert_int_equal(fclose(stream), 0);
    char *text = reported(scratch, "e-memory.csv", points, records);
    free(records);
    return text;
}

// The errors of predictions, and the order of trials of one context whose times differ by more than a tenth.
static void predictions_are_held_against_times(void **state)
{
    static const struct prediction predictions[] = {
        {SECO(64), 1024, 100, 105, ""},      // 5 %
        {SECO(128), 1024, 80, 120, ""},      // 50 %: as if slower than chunk 64
        {"'checkpoint'", 1024, 95, 110, ""}, // 15.8 %, too near to chunk 64 for an order
        {SECO(64), 2048, 300, 270, ""},      // 10 %, at another context
    };
    static const char *const words[] = {
        "seco, chunk 64 1024 100.0 105.0 94.5 115.5 5.0 - -\n",
        "seco, chunk 64 2048 300.0 270.0 243.0 297.0 -10.0 - -\n",
        // checkpoint is slower than chunk 128, too, and was predicted to be faster
        "4 trials, 1 of them measured within the range of their prediction: median error 12.9 %, worst 50.0 % "
        "(seco, chunk 128, context 1024); of 2 pairs whose times differ by more than 10 %, 0 in the right order, 2 "
        "in the wrong one\n",
        NULL};
    char *text = reported_predictions(*state, predictions, COUNT(predictions));
    expect_words(text, words);
    assert_null(strstr(text, "at the speed of the calibration"));
    free(text);
}

// The report divides each sample by its slowdown since the calibration, and shows the result beside the undivided
// samples.
static void slowdowns_are_taken_out(void **state)
{
    // 50, 100 and 200 ms at once, half and a quarter of the speed: 50 each; the other 40 by its first and last
    static const struct prediction predictions[] = {{SECO(64), 1024, 100, 55, ", 'slowdown': [1, 2, 4]"},
                                                    {SECO(128), 1024, 80, 38, ", 'slowdown': [1, 1.5, 4]"}};
    static const char *const words[] = {
        "seco, chunk 64 1024 100.0 55.0 49.5 60.5 -45.0 2.00 10.0\n",
        "seco, chunk 128 1024 80.0 38.0 34.2 41.8 -52.5 2.00 -5.0\n",
        "2 trials, 0 of them measured within the range of their prediction: median error 48.8 %, worst 52.5 % "
        "(seco, chunk 128, context 1024); of 1 pairs whose times differ by more than 10 %, 1 in the right order, 0 "
        "in the wrong one\n",
        "2 trials at the speed of the calibration, each sample divided by its slowdown, which is how many times as "
        "long as then a reference kernel took around it (1.00 to 4.00): median error 7.5 %, worst 10.0 % (seco, "
        "chunk 64, "
        "context 1024); of 1 pairs whose times differ by more than 10 %, 1 in the right order, 0 in the wrong "
        "one\n",
        NULL};
    char *text = reported_predictions(*state, predictions, COUNT(predictions));
    expect_words(text, words);
    free(text);
}

static void points_are_held_against_their_records(void **state)
{
    const struct scratch *scratch = *state;
    char *records = all_records(), *text = reported(scratch, "e-memory.csv", points, records);
    struct status status = {0};
    static const char *const words[] = {
        "e, memory\npublished: A paper, Figure 1", "planned", "seco, chunk 64, dKV f32 1024 100.0 50.0 0.500\n",
        "seco, chunk 64, dKV f32 2048 200.0 100.0 0.500\n", "seco, chunk 64, dKV bf16 2048 200.0 250.0 1.250\n",
        "seco, chunk 128 2048 300.0 oom -\n",
        // A budget above the number of chunks is all of them; another budget is not the paper's.
        "spaco, chunk 64 256 50.0 40.0 0.800\n",
        // points, mean, worst, its context, above, oom
        "seco, chunk 64, dKV bf16 1 1.250 1.250 2048 1 0\n", "seco, chunk 128 0 - - - 0 1\n",
        // 50 MiB in 1024 tokens, half of it the bound; 100 MiB published
        "seco, chunk 64, dKV f32 1024 to 2048 25600 51200 2.0000 102400 0.500\n", NULL};
    expect_words(text, words);
    const char *beside = strstr(text, "e, memory"); // behind the table of all records
    assert_null(strstr(beside, "4096"));
    assert_null(strstr(beside, "30.0"));
    free(text);
    assert_true(report(scratch, true, &text, &status));
    static const char *const markdown[] = {
        "## e, memory\n", "| seco, chunk 64, dKV f32 | 1024 | 100.0 | 50.0 | 0.500 |\n", "|:-", NULL};
    expect_words(squeezed(text), markdown);
    free(text);
    free(records);
}

// Records that differ in an option or key other than the context are separate curves, named by the difference.
static void curves_are_of_one_setting(void **state)
{
    const struct scratch *scratch = *state;
    char *lines[] = {record(1, SECO(64), "f32", 1024, 50),
                     record(2, SECO(64), "f32", 2048, 100),
                     record(3, SECO(64) ", 'inner': 'checkpoint'", "f32", 1024, 30),
                     record(4, SECO(64) ", 'inner': 'checkpoint'", "f32", 2048, 40),
                     record(5, SECO(64), "f32", 1024, 50),
                     record(6, SECO(64), "f32", 2048, 70)};
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (size_t i = 0; i < COUNT(lines); i++) {
        if (i >= 4)
            strstr(lines[i], "\"seed\": 1")[8] = '2';
        fprintf(stream, "%s\n", lines[i]);
        free(lines[i]);
    }
    assert_int_equal(fclose(stream), 0);
    char *out = reported(scratch, "e-memory.csv", points, text);
    static const char *const words[] = {"seco, chunk 64, seed 1 1024 to 2048 25600 51200 ",
                                        "seco, chunk 64, seed 1, inner checkpoint 1024 to 2048 5120 10240 ",
                                        "seco, chunk 64, seed 2 1024 to 2048 10240 20480 ", NULL};
    expect_words(out, words);
    free(out);
    free(text);
}

static void times_of_plans_are_called_estimates(void **state)
{
    char *records = all_records(),
         *text = reported(*state, "e-time.csv",
                          "# P\nmethod,chunk,context,seconds\nseco,64,1024,2.048\nseco,64,9,1\n", records);
    static const char *const words[] = {"published: P (measured)\n",
                                        "ours: an estimate (roofline, profile card), not a measurement\n",
                                        "no record of ours for 1 of 2 published points\n",
                                        "seco, chunk 64, dKV f32 1024 2.048 1.024 0.500\n", NULL};
    expect_words(text, words);
    assert_null(strstr(text, "per token"));
    free(text);
    free(records);
}

// The value of a method that draws chunks is the mean over draws, with the number of chunks; one draw has none.
static void times_of_draws_say_how_many_chunks(void **state)
{
    static const char published[] = "# P\nmethod,chunk,context,seconds\nspaco,64,1024,2.048\nseco,64,1024,1\n";
    char *line = record(1, "'spaco', 'chunk': 64, 'budget': 2, 'sampler': 'bernoulli'", "f32", 1024, 50),
         *end = strrchr(line, '}'), *lines, *text;
    assert_true(asprintf(&lines, "%.*s, \"sample_chunks\": [1, 2, 2]}\n", (int)(end - line), line) > 0);
    text = reported(*state, "e-time.csv", published, lines);
    static const char *const words[] = {"where chunks are drawn ours is the mean over draws\n",
                                        "published s ours s ratio chunks drawn\n",
                                        "spaco, chunk 64 1024 2.048 1.024 0.500 1.67\n", NULL};
    expect_words(text, words);
    free(text);
    text = reported(*state, "e-time.csv", published, line);
    static const char *const one_draw[] = {"published s ours s ratio\n", "spaco, chunk 64 1024 2.048 - -\n", NULL};
    expect_words(text, one_draw);
    free(text);
    free(lines);
    free(line);
}

// Replaces the number behind a key of a record's line, to be freed; the line is released.
static char *with_number(char *line, const char *key, int number)
{
    char *text, *at = strstr(line, key);
    assert_non_null(at);
    at += strlen(key);
    assert_true(asprintf(&text, "%.*s%d%s", (int)(at - line), line, number, at + strspn(at, "0123456789")) > 0);
    free(line);
    return text;
}

// Points that run along the batch stand beside one curve over the batch, of the step's time over it where they are
// of a sample; another context is another curve, and another batch no point of its own. A trial that another
// experiment has, too, is in both.
static void points_may_run_along_the_batch(void **state)
{
    const struct scratch *scratch = *state;
    char *text = NULL, *figure;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    struct parsed_record *parsed[4];
    const struct record *records[4];
    for (int i = 0; i < 4; i++) {
        // batches 4, 2 and 1 of 1,024 tokens, and 2 of 2,048
        static const int batches[] = {4, 2, 1, 2};
        char *line =
            with_number(record(i + 1, SECO(64), "f32", i == 3 ? 2048 : 1024, 100), "\"batch\": ", batches[i]);
        line = with_number(line, "\"estimate_ms\": ", 600 * batches[i] + 400);
        parsed[i] = parsed_record(line);
        records[i] = &parsed[i]->record;
        fprintf(stream, "%s\n", line);
        if (i == 2) {
            strstr(line, "\"experiment\": \"e\"")[15] = 'f';
            fprintf(stream, "%s\n", line);
        }
        free(line);
    }
    assert_int_equal(fclose(stream), 0);
    char *out =
        reported(scratch, "e-time.csv",
                 "# P\nmethod,batch,context,seconds_per_sample\nseco,1,,2\nseco,2,1024,1.6\nseco,8,,1\n", text);
    static const char *const words[] = {"e, time\npublished: P (measured)\n",
                                        "per sample: of ours the step's over its batch\n",
                                        "no record of ours for 1 of 3 published points\n",
                                        "series batch published s ours s ratio\n",
                                        "seco, context 1024 1 2.000 1.000 0.500\n",
                                        "seco, context 1024 2 1.600 0.800 0.500\n",
                                        "worst at batch above published oom\n",
                                        "seco, context 1024 2 0.500 0.500 1 0 0\n",
                                        NULL};
    expect_words(out, words);
    assert_null(strstr(out, "seco, context 2048 2 "));
    struct published published;
    struct status status = {0};
    assert_true(published_load(&published, scratch->folder, &status));
    struct figure_table made = {0};
    const struct published_file *file = published_find(&published, "e", PUBLISHED_TIME);
    assert_true(figure_published_time.tabulate_beside(records, 3, file, &made));
    figure = figure_text(&made);
    assert_string_equal(figure, "series\tmethod\tlabel\trank\tpanel\tpanel_"
                                "label\tchunk\taxis\tof\tbatch\tours\tpublished\tlimit_bytes\toom\n"
                                "1\tseco\tseco\t0\t1\tsmall\t0\tbatch\tsample\t1\t1000\t2000\t1000\t0\n"
                                "1\tseco\tseco\t0\t1\tsmall\t0\tbatch\tsample\t2\t800\t1600\t1000\t0\n"
                                "1\tseco\tseco\t0\t1\tsmall\t0\tbatch\tsample\t4\t700\tNaN\t1000\t0\n");
    for (size_t i = 0; i < 4; i++)
        parsed_record_free(records[i]);
    published_free(&published);
    free(figure);
    free(out);
    free(text);
}

static void where_a_steps_time_goes(void **state)
{
    const struct scratch *scratch = *state;
    // A GEMM at half its roof of 1 TFLOP/s, a norm at its roof of 1 GB/s, a head of two operations, and the rest
    // idle.
    static const char rows[] =
        "{'category': 'idle', 'operation': 'idle', 'shape': null, 'launches': 0, 'flops': 0, 'bytes_moved': 0, "
        "'ms': 10, 'estimate_ms': 0}, "
        "{'category': 'norm', 'operation': 'rmsnorm_forward', 'shape': null, 'launches': 3, 'flops': 0, "
        "'bytes_moved': 10000000, 'ms': 10, 'estimate_ms': 10}, "
        "{'category': 'GEMM', 'operation': 'gemm', 'shape': [7, 8, 9], 'launches': 1, 'flops': 1e9, "
        "'bytes_moved': 0, 'ms': 20, 'estimate_ms': 1}, "
        "{'category': 'GEMM', 'operation': 'gemm', 'shape': [4, 5, 6], 'launches': 2, 'flops': 2e10, "
        "'bytes_moved': 0, 'ms': 40, 'estimate_ms': 20}, "
        "{'category': 'head', 'operation': 'gemm', 'shape': [1, 2, 3], 'launches': 1, 'flops': 1e9, "
        "'bytes_moved': 0, 'ms': 15, 'estimate_ms': 1}, "
        "{'category': 'head', 'operation': 'cross_entropy', 'shape': null, 'launches': 1, 'flops': 0, "
        "'bytes_moved': 1000000, 'ms': 5, 'estimate_ms': 1}";
    char *text, *records;
    assert_true(
        asprintf(&text,
                 "{'schema': 2, 'id': '%032x', 'experiment': 'e', 'status': 'ok', 'reason': '', 'trial': {'model': "
                 "'small', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'seed': 1, 'lora': null, "
                 "'method': {'name': 'seco', 'chunk': 4}}, 'median_ms': 90, 'categories': {'step_ms': 100, "
                 "'roofline': {'source': 'measured', 'flops_per_s': 1e12, 'bytes_per_s': 1e9, 'launch_s': 0}, "
                 "'rows': [%s]}}\n",
                 1, rows) > 0);
    records = quoted(text);
    free(text);
    struct status status = {0};
    text = reported(scratch, "other-time.csv", other, records);
    // launches, ms, of the step, GFLOP, GB, GFLOP/s, GB/s, of the roofline
    static const char *const words[] = {
        "e, a step's time by category: seco, chunk 4\nsmall, f32, cpu, batch 1, context 8\n",
        "a step of 100.000 ms, taken apart beside the samples, whose median is 90.000 ms\n",
        "counted FLOPs at 1000 GFLOP/s and bytes at 1 GB/s",
        // The longest first, and below their category.
        "\nGEMM 3 60.000 60.0 % 21.000 - 350.0 - 35.0 %\n gemm 4 x 5 x 6 2 40.000 40.0 % 20.000 - 500.0 - 50.0 %\n "
        "gemm 7 x 8 x 9 1 20.000 20.0 % 1.000 - 50.0 - 5.0 %\nnorm 3 10.000 10.0 % - 0.010 - 1.0 100.0 %\n"
        "head 2 20.000 20.0 % 1.000 0.001 50.0 0.1 10.0 %\n gemm 1 x 2 x 3 1 15.000",
        "\nidle - 10.000 10.0 % - - - - -\nstep 8 100.000 100.0 % 22.000 0.011 220.0 0.1 33.0 %\n", NULL};
    expect_words(text, words);
    free(text);
    assert_true(report(scratch, true, &text, &status));
    static const char *const markdown[] = {"## e, a step's time by category: seco, chunk 4\n",
                                           "| head | 2 | 20.000 | 20.0 % |", NULL};
    expect_words(squeezed(text), markdown);
    free(text);
    // The categories of a method that draws chunks are those of one draw.
    char *end = strstr(records, "\"median_ms\""), *drawn;
    assert_true(asprintf(&drawn, "%.*s\"drawn_chunks\": [1, 3], \"sample_chunks\": [2, 0], \"mean_ms\": 80, %s",
                         (int)(end - records), records, end) > 0);
    text = reported(scratch, "other-time.csv", other, drawn);
    static const char *const of_draw[] = {"a step of 100.000 ms over draw 0, of 2 chunks, taken apart beside the "
                                          "samples, whose mean over draws is 80.000 ms\n",
                                          NULL};
    expect_words(text, of_draw);
    free(text);
    free(drawn);
    free(records);
}

static void without_anything_to_compare_it_says_what_there_is(void **state)
{
    const struct scratch *scratch = *state;
    char *records = all_records(), *text;
    struct status status = {0};
    scratch_text(scratch, "r.jsonl", records);
    assert_false(report(scratch, false, &text, &status));
    assert_non_null(strstr(status.message, "holds no .csv"));
    free(text);
    status = (struct status){0};
    scratch_text(scratch, "other-time.csv", other);
    assert_false(report_of(scratch, false, true, &text, &status));
    assert_non_null(strstr(status.message, "a step's time by category"));
    assert_non_null(strstr(status.message, "experiments with published points: other"));
    free(text);
    status = (struct status){0};
    scratch_text(scratch, "r.jsonl", "{}\n");
    assert_false(report(scratch, false, &text, &status));
    assert_non_null(strstr(status.message, "r.jsonl:1:"));
    free(text);
    free(records);
}

#define ON_CARD(device, more)                                                                                      \
    "{'schema': 2, 'id': '0000000000000000000000000000000a', 'experiment': 'e', 'status': 'ok', 'trial': "         \
    "{'model': "                                                                                                   \
    "'tiny', 'dtype': 'f32', 'device': '" device                                                                   \
    "', 'batch': 1, 'context': 64, 'method': {'name': 'full'}}, 'peak_bytes': 512, " more "}\n"

// A table names the card that all its rows are of, and says of plans that they are of none in particular.
static void the_card_is_named(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *record, *said;
    } cases[] = {
        {ON_CARD("cuda", "'samples_ms': [4], 'median_ms': 4, 'provenance': {'card': 'A card, 132 of them'}"),
         "tiny, f32, cuda, batch 1, context 64, A card\n"},
        {ON_CARD("plan-cuda", "'samples_ms': []"), "1 of 1 rows are planned for no card in particular"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct status status = {0};
        char *text, *record = quoted(cases[i].record);
        size_t bytes;
        FILE *stream = open_memstream(&text, &bytes);
        scratch_text(scratch, "r.jsonl", record);
        struct scratch_path path = scratch_path(scratch, "r.jsonl");
        const char *paths[] = {path.text};
        struct report_request request = {.paths = paths, .path_count = 1};
        bool fine = report_write(&request, stream, &status);
        assert_int_equal(fclose(stream), 0);
        if (!fine)
            fail_msg("%s", status.message);
        if (!strstr(text, cases[i].said))
            fail_msg("no \"%s\" in:\n%s", cases[i].said, text);
        free(text);
        free(record);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(points_are_held_against_their_records),
        TEST(predictions_are_held_against_times),
        TEST(slowdowns_are_taken_out),
        TEST(curves_are_of_one_setting),
        TEST(times_of_plans_are_called_estimates),
        TEST(times_of_draws_say_how_many_chunks),
        TEST(points_may_run_along_the_batch),
        TEST(where_a_steps_time_goes),
        TEST(without_anything_to_compare_it_says_what_there_is),
        TEST(the_card_is_named),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
