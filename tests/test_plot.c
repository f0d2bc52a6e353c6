// Tests of harness/plot: the tables that pictures are drawn from, the pictures, and what is said when there are
// none. Records are written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/plot/figure.h"
#include "harness/plot/plot.h"
#include "tests/parsed_record.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

// A record: what differs between the tests' records is the status, the experiment, the trial's dtype, context and
// method, and what was measured (the rest of the object, from its first comma).
static char *record(int id, const char *experiment, const char *status, const char *dtype, int context,
                    const char *method, const char *measured)
{
    char *text, *line;
    assert_true(
        asprintf(&text,
                 "{'schema': 2, 'id': '%032x', 'experiment': '%s', 'status': '%s', 'reason': '', 'trial': "
                 "{'model': 'tiny', 'dtype': '%s', 'device': 'cpu', 'batch': 1, 'context': %d, 'seed': 1, "
                 "'lora': null, 'method': %s, 'measure': {'samples': 3}, 'limits': {'memory': 1000000}}, "
                 "'provenance': {'revision': 'abcdef123456', 'dirty': false, 'cpu': 'A CPU', 'threads': 2}%s}",
                 id, experiment, status, dtype, context, method, measured) > 0);
    line = quoted(text);
    free(text);
    return line;
}

static const char full[] = "{'name': 'full'}";
static const char seco_64[] = "{'name': 'seco', 'chunk': 64, 'inner': 'none'}";
static const char seco_128[] = "{'name': 'seco', 'chunk': 128, 'inner': 'none'}";

#define SPACO(budget, sampler, compensation)                                                                       \
    "{'budget': " #budget ", 'chunk': 64, 'compensation': '" compensation                                          \
    "', 'name': 'spaco', 'sampler': '" sampler "'}"

// Samples that each walked a draw, how many columns those had, their mean and its standard error.
#define DRAWN(samples, columns, mean, error)                                                                       \
    ", 'median_ms': 9, 'samples_ms': " samples ", 'sample_columns': " columns ", 'mean_ms': " mean                 \
    ", 'mean_error_ms': " error

static const struct figure *figure_named(const char *name)
{
    for (size_t i = 0; figures[i]; i++) {
        if (strcmp(figures[i]->name, name) == 0) {
            return figures[i];
        }
    }
    fail_msg("no figure %s", name);
    return NULL;
}

// The table of a figure of these records (lines that end in NULL, freed here); NULL if there is none.
static char *table_of(const char *figure, char *const *lines)
{
    const struct record *records[64];
    size_t count = 0, bytes;
    for (; lines[count]; count++) {
        records[count] = &parsed_record(lines[count])->record;
        free(lines[count]);
    }
    char *text;
    FILE *stream = open_memstream(&text, &bytes);
    bool enough = figure_named(figure)->tabulate(records, count, stream);
    assert_int_equal(fclose(stream), 0);
    for (size_t i = 0; i < count; i++) {
        parsed_record_free(records[i]);
    }
    if (!enough) {
        free(text);
        return NULL;
    }
    return text;
}

static void expect_table(const char *figure, char *const *lines, const char *expected)
{
    char *table = table_of(figure, lines);
    assert_non_null(table);
    assert_string_equal(table, expected);
    free(table);
}

static void test_memory_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 256, seco_128, ", 'peak_bytes': 300, 'lower_bound_bytes': 250"),
        record(2, "e", "ok", "f32", 128, seco_128, ", 'peak_bytes': 200, 'lower_bound_bytes': 150.5"),
        record(3, "e", "oom", "f32", 256, full, ", 'peak_bytes': 77, 'lower_bound_bytes': 99"),
        record(4, "e", "ok", "f32", 128, full, ", 'peak_bytes': 34359738369, 'lower_bound_bytes': null"),
        record(5, "e", "timeout", "f32", 512, full, ", 'peak_bytes': 5"),
        record(6, "e", "ok", "f32", 128, seco_64, ", 'peak_bytes': 180, 'lower_bound_bytes': 150"),
        NULL,
    };
    expect_table("memory", lines,
                 "series\tmethod\tlabel\trank\tcontext\tpeak_bytes\tlower_bound_bytes\tlimit_bytes\toom\n"
                 "1\tfull\tfull\t0\t128\t34359738369\tNaN\t1000000\t0\n"
                 "1\tfull\tfull\t0\t256\tNaN\tNaN\t1000000\t1\n"
                 "2\tseco\tseco, chunk 64\t0\t128\t180\t150\t1000000\t0\n"
                 "3\tseco\tseco, chunk 128\t1\t128\t200\t150.5\t1000000\t0\n"
                 "3\tseco\tseco, chunk 128\t1\t256\t300\t250\t1000000\t0\n");
    char *alone[] = {record(1, "e", "ok", "f32", 256, full, ", 'peak_bytes': 300"),
                     record(2, "e", "ok", "f32", 128, seco_64, ", 'peak_bytes': 300"), NULL};
    assert_null(table_of("memory", alone)); // no curve: every series has one context
}

static void test_time_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 256, full, ", 'median_ms': 4, 'samples_ms': [4, 3.5, 9]"),
        record(2, "e", "ok", "f32", 128, full, ", 'median_ms': 2, 'samples_ms': []"),
        record(3, "e", "ok", "f32", 64, full, ", 'median_ms': null, 'samples_ms': []"),
        record(4, "e", "oom", "f32", 512, full, ""),
        // Of draws the mean; of one draw alone nothing is known of the others.
        record(5, "e", "ok", "f32", 128, SPACO(2, "bernoulli", "paper"),
               DRAWN("[1, 1, 7]", "[0, 1, 5]", "3", "0.5")),
        record(6, "e", "ok", "f32", 256, SPACO(2, "bernoulli", "paper"),
               ", 'median_ms': 4, 'samples_ms': [4, 4, 4]"),
        NULL,
    };
    expect_table("time", lines,
                 "series\tmethod\tlabel\trank\tcontext\tstep_ms\tlow_ms\thigh_ms\tdrawn\n"
                 "1\tfull\tfull\t0\t128\t2\t2\t2\tNaN\n"
                 "1\tfull\tfull\t0\t256\t4\t3.5\t9\tNaN\n"
                 "2\tspaco\tspaco, chunk 64, budget 2\t0\t128\t3\t2\t4\t2\n");
}

static void test_chunk_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 256, "{'name': 'streambp', 'chunk': 4096}",
               ", 'median_ms': 3, 'samples_ms': [3], 'peak_bytes': 30"),
        record(2, "e", "ok", "f32", 256, "{'name': 'streambp', 'chunk': 32}",
               ", 'median_ms': 2, 'samples_ms': [2], 'peak_bytes': 20"),
        record(3, "e", "oom", "f32", 256, "{'name': 'streambp', 'chunk': 64}", ""),
        record(4, "e", "ok", "f32", 256, full, ", 'median_ms': 1, 'samples_ms': [1], 'peak_bytes': 90"),
        NULL,
    };
    // A method without chunks has none; a chunk above the context is the whole context.
    expect_table("chunk", lines,
                 "series\tmethod\tlabel\trank\tchunk\tstep_ms\tlow_ms\thigh_ms\tdrawn\tpeak_bytes\toom\n"
                 "1\tfull\tfull\t0\tNaN\t1\t1\t1\tNaN\t90\t0\n"
                 "2\tstreambp\tstreambp\t0\t32\t2\t2\t2\tNaN\t20\t0\n"
                 "2\tstreambp\tstreambp\t0\t64\tNaN\tNaN\tNaN\tNaN\tNaN\t1\n"
                 "2\tstreambp\tstreambp\t0\t256\t3\t3\t3\tNaN\t30\t0\n");
}

// Times are means over draws, held against the mean of the walk over all columns: budgets 1 and 2 differ also where
// the first draws of both are alike, and a record of one draw alone has no time.
static void test_sparsity_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f64", 250, seco_64, ", 'median_ms': 9, 'samples_ms': [8, 9, 13]"),
        record(2, "e", "ok", "f64", 250, SPACO(2, "uniform", "paper"),
               DRAWN("[5, 6, 7]", "[2, 2, 2]", "6", "0.5") ", 'bias': {'relative_l2': 0.25, 'rms_error': 0.5}"),
        record(3, "e", "ok", "f64", 250, SPACO(1, "uniform", "paper"),
               DRAWN("[4]", "[1]", "4", "null") ", 'bias': null"),
        record(4, "e", "ok", "f64", 250, SPACO(1, "uniform", "none"),
               ", 'median_ms': 4, 'samples_ms': [4], 'bias': {'relative_l2': 0.75, 'rms_error': 2}"),
        record(5, "e", "ok", "f64", 250, SPACO(1, "bernoulli", "paper"),
               DRAWN("[0.1, 0.1, 5.8]", "[0, 0, 2]", "2", "1.5")),
        record(6, "e", "ok", "f64", 250, SPACO(2, "bernoulli", "paper"),
               DRAWN("[0.1, 5.9, 9]", "[0, 2, 3]", "5", "2.5")),
        record(7, "e", "failed", "f64", 250, SPACO(3, "bernoulli", "paper"), ""),
        NULL,
    };
    // Compensation is named only where the sampler alone does not tell.
    expect_table(
        "sparsity", lines,
        "series\tmethod\tlabel\trank\tbudget\tcolumns\tdrawn\ttime_ratio\ttime_ratio_low\ttime_ratio_high\tbias\t"
        "rms_error\n"
        "1\tspaco\tbernoulli\t0\t1\t4\t0.666666666666667\t0.2\t-0.1\t0.5\tNaN\tNaN\n"
        "1\tspaco\tbernoulli\t0\t2\t4\t1.66666666666667\t0.5\t0\t1\tNaN\tNaN\n"
        "2\tspaco\tuniform, no compensation\t1\t1\t4\tNaN\tNaN\tNaN\tNaN\t0.75\t2\n"
        "3\tspaco\tuniform, paper\t2\t1\t4\t1\t0.4\tNaN\tNaN\tNaN\tNaN\n"
        "3\tspaco\tuniform, paper\t2\t2\t4\t2\t0.6\t0.5\t0.7\t0.25\t0.5\n");
}

static void test_gradient_error_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f64", 64, full, ", 'gradient': {'relative_l2': 0, 'noise_floor': 1e-16}"),
        record(2, "e", "ok", "f32", 64, full,
               ", 'gradient': {'relative_l2': 1e-7, 'noise_floor': 2e-7, 'worst_relative_l2': 3e-7, "
               "'max_abs': 4e-9, 'cosine': 1}"),
        record(3, "e", "ok", "f32", 64, SPACO(1, "uniform", "paper"), ", 'gradient': {'relative_l2': 0.9}"),
        record(4, "e", "ok", "f32", 64, seco_64, ", 'gradient': null"),
        NULL,
    };
    // What a sampled estimate strays by is not rounding.
    expect_table(
        "gradient-error", lines,
        "series\tmethod\tlabel\trank\tdtype\trelative_l2\tnoise_floor\tworst_relative_l2\tmax_abs\tcosine\n"
        "1\tfull\tfull\t0\tf64\t0\t1e-16\tNaN\tNaN\tNaN\n"
        "1\tfull\tfull\t0\tf32\t1e-07\t2e-07\t3e-07\t4e-09\t1\n");
}

// 5000 events, of which one is the highest: it must be in the table, and the last event too.
static void test_timeline_keeps_the_peak(void **state)
{
    (void)state;
    enum { EVENTS = 5000, PEAK = 3217 };
    char *measured;
    size_t bytes;
    FILE *stream = open_memstream(&measured, &bytes);
    fputs(", 'timeline': {'category_order': ['weights', 'activations'], 'events': [", stream);
    for (int i = 0; i < EVENTS; i++) {
        fprintf(stream, "%s[%d, %d, 1000, %d]", i ? ", " : "", i, 10 * i, i == PEAK ? 777 : i % 7);
    }
    fputs("]}", stream);
    assert_int_equal(fclose(stream), 0);
    char *lines[] = {record(1, "e", "ok", "f32", 64, full, measured), NULL};
    free(measured);
    char *table = table_of("timeline", lines);
    assert_non_null(table);
    assert_non_null(strstr(table, "rank\tms\tflops\tweights\tactivations\n"));
    assert_non_null(strstr(table, "1\tfull\tfull\t0\t3217\t32170\t1000\t777\n"));
    assert_string_equal(strrchr(table, '\n') - strlen("4999\t49990\t1000\t1"), "4999\t49990\t1000\t1\n");
    size_t rows = 0;
    for (char *c = table; (c = strchr(c, '\n')); c++) {
        rows++;
    }
    assert_in_range(rows, 700, 900); // two corners for each of at most 400 steps
    free(table);
}

#define ROW(category, operation, shape, ms, estimate)                                                              \
    "{'category': '" category "', 'operation': '" operation "', 'shape': " shape                                   \
    ", 'launches': 1, 'flops': 2, 'bytes_moved': 3, 'ms': " ms ", 'estimate_ms': " estimate "}"
#define CATEGORIES(step_ms, rows) ", 'categories': {'step_ms': " step_ms ", 'roofline': null, 'rows': [" rows "]}"

// Milliseconds by category, of a plan its estimates; what has neither has no bar.
static void test_categories_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 64, seco_64,
               CATEGORIES("6.5", ROW("idle", "idle", "null", "0.5", "0") ", " ROW(
                                     "GEMM", "gemm", "[1, 2, 3]", "1.5",
                                     "1") ", " ROW("attention glue", "attention_glue", "null", "2.5",
                                                   "1") ", " ROW("GEMM", "gemm", "[4, 5, 6]", "2", "1"))),
        record(2, "e", "ok", "f32", 64, full,
               CATEGORIES("null", ROW("idle", "idle", "null", "null", "0") ", " ROW("head", "gemm", "[1, 2, 3]",
                                                                                    "null", "7"))),
        record(3, "e", "ok", "f32", 64, seco_128,
               CATEGORIES("null", ROW("norm", "rmsnorm_forward", "null", "null", "null"))),
        record(4, "e", "ok", "f32", 64, SPACO(2, "bernoulli", "paper"), // one step, over one draw
               ", 'columns': [0, 1, 3]" CATEGORIES("6", ROW("norm", "rmsnorm_forward", "null", "6", "null"))),
        NULL,
    };
    expect_table("categories", lines,
                 "series\tmethod\tlabel\trank\testimated\tGEMM\tattention_forward\tattention_backward\t"
                 "attention_glue\tnorm\tRoPE\tSwiGLU\tbias\tembedding\thead\tcopy\toptimizer\tidle\n"
                 "1\tfull\tfull\t0\t1\t0\t0\t0\t0\t0\t0\t0\t0\t0\t7\t0\t0\t0\n"
                 "2\tseco\tseco, chunk 64\t0\t0\t3.5\t0\t0\t2.5\t0\t0\t0\t0\t0\t0\t0\t0\t0.5\n"
                 "3\tspaco\tspaco, chunk 64, budget 2, a draw of 3\t0\t0\t0\t0\t0\t0\t6\t0\t0\t0\t0\t0\t0\t0\t0\n");
    char *none[] = {record(1, "e", "ok", "f32", 64, full, ", 'categories': null"), NULL};
    assert_null(table_of("categories", none));
}

static void write_records(struct scratch *scratch, const char *name, char *const *lines)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "w");
    assert_non_null(file);
    for (size_t i = 0; lines[i]; i++) {
        fprintf(file, "%s\n", lines[i]);
        free(lines[i]);
    }
    assert_int_equal(fclose(file), 0);
}

static char *read_text(const struct scratch *scratch, const char *name)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "rb");
    if (!file) {
        fail_msg("%s was not written", name);
    }
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static bool exists(const struct scratch *scratch, const char *name)
{
    return access(scratch_path(scratch, name).text, F_OK) == 0;
}

struct request_files {
    const char *names[3];
};

static bool draw(const struct scratch *scratch, struct request_files files, const char *formats,
                 const char *scripts, struct status *status)
{
    struct scratch_path paths[3], folder = scratch_path(scratch, "out/deep");
    const char *texts[3];
    size_t count = 0;
    for (; count < 3 && files.names[count]; count++) {
        paths[count] = scratch_path(scratch, files.names[count]);
        texts[count] = paths[count].text;
    }
    struct plot_request request = {
        .paths = texts, .path_count = count, .folder = folder.text, .scripts = scripts, .formats = formats};
    return plot(&request, status);
}

static void must_draw(const struct scratch *scratch, struct request_files files, const char *formats)
{
    struct status status = {0};
    if (!draw(scratch, files, formats, "plots", &status)) {
        fail_msg("%s", status.message);
    }
}

// Two contexts of one method: enough for memory and time.
static void write_sweep(struct scratch *scratch, const char *name, const char *dtype, int id)
{
    char *lines[] = {
        record(id, "sweep", "ok", dtype, 128, full,
               ", 'peak_bytes': 5000000, 'lower_bound_bytes': 4000000, 'median_ms': 5, 'samples_ms': [5, 6]"),
        record(id + 1, "sweep", "ok", dtype, 256, full,
               ", 'peak_bytes': 9000000, 'lower_bound_bytes': 8000000, 'median_ms': 9, 'samples_ms': [9, 11]"),
        record(id + 2, "sweep", "crash", dtype, 512, full, ""),
        NULL,
    };
    write_records(scratch, name, lines);
}

static void test_pictures(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    must_draw(scratch, (struct request_files){{"r.jsonl"}}, "svg,png");
    char *svg = read_text(scratch, "out/deep/sweep-memory.svg"),
         *png = read_text(scratch, "out/deep/sweep-time.png");
    assert_non_null(strstr(svg, "</svg>"));
    const char *const words[] = {"Peak memory against context",
                                 "context (tokens)",
                                 "peak memory (MiB)",
                                 "tiny, f32, cpu, batch 1",
                                 "r.jsonl",
                                 "revision abcdef123456",
                                 "A CPU, 2 threads",
                                 "no result from 1 of 3 trials"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strstr(svg, words[i])) {
            fail_msg("\"%s\" is not in the picture", words[i]);
        }
    }
    assert_memory_equal(png, "\x89PNG\r\n", 6);
    assert_true(exists(scratch, "out/deep/sweep-time.svg") && exists(scratch, "out/deep/sweep-memory.png"));
    assert_true(exists(scratch, "out/deep/data/sweep-memory.tsv"));
    assert_false(exists(scratch, "out/deep/sweep-chunk.svg"));
    free(svg);
    free(png);
}

// Every figure's script runs, with names that no method here has and a file name full of gnuplot's own signs.
static void test_every_script_runs(void **state)
{
    struct scratch *scratch = *state;
    const char *other = "{'name': 'other', 'chunk': 64}";
    char *lines[] = {
        record(1, "all", "ok", "f32", 128, other, ", 'peak_bytes': 50, 'median_ms': 5, 'samples_ms': [5]"),
        record(2, "all", "ok", "f32", 4096, other, ", 'peak_bytes': 5000, 'median_ms': 9, 'samples_ms': [9]"),
        record(3, "all", "oom", "f32", 4096, seco_64, ""),
        record(4, "all", "ok", "f32", 128, "{'name': 'other', 'chunk': 16}",
               ", 'peak_bytes': 40, 'median_ms': 5, 'samples_ms': [5], 'gradient': {'relative_l2': 0}"),
        record(5, "all", "ok", "f32", 128, "{'name': 'other', 'chunk': 32}",
               ", 'peak_bytes': 45, 'median_ms': 5, 'samples_ms': [5], 'gradient': {'relative_l2': 0}, "
               "'timeline': {'category_order': ['weights', 'activations', 'gradients', 'optimizer', 'data', "
               "'hidden_checkpoints', 'kv_cache', 'kv_gradients', 'logits', 'workspace', 'host'], 'events': "
               "[[0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 8, 9, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]]}"),
        record(6, "all", "ok", "f32", 128, SPACO(1, "uniform", "paper"),
               DRAWN("[4, 5]", "[1, 1]", "4.5", "0.5") ", 'bias': {'relative_l2': 0.1}" CATEGORIES(
                   "2", ROW("GEMM", "gemm", "[1, 2, 3]", "2", "1"))),
        record(7, "all", "ok", "f32", 128, SPACO(2, "uniform", "paper"), ", 'bias': {'relative_l2': 0}"),
        record(8, "all", "ok", "f32", 128, seco_64, ", 'median_ms': 9, 'samples_ms': [9]"),
        NULL,
    };
    const char *name = "it's {x_2} `ls` @x \"q\" \\n %d.jsonl";
    write_records(scratch, name, lines);
    must_draw(scratch, (struct request_files){{name}}, "svg,png");
    const char *const pictures[] = {"all-memory",         "all-time",     "all-chunk",     "all-sparsity",
                                    "all-gradient-error", "all-timeline", "all-categories"};
    const char *const legends[7] = {[1] = "mean over draws, ± 2 standard errors",
                                    [2] = "mean over draws, ± 2 standard errors",
                                    [3] = "mean over draws, ± 2 standard errors"};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char path[80];
        snprintf(path, sizeof path, "out/deep/%s.svg", pictures[i]);
        char *svg = read_text(scratch, path);
        assert_non_null(strstr(svg, "</svg>"));
        assert_non_null(strstr(svg, "{x_2} `ls` @x"));
        assert_true(!legends[i] || strstr(svg, legends[i]));
        free(svg);
    }
}

// Planned records have no times, their contexts are more than labels have room for, and the longest fit no chunk.
static void test_planned_records(void **state)
{
    struct scratch *scratch = *state;
    char *lines[61] = {NULL};
    for (int i = 0; i < 60; i++) {
        char method[80], rest[80];
        snprintf(method, sizeof method, "{'name': 'seco', 'chunk': %d}", 16 << i % 3);
        snprintf(rest, sizeof rest, ", 'peak_bytes': %d", 1000 + i);
        bool fits = i < 54;
        lines[i] = record(i + 1, "plan", fits ? "ok" : "oom", "f32", 512 * (i / 3 + 1), method, fits ? rest : "");
    }
    write_records(scratch, "p.jsonl", lines);
    must_draw(scratch, (struct request_files){{"p.jsonl"}}, "svg");
    char *memory = read_text(scratch, "out/deep/plan-memory.svg"),
         *chunk = read_text(scratch, "out/deep/plan-chunk.svg");
    assert_non_null(strstr(memory, ">8192<"));
    assert_null(strstr(memory, ">7680<"));
    assert_non_null(strstr(chunk, "Memory against chunk size"));
    assert_non_null(strstr(chunk, "context 9216"));
    assert_false(exists(scratch, "out/deep/plan-time.svg"));
    free(memory);
    free(chunk);
}

static void test_settings_are_kept_apart(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "a.jsonl", "f32", 1);
    write_sweep(scratch, "b.jsonl", "f64", 11);
    must_draw(scratch, (struct request_files){{"a.jsonl", "b.jsonl"}}, "svg");
    assert_true(exists(scratch, "out/deep/sweep-memory-f32.svg"));
    assert_true(exists(scratch, "out/deep/sweep-memory-f64.svg"));
    assert_false(exists(scratch, "out/deep/sweep-memory.svg"));
}

static void test_the_last_record_of_a_trial_counts(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "a.jsonl", "f32", 1);
    char *lines[] = {record(2, "sweep", "ok", "f32", 256, full, ", 'peak_bytes': 123"), NULL};
    write_records(scratch, "b.jsonl", lines);
    must_draw(scratch, (struct request_files){{"a.jsonl", "b.jsonl"}}, "svg");
    char *table = read_text(scratch, "out/deep/data/sweep-memory.tsv");
    assert_non_null(strstr(table, "\t256\t123\t"));
    assert_null(strstr(table, "9000000"));
    free(table);
}

static void expect_failure(const struct scratch *scratch, const char *name, const char *formats,
                           const char *scripts, const char *message)
{
    struct status status = {0};
    assert_false(draw(scratch, (struct request_files){{name}}, formats, scripts, &status));
    if (!strstr(status.message, message)) {
        fail_msg("expected %s\n   found %s", message, status.message);
    }
}

static void test_failures_say_why(void **state)
{
    struct scratch *scratch = *state;
    char *lines[] = {record(1, "e", "ok", "f32", 128, full, ", 'peak_bytes': 1"), NULL};
    write_records(scratch, "one.jsonl", lines);
    write_sweep(scratch, "r.jsonl", "f32", 1);
    scratch_file(scratch, "empty.jsonl", "", 0);
    scratch_file(scratch, "bad.jsonl", "{}\n", 3);
    expect_failure(scratch, "one.jsonl", "svg", "plots", "none of these 1 records can be drawn");
    expect_failure(scratch, "one.jsonl", "svg", "plots", "memory: peak_bytes at two contexts");
    expect_failure(scratch, "empty.jsonl", "svg", "plots", "none of these 0 records");
    expect_failure(scratch, "bad.jsonl", "svg", "plots", "bad.jsonl:1: not a record");
    expect_failure(scratch, "absent.jsonl", "svg", "plots", "No such file");
    expect_failure(scratch, "r.jsonl", "pdf", "plots", "\"pdf\" is not one of svg,png");
    expect_failure(scratch, "r.jsonl", "svg", scratch->folder, "holds no plot scripts");
    // Scripts that are broken: gnuplot's exit status is believed.
    scratch_file(scratch, "style.gp", "", 0);
    scratch_file(scratch, "memory.gp", "plot nothing_there\n", 19);
    expect_failure(scratch, "r.jsonl", "svg", scratch->folder, "could not draw");
}

static void test_without_gnuplot(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    char *path = strdup(getenv("PATH"));
    setenv("PATH", scratch->folder, 1);
    expect_failure(scratch, "r.jsonl", "svg", "plots", "gnuplot was not found");
    setenv("PATH", path, 1);
    free(path);
}

static void test_output_folder_is_a_file(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    scratch_file(scratch, "out", "x", 1);
    expect_failure(scratch, "r.jsonl", "svg", "plots", "Not a directory");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_table),
        cmocka_unit_test(test_time_table),
        cmocka_unit_test(test_chunk_table),
        cmocka_unit_test(test_sparsity_table),
        cmocka_unit_test(test_gradient_error_table),
        cmocka_unit_test(test_timeline_keeps_the_peak),
        cmocka_unit_test(test_categories_table),
        TEST(test_pictures),
        TEST(test_every_script_runs),
        TEST(test_planned_records),
        TEST(test_settings_are_kept_apart),
        TEST(test_the_last_record_of_a_trial_counts),
        TEST(test_failures_say_why),
        TEST(test_without_gnuplot),
        TEST(test_output_folder_is_a_file),
    };
    return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
