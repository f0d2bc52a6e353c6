// Tests of harness/report, pairing and published: which record is held against which point, the ratios and slopes,
// what is printed, and what is refused. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/plot/figure.h"
#include "harness/plot/plot.h"
#include "harness/results/report.h"
#include "tests/parsed_record.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define SECO(chunk) "'seco', 'chunk': " #chunk ", 'head_chunk': 256, 'keep': 'lean'"
#define SPACO(chunk, budget)                                                                                       \
    "'spaco', 'chunk': " #chunk ", 'budget': " #budget ", 'head_chunk': 256, 'keep': 'lean'"

static const char points[] = "# A paper, Figure 1\n"
                             "# how it was read\n"
                             "series,method,model,chunk,budget,context,peak_mib\n"
                             "Old,seco,small,64,,1024,100\n"
                             "Old,seco,small,64,,2048,200.0\n"
                             "Old,seco,small,128,,2048,300\n"
                             "Drawn,spaco,small,64,8,256,50\n"
                             "Other,,small,,,1024,1\n";

// A record of experiment "e": the method with its options, the dtype of dKV, the context, the peak in MiB (0: oom).
static char *record(int id, const char *method, const char *kv, int context, int peak_mib)
{
    char *text, *line, peak[200] = "'peak_bytes': null, 'lower_bound_bytes': null";
    long long bytes = (long long)peak_mib << 20;
    if (peak_mib)
        snprintf(peak, sizeof peak, "'peak_bytes': %lld, 'lower_bound_bytes': %lld", bytes, bytes / 2);
    assert_true(
        asprintf(&text,
                 "{'schema': 2, 'id': '%032x', 'experiment': 'e', 'status': '%s', 'reason': '', 'trial': {'model': "
                 "'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': 1, 'context': %d, 'seed': 1, "
                 "'kv_gradient_dtype': '%s', 'lora': null, 'method': {'name': %s}, 'limits': {'memory': 1000}}, "
                 "%s, 'median_ms': null, 'estimate_ms': %d, 'profile': 'card', 'samples_ms': [], 'provenance': {}}",
                 id, peak_mib ? "ok" : "oom", context, kv, method, peak, context) > 0);
    line = quoted(text);
    free(text);
    return line;
}

static char *all_records(void)
{
    char *lines[] = {record(1, SECO(64), "f32", 1024, 50),   record(2, SECO(64), "f32", 2048, 100),
                     record(3, SECO(64), "f32", 4096, 0),    record(4, SECO(64), "bf16", 2048, 250),
                     record(5, SECO(128), "f32", 2048, 0),   record(6, SPACO(64, 4), "f32", 256, 40),
                     record(7, SPACO(64, 2), "f32", 256, 30)};
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fprintf(stream, "%s\n", lines[i]);
        free(lines[i]);
    }
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void write_text(const struct scratch *scratch, const char *name, const char *text)
{
    scratch_file(scratch, name, text, strlen(text));
}

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

// Words of the report, with every run of spaces as one.
static char *squeezed(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++)
        if (*in != ' ' || (out > text && out[-1] != ' '))
            *out++ = *in;
    *out = 0;
    return text;
}

static void expect_words(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("\"%s\" is not in\n%s", *words, text);
}

// A record that was predicted by measured rates, with its range.
static void add_prediction(FILE *stream, int id, const char *method, int context, double measured_ms,
                           double predicted_ms)
{
    char *text, *line;
    assert_true(
        asprintf(
            &text,
            "{'schema': 2, 'id': '%032x', 'experiment': 'p', 'status': 'ok', 'reason': '', 'trial': {'model': "
            "'small', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': %d, 'seed': 1, 'method': {'name': "
            "%s}}, 'peak_bytes': 1, 'lower_bound_bytes': 1, 'median_ms': %g, 'estimate_ms': %g, "
            "'estimate_low_ms': %g, 'estimate_high_ms': %g, 'profile': 'host', 'samples_ms': [%g], "
            "'provenance': {}}",
            id, context, method, measured_ms, predicted_ms, 0.9 * predicted_ms, 1.1 * predicted_ms,
            measured_ms) > 0);
    line = quoted(text);
    fprintf(stream, "%s\n", line);
    free(line);
    free(text);
}

// The errors of predictions, and the order of trials of one context whose times differ by more than a tenth.
static void predictions_are_held_against_times(void **state)
{
    const struct scratch *scratch = *state;
    char *records, *text;
    size_t bytes;
    FILE *stream = open_memstream(&records, &bytes);
    add_prediction(stream, 1, SECO(64), 1024, 100, 105);      // 5 %
    add_prediction(stream, 2, SECO(128), 1024, 80, 120);      // 50 %: as if slower than chunk 64
    add_prediction(stream, 3, "'checkpoint'", 1024, 95, 110); // 15.8 %, too near to chunk 64 for an order
    add_prediction(stream, 4, SECO(64), 2048, 300, 270);      // 10 %, at another context
    assert_int_equal(fclose(stream), 0);
    write_text(scratch, "e-memory.csv", points);
    write_text(scratch, "r.jsonl", records);
    struct status status = {0};
    if (!report(scratch, false, &text, &status))
        fail_msg("%s", status.message);
    static const char *const words[] = {
        "seco, chunk 64 1024 100.0 105.0 94.5 115.5 5.0\n", "seco, chunk 64 2048 300.0 270.0 243.0 297.0 -10.0\n",
        // checkpoint is slower than chunk 128, too, and was predicted to be faster
        "4 trials: median error 12.9 %, worst 50.0 % (seco, chunk 128, context 1024); 1 measured within the range "
        "of "
        "their prediction; of 2 pairs whose times differ by more than 10 %, 2 in the wrong order\n",
        NULL};
    expect_words(squeezed(text), words);
    free(text);
    free(records);
}

static void points_are_held_against_their_records(void **state)
{
    const struct scratch *scratch = *state;
    char *records = all_records(), *text;
    write_text(scratch, "e-memory.csv", points);
    write_text(scratch, "r.jsonl", records);
    struct status status = {0};
    if (!report(scratch, false, &text, &status))
        fail_msg("%s", status.message);
    static const char *const words[] = {
        "e, memory\npublished: A paper, Figure 1", "planned", "seco, chunk 64, dKV f32 1024 100.0 50.0 0.500\n",
        "seco, chunk 64, dKV f32 2048 200.0 100.0 0.500\n", "seco, chunk 64, dKV bf16 2048 200.0 250.0 1.250\n",
        "seco, chunk 128 2048 300.0 oom -\n",
        // A budget above the number of columns is all of them; another budget is not the paper's.
        "spaco, chunk 64 256 50.0 40.0 0.800\n",
        // points, mean, worst, its context, above, oom
        "seco, chunk 64, dKV bf16 1 1.250 1.250 2048 1 0\n", "seco, chunk 128 0 - - - 0 1\n",
        // 50 MiB in 1024 tokens, half of it the bound; 100 MiB published
        "seco, chunk 64, dKV f32 1024 to 2048 25600 51200 2.0000 102400 0.500\n", NULL};
    expect_words(squeezed(text), words);
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

// What differs in any option or key but the context is another curve, called by what differs.
static void curves_are_of_one_setting(void **state)
{
    const struct scratch *scratch = *state;
    char *lines[] = {record(1, SECO(64), "f32", 1024, 50),
                     record(2, SECO(64), "f32", 2048, 100),
                     record(3, SECO(64) ", 'inner': 'checkpoint'", "f32", 1024, 30),
                     record(4, SECO(64) ", 'inner': 'checkpoint'", "f32", 2048, 40),
                     record(5, SECO(64), "f32", 1024, 50),
                     record(6, SECO(64), "f32", 2048, 70)};
    char *text = NULL, *out;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (i >= 4)
            strstr(lines[i], "\"seed\": 1")[8] = '2';
        fprintf(stream, "%s\n", lines[i]);
        free(lines[i]);
    }
    assert_int_equal(fclose(stream), 0);
    write_text(scratch, "e-memory.csv", points);
    write_text(scratch, "r.jsonl", text);
    struct status status = {0};
    if (!report(scratch, false, &out, &status))
        fail_msg("%s", status.message);
    static const char *const words[] = {"seco, chunk 64, seed 1 1024 to 2048 25600 51200 ",
                                        "seco, chunk 64, seed 1, inner checkpoint 1024 to 2048 5120 10240 ",
                                        "seco, chunk 64, seed 2 1024 to 2048 10240 20480 ", NULL};
    expect_words(squeezed(out), words);
    free(out);
    free(text);
}

static void times_of_plans_are_called_estimates(void **state)
{
    const struct scratch *scratch = *state;
    char *records = all_records(), *text;
    write_text(scratch, "e-time.csv", "# P\nmethod,chunk,context,seconds\nseco,64,1024,2.048\nseco,64,9,1\n");
    write_text(scratch, "r.jsonl", records);
    struct status status = {0};
    assert_true(report(scratch, false, &text, &status));
    static const char *const words[] = {"published: P (measured)\n",
                                        "ours: an estimate (roofline, profile card), not a measurement\n",
                                        "no record of ours for 1 of 2 published points\n",
                                        "seco, chunk 64, dKV f32 1024 2.048 1.024 0.500\n", NULL};
    expect_words(squeezed(text), words);
    assert_null(strstr(text, "per token"));
    free(text);
    free(records);
}

// Of a method that draws its columns the mean over draws is ours, with how many they had; one draw is none.
static void times_of_draws_say_how_many_columns(void **state)
{
    const struct scratch *scratch = *state;
    char *line = record(1, "'spaco', 'chunk': 64, 'budget': 2, 'sampler': 'bernoulli'", "f32", 1024, 50),
         *end = strrchr(line, '}'), *lines, *text;
    assert_true(asprintf(&lines, "%.*s, \"sample_columns\": [1, 2, 2]}\n", (int)(end - line), line) > 0);
    write_text(scratch, "e-time.csv", "# P\nmethod,chunk,context,seconds\nspaco,64,1024,2.048\nseco,64,1024,1\n");
    write_text(scratch, "r.jsonl", lines);
    struct status status = {0};
    assert_true(report(scratch, false, &text, &status));
    static const char *const words[] = {"where columns are drawn ours is the mean over draws\n",
                                        "published s ours s ratio columns drawn\n",
                                        "spaco, chunk 64 1024 2.048 1.024 0.500 1.67\n", NULL};
    expect_words(squeezed(text), words);
    free(text);
    write_text(scratch, "r.jsonl", line);
    assert_true(report(scratch, false, &text, &status));
    static const char *const one_draw[] = {"published s ours s ratio\n", "spaco, chunk 64 1024 2.048 - -\n", NULL};
    expect_words(squeezed(text), one_draw);
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
    char *text = NULL, *out, *figure;
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
    write_text(scratch, "e-time.csv",
               "# P\nmethod,batch,context,seconds_per_sample\nseco,1,,2\nseco,2,1024,1.6\nseco,8,,1\n");
    write_text(scratch, "r.jsonl", text);
    struct status status = {0};
    if (!report(scratch, false, &out, &status))
        fail_msg("%s", status.message);
    static const char *const words[] = {"e, time\npublished: P (measured)\n",
                                        "per sample: of ours the step's over its batch\n",
                                        "no record of ours for 1 of 3 published points\n",
                                        "series batch published s ours s ratio\n",
                                        "seco, context 1024 1 2.000 1.000 0.500\n",
                                        "seco, context 1024 2 1.600 0.800 0.500\n",
                                        "worst at batch above published oom\n",
                                        "seco, context 1024 2 0.500 0.500 1 0 0\n",
                                        NULL};
    expect_words(squeezed(out), words);
    assert_null(strstr(out, "seco, context 2048 2 "));
    struct published published;
    assert_true(published_load(&published, scratch->folder, &status));
    stream = open_memstream(&figure, &bytes);
    const struct published_file *file = published_find(&published, "e", PUBLISHED_TIME);
    assert_true(figure_published_time.tabulate_beside(records, 3, file, stream));
    assert_int_equal(fclose(stream), 0);
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

static void the_figures_table_has_both(void **state)
{
    const struct scratch *scratch = *state;
    write_text(scratch, "e-memory.csv", points);
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
    char *text;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    const struct published_file *file = published_find(&published, "e", PUBLISHED_MEMORY);
    assert_non_null(file);
    assert_true(figure_published_memory.tabulate_beside(records, 4, file, stream));
    assert_int_equal(fclose(stream), 0);
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

#define BARS(profile, training)                                                                                    \
    "{'setting': {'model': 'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': 1, 'lora': " training         \
    ", 'kv_gradient_dtype': 'f32', 'profile': '" profile                                                           \
    "'}, 'limit_bytes': 1073741824, 'revision': 'abc', 'methods'"                                                  \
    ": [{'method': {'name': 'full'}, 'max_context': 0}, {'method': {'name': 'seco', 'chunk': 64}, 'max_context': " \
    "1234567}]}"

static void the_pictures_are_drawn(void **state)
{
    struct scratch *scratch = *state;
    char *records = all_records(), *card = quoted(BARS("card", "{'rank': 8}")),
         *other = quoted(BARS("card", "null"));
    write_text(scratch, "e-memory.csv", points);
    write_text(scratch, "e-time.csv", "# P\nmethod,chunk,context,seconds\nseco,64,1024,2.048\n");
    write_text(scratch, "e-max-context.csv",
               "# P2\nseries,method,model,training,profile,host,mark,setting,kilotokens\n"
               "S,seco,small,lora,card,,,,1.5\n"
               "Theirs,,small,,card,,sparse,eight cards,9\n"
               "With a host,,small,lora,card,yes,,,8\n"
               "Elsewhere,,large,lora,card,,,,7\n");
    write_text(scratch, "r.jsonl", records);
    write_text(scratch, "card.json", card);
    write_text(scratch, "other.json", other);
    struct scratch_path path = scratch_path(scratch, "r.jsonl"), out = scratch_path(scratch, "out"),
                        bars[] = {scratch_path(scratch, "card.json"), scratch_path(scratch, "other.json")};
    const char *paths[] = {path.text}, *bar_paths[] = {bars[0].text, bars[1].text};
    struct plot_request request = {.paths = paths,
                                   .path_count = 1,
                                   .max_context_paths = bar_paths,
                                   .max_context_count = 2,
                                   .form = {.folder = out.text, .scripts = "plots", .formats = "svg,png,tsv"},
                                   .figures = "published-memory,published-time",
                                   .published = scratch->folder};
    struct status status = {0};
    if (!plot(&request, &status))
        fail_msg("%s", status.message);
    static const char *const names[] = {"out/e-published-memory.svg", "out/e-published-time.svg",
                                        "out/max-context.svg"};
    static const char *const words[][4] = {
        {"planned, nothing was measured", "published: A paper, Figure 1", "seco, dKV in f32", NULL},
        {"estimate (roofline), profile card", "published: P<", NULL},
        {"1,234,567", "planned at revision abc", "9,000, sparse", NULL}};
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
    write_text(scratch, "other.json", "{}");
    assert_false(plot(&request, &status));
    assert_non_null(strstr(status.message, "not what `longbp max-context --json` prints"));
    free(table);
    free(card);
    free(other);
    free(records);
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
    write_text(scratch, "other-time.csv", "# P\nmethod,context,seconds\nseco,1,1\n");
    write_text(scratch, "r.jsonl", records);
    struct status status = {0};
    if (!report(scratch, false, &text, &status))
        fail_msg("%s", status.message);
    // launches, ms, of the step, GFLOP, GB, GFLOP/s, GB/s, of the roofline
    static const char *const words[] = {
        "e, where a step's time goes: seco, chunk 4\nsmall, f32, cpu, batch 1, context 8\n",
        "a step of 100.000 ms, taken apart beside the samples, whose median is 90.000 ms\n",
        "counted FLOPs at 1000 GFLOP/s and bytes at 1 GB/s",
        // The longest first, and below their category.
        "\nGEMM 3 60.000 60.0 % 21.000 - 350.0 - 35.0 %\n gemm 4 x 5 x 6 2 40.000 40.0 % 20.000 - 500.0 - 50.0 %\n "
        "gemm 7 x 8 x 9 1 20.000 20.0 % 1.000 - 50.0 - 5.0 %\nnorm 3 10.000 10.0 % - 0.010 - 1.0 100.0 %\n"
        "head 2 20.000 20.0 % 1.000 0.001 50.0 0.1 10.0 %\n gemm 1 x 2 x 3 1 15.000",
        "\nidle - 10.000 10.0 % - - - - -\nstep 8 100.000 100.0 % 22.000 0.011 220.0 0.1 33.0 %\n", NULL};
    expect_words(squeezed(text), words);
    free(text);
    assert_true(report(scratch, true, &text, &status));
    static const char *const markdown[] = {"## e, where a step's time goes: seco, chunk 4\n",
                                           "| head | 2 | 20.000 | 20.0 % |", NULL};
    expect_words(squeezed(text), markdown);
    free(text);
    // Of a method that draws its columns it is one draw that is taken apart.
    char *end = strstr(records, "\"median_ms\""), *drawn;
    assert_true(asprintf(&drawn, "%.*s\"columns\": [1, 3], \"sample_columns\": [2, 0], \"mean_ms\": 80, %s",
                         (int)(end - records), records, end) > 0);
    write_text(scratch, "r.jsonl", drawn);
    assert_true(report(scratch, false, &text, &status));
    static const char *const of_draw[] = {"a step of 100.000 ms over draw 0, of 2 columns, taken apart beside the "
                                          "samples, whose mean over draws is 80.000 ms\n",
                                          NULL};
    expect_words(squeezed(text), of_draw);
    free(text);
    free(drawn);
    free(records);
}

static void bad_points_are_refused_with_the_line(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *name, *text, *message;
    } bad[] = {
        {"e-memory.csv", "method,context,peak_mib\n", "e-memory.csv:1: expected the source"},
        {"e-memory.csv", "# P\nmethod,contxt,peak_mib\n", "e-memory.csv:2: expected columns of"},
        {"e-memory.csv", "# P\nmethod,context,seconds\n", ":2: the file's name says another quantity"},
        {"e-memory.csv", "# P\nmethod,context,context,peak_mib\n",
         ":2: a column is given twice, found \"context\""},
        {"e-memory.csv", "# P\nmethod,context\n", ":2: expected the columns method"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1,-3\n",
         ":3: expected a number above 0, found \"-3\""},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1,nan\n", ":3: expected a number above 0"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1.5,3\n", ":3: expected a whole number above 0"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,,3\n", ":3: expected a whole number above 0"},
        {"e-memory.csv", "# P\nmethod,context,batch,peak_mib\nseco,1,,3\n", ":3: expected a whole number above 0"},
        {"e-memory.csv", "# P\nmethod,batch,seconds_per_sample\n", ":2: the file's name says another quantity"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1\n", ":3: fewer fields than columns"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\nseco,1,2,3\n", ":3: more fields than columns"},
        {"e-memory.csv", "# P\nmethod,context,peak_mib\n", "e-memory.csv: no points"},
        {"e-max-context.csv", "# P\nmethod,host,kilotokens\n,1 TB,3\n", ":3: host is yes or empty, found \"1 TB\""},
        {"e-speed.csv", "# P\n", "the name is not EXPERIMENT-memory.csv"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct published published;
        struct status status = {0};
        write_text(scratch, bad[i].name, bad[i].text);
        if (published_load(&published, scratch->folder, &status))
            fail_msg("accepted: %s", bad[i].text);
        if (!strstr(status.message, bad[i].message))
            fail_msg("expected %s\n   found %s", bad[i].message, status.message);
        published_free(&published);
        remove(scratch_path(scratch, bad[i].name).text);
    }
}

static void without_anything_to_compare_it_says_what_there_is(void **state)
{
    const struct scratch *scratch = *state;
    char *records = all_records(), *text;
    struct status status = {0};
    write_text(scratch, "r.jsonl", records);
    assert_false(report(scratch, false, &text, &status));
    assert_non_null(strstr(status.message, "holds no .csv"));
    free(text);
    status = (struct status){0};
    write_text(scratch, "other-time.csv", "# P\nmethod,context,seconds\nseco,1,1\n");
    assert_false(report_of(scratch, false, true, &text, &status));
    assert_non_null(strstr(status.message, "none says where its step's time goes"));
    assert_non_null(strstr(status.message, "experiments with published points: other"));
    free(text);
    status = (struct status){0};
    write_text(scratch, "r.jsonl", "{}\n");
    assert_false(report(scratch, false, &text, &status));
    assert_non_null(strstr(status.message, "r.jsonl:1:"));
    free(text);
    free(records);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(points_are_held_against_their_records),
        TEST(predictions_are_held_against_times),
        TEST(curves_are_of_one_setting),
        TEST(times_of_plans_are_called_estimates),
        TEST(times_of_draws_say_how_many_columns),
        TEST(points_may_run_along_the_batch),
        TEST(the_figures_table_has_both),
        TEST(the_pictures_are_drawn),
        TEST(where_a_steps_time_goes),
        TEST(bad_points_are_refused_with_the_line),
        TEST(without_anything_to_compare_it_says_what_there_is),
        cmocka_unit_test(the_committed_points_are_read),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
