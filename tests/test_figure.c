// Tests of harness/plot/figure: the tables that pictures are drawn from.
#define _GNU_SOURCE // asprintf
#include "tests/figure_table.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

// A series per kind of links, exchange and level of ZeRO, by the number of ranks: the minimum wait, the maximum
// bytes sent. Records without a time are left out; a single rank is in every series over its links.
static void test_interconnect_table(void **state)
{
    (void)state;
    static const char *const rest[] = {
        "'fast', 'parallel': {'sequence': 8, 'exchange': 'ring', 'zero': 0}",
        "'fast', 'parallel': {'sequence': 4, 'exchange': 'ring', 'zero': 0}",
        "'slow', 'parallel': {'sequence': 1, 'exchange': 'gather', 'zero': 3}",
        "'slow', 'parallel': {'sequence': 1, 'exchange': 'gather', 'zero': 3}",
        "'fast', 'parallel': {'sequence': 8, 'exchange': 'gather', 'zero': 0}",
        "'fast', 'parallel': {'data': 1, 'sequence': 1, 'stage': 1, 'exchange': 'gather', 'zero': 0}"};
    static const char *const idle[] = {"[0.25, 0.5]", "[0.5, 0.125]", "[0.75]", "null", "[0.5]", NULL};
    static const int ranks[] = {8, 4, 2, 1, 8};
    char *lines[COUNT(idle) + 1] = {NULL};
    for (size_t i = 0; i < COUNT(idle); i++) {
        char keys[300];
        int bytes = snprintf(keys, sizeof keys, ", 'estimate_ms': %zu", 1000 * (i + 1));
        if (idle[i])
            snprintf(keys + bytes, sizeof keys - (size_t)bytes,
                     ", 'ranks': {'count': %d, 'sent_bytes': [%zu000000000, 4000000000], 'idle_share': %s}",
                     ranks[i], i + 3, idle[i]);
        char *line = record((int)i + 1, "e", "ok", "f32", 128, seco_64, keys), *at = strstr(line, "\"context\":");
        char *interconnect = quoted(rest[i]);
        assert_non_null(at);
        assert_true(asprintf(&lines[i], "%.*s\"interconnect\": %s, %s", (int)(at - line), line, interconnect, at) >
                    0);
        free(interconnect);
        free(line);
    }
    expect_table("interconnect", lines,
                 "series\tmethod\tlabel\trank\tkind\tranks\ttime_s\tidle_percent\tsent_GB\n"
                 "1\tseco\tseco, chunk 64, ring, fast\t0\t1\t1\t6\t0\t0\n"
                 "1\tseco\tseco, chunk 64, ring, fast\t0\t1\t4\t2\t12.5\t4\n"
                 "1\tseco\tseco, chunk 64, ring, fast\t0\t1\t8\t1\t25\t4\n"
                 "2\tseco\tseco, chunk 64, zero 3, slow\t0\t2\t2\t3\t75\t5\n"
                 "3\tseco\tseco, chunk 64, gather, fast\t1\t1\t1\t6\t0\t0\n"
                 "3\tseco\tseco, chunk 64, gather, fast\t1\t1\t8\t5\t50\t7\n");
}

#define PLANNED(id, context, chunk, ms, flops)                                                                     \
    record(id, "e", "ok", "f32", context, "{'name': 'seco', 'chunk': " #chunk ", 'inner': 'none'}",                \
           ", 'estimate_ms': " #ms ", 'flops': " #flops)

// Plans by context. A chunk that stands at one context alone varies along the curve, and else it tells curves
// apart.
static void test_work_table(void **state)
{
    (void)state;
    char *shares[] = {PLANNED(1, 256, 64, 4, 100), PLANNED(2, 128, 32, 2, 50), NULL};
    expect_table("work", shares,
                 "series\tmethod\tlabel\trank\tcontext\testimate_ms\tflops\n"
                 "1\tseco\tseco\t0\t128\t2\t50\n"
                 "1\tseco\tseco\t0\t256\t4\t100\n");
    char *apart[] = {PLANNED(1, 256, 64, 4, 100), PLANNED(2, 128, 64, 2, 50), PLANNED(3, 128, 32, 3, 50), NULL};
    expect_table("work", apart,
                 "series\tmethod\tlabel\trank\tcontext\testimate_ms\tflops\n"
                 "1\tseco\tseco, chunk 32\t0\t128\t3\t50\n"
                 "2\tseco\tseco, chunk 64\t1\t128\t2\t50\n"
                 "2\tseco\tseco, chunk 64\t1\t256\t4\t100\n");
}

// Each value over that of the group of one, by method and prompt; what has no such record is left out.
static void test_prompt_table(void **state)
{
    (void)state;
    static const char *const rest[] = {"1, 'prompt': 64", "4, 'prompt': 64", "2, 'prompt': 64", "4, 'prompt': 96"};
    char *lines[5] = {NULL};
    for (int i = 0; i < 4; i++) {
        char keys[200];
        snprintf(keys, sizeof keys, ", 'peak_bytes': %d, 'flops': %d, 'estimate_ms': %d", 800 / (i + 1),
                 400 / (i + 1), i == 2 ? 0 : 64 >> i);
        char *line = record(i + 1, "e", "ok", "f32", 128, seco_64, keys), *at = strstr(line, "\"context\":");
        assert_non_null(at);
        assert_true(asprintf(&lines[i], "%.*s\"group\": %.1s, \"prompt\": %s, %s", (int)(at - line), line, rest[i],
                             strrchr(rest[i], ' ') + 1, at) > 0);
        free(line);
    }
    expect_table(
        "prompt", lines,
        "series\tmethod\tlabel\trank\tgroup\tflops_ratio\tpeak_ratio\ttime_ratio\ttime_ratio_low\ttime_ratio_high\n"
        "1\tseco\tseco, chunk 64, prompt 64 of 128\t0\t1\t1\t1\t1\tNaN\tNaN\n"
        "1\tseco\tseco, chunk 64, prompt 64 of 128\t0\t2\t0.3325\t0.3325\t0\tNaN\tNaN\n"
        "1\tseco\tseco, chunk 64, prompt 64 of 128\t0\t4\t0.5\t0.5\t0.5\tNaN\tNaN\n");
    char *alone[] = {record(1, "e", "ok", "f32", 128, seco_64, ", 'peak_bytes': 8, 'flops': 4"),
                     record(2, "e", "ok", "f32", 128, seco_64, ", 'peak_bytes': 8, 'flops': 4"), NULL};
    assert_null(table_of("prompt", alone)); // nothing is shared
}

#define SUMS(context, bf16, f32)                                                                                   \
    record(context, "e", "ok", "f32", context, full,                                                               \
           ", 'pair_sums': {'difference': 4, 'f64_error': 0, 'f32_error': " f32 ", 'bf16_error': " bf16            \
           ", 'bf16_once_error': 1}")

static void test_pair_sums_table(void **state)
{
    (void)state;
    char *lines[] = {SUMS(128, "3", "0.5"), SUMS(64, "2", "0.25"), record(3, "e", "ok", "f32", 32, full, ""), NULL};
    expect_table(
        "pair-sums", lines,
        "series\tmethod\tlabel\trank\tcontext\terror\tdifference\n"
        "1\trows and sums in bf16\trows and sums in bf16\t0\t64\t2\t4\n"
        "1\trows and sums in bf16\trows and sums in bf16\t0\t128\t3\t4\n"
        "2\trows in bf16, each sum rounded to it once\trows in bf16, each sum rounded to it once\t1\t64\t1\t4\n"
        "2\trows in bf16, each sum rounded to it once\trows in bf16, each sum rounded to it once\t1\t128\t1\t4\n"
        "3\tsums in f32\tsums in f32\t2\t64\t0.25\t4\n3\tsums in f32\tsums in f32\t2\t128\t0.5\t4\n"
        "4\tsums in f64\tsums in f64: no error\t3\t64\t0\t4\n"
        "4\tsums in f64\tsums in f64: no error\t3\t128\t0\t4\n");
}

static void test_memory_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 256, seco_128,
               ", 'peak_bytes': 300, 'lower_bound_bytes': 250, 'host_peak_bytes': 70"),
        record(2, "e", "ok", "f32", 128, seco_128, ", 'peak_bytes': 200, 'lower_bound_bytes': 150.5"),
        record(3, "e", "oom", "f32", 256, full, ", 'peak_bytes': 77, 'lower_bound_bytes': 99"),
        record(4, "e", "ok", "f32", 128, full, ", 'peak_bytes': 34359738369, 'lower_bound_bytes': null"),
        record(5, "e", "timeout", "f32", 512, full, ", 'peak_bytes': 5"),
        record(6, "e", "ok", "f32", 128, seco_64, ", 'peak_bytes': 180, 'lower_bound_bytes': 150"),
        NULL,
    };
    expect_table(
        "memory", lines,
        "series\tmethod\tlabel\trank\tcontext\tpeak_bytes\tlower_bound_bytes\tlimit_bytes\toom\thost_peak_bytes\n"
        "1\tfull\tfull\t0\t128\t34359738369\tNaN\t1000000\t0\tNaN\n"
        "1\tfull\tfull\t0\t256\tNaN\tNaN\t1000000\t1\tNaN\n"
        "2\tseco\tseco, chunk 64\t0\t128\t180\t150\t1000000\t0\tNaN\n"
        "3\tseco\tseco, chunk 128\t1\t128\t200\t150.5\t1000000\t0\tNaN\n"
        "3\tseco\tseco, chunk 128\t1\t256\t300\t250\t1000000\t0\t70\n");
    // Labels leave out characters that end a row or a chunk.
    char *broken[] = {
        record(1, "e", "ok", "f32", 256, "{'name': 'seco', 'chunk': 'a\\tb\\n'}", ", 'peak_bytes': 3"),
        record(2, "e", "ok", "f32", 128, "{'name': 'seco', 'chunk': 'a\\tb\\n'}", ", 'peak_bytes': 2"), NULL};
    expect_table(
        "memory", broken,
        "series\tmethod\tlabel\trank\tcontext\tpeak_bytes\tlower_bound_bytes\tlimit_bytes\toom\thost_peak_bytes\n"
        "1\tseco\tseco, chunk a b \t0\t128\t2\tNaN\t1000000\t0\tNaN\n"
        "1\tseco\tseco, chunk a b \t0\t256\t3\tNaN\t1000000\t0\tNaN\n");
    char *alone[] = {record(1, "e", "ok", "f32", 256, full, ", 'peak_bytes': 300"),
                     record(2, "e", "ok", "f32", 128, seco_64, ", 'peak_bytes': 300"), NULL};
    assert_null(table_of("memory", alone)); // no curve: every series has one context
    // The peak is that of the first draw: of one without chunks it says nothing.
#define PEAK(id, context, drawn, columns, peak)                                                                    \
    record(id, "e", "ok", "f32", context, SPACO(2, "bernoulli", "paper"),                                          \
           ", 'drawn_chunks': " columns ", 'sample_chunks': " drawn ", 'peak_bytes': " peak)
    char *empty[] = {PEAK(1, 64, "[0, 3]", "null", "7"), PEAK(2, 128, "[1, 0]", "[0]", "8"),
                     PEAK(3, 256, "[2, 0]", "[0, 3]", "9"), NULL};
    expect_table(
        "memory", empty,
        "series\tmethod\tlabel\trank\tcontext\tpeak_bytes\tlower_bound_bytes\tlimit_bytes\toom\thost_peak_bytes\n"
        "1\tspaco\tspaco, chunk 64, budget 2\t0\t128\t8\tNaN\t1000000\t0\tNaN\n"
        "1\tspaco\tspaco, chunk 64, budget 2\t0\t256\t9\tNaN\t1000000\t0\tNaN\n");
}

static void test_time_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 256, full, ", 'median_ms': 4, 'samples_ms': [4, 3.5, 9]"),
        record(2, "e", "ok", "f32", 128, full, ", 'median_ms': 2, 'samples_ms': []"),
        record(3, "e", "ok", "f32", 64, full, ", 'median_ms': null, 'samples_ms': []"),
        record(4, "e", "oom", "f32", 512, full, ""),
        // Draws give their mean; one draw alone gives no estimate of the others.
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
               ", 'median_ms': 3, 'samples_ms': [3, 2.5, 8], 'peak_bytes': 30, 'break_even_chunk': 48"),
        record(2, "e", "ok", "f32", 256, "{'name': 'streambp', 'chunk': 32}",
               ", 'median_ms': 2, 'samples_ms': [2], 'peak_bytes': 20, 'host_peak_bytes': 7"),
        record(3, "e", "oom", "f32", 256, "{'name': 'streambp', 'chunk': 64}", ""),
        record(4, "e", "ok", "f32", 256, full, ", 'median_ms': 1, 'samples_ms': [1], 'peak_bytes': 90"),
        NULL,
    };
    // A method without chunks has none; a chunk above the context is the whole context.
    expect_table("chunk", lines,
                 "series\tmethod\tlabel\trank\tchunk\tstep_ms\tlow_ms\thigh_ms\tdrawn\tpeak_bytes\tlimit_"
                 "bytes\toom\thost_peak_bytes\tbreak_even_chunk\n"
                 "1\tfull\tfull\t0\tNaN\t1\t1\t1\tNaN\t90\t1000000\t0\tNaN\tNaN\n"
                 "2\tstreambp\tstreambp\t0\t32\t2\t2\t2\tNaN\t20\t1000000\t0\t7\tNaN\n"
                 "2\tstreambp\tstreambp\t0\t64\tNaN\tNaN\tNaN\tNaN\tNaN\t1000000\t1\tNaN\tNaN\n"
                 "2\tstreambp\tstreambp\t0\t256\t3\t2.5\t8\tNaN\t30\t1000000\t0\tNaN\t48\n");
}

static char *on_plan(char *line)
{
    static const char cpu[] = "\"cpu\", \"batch\"";
    char *at = strstr(line, cpu), *text = NULL;
    assert_non_null(at);
    assert_true(asprintf(&text, "%.*s\"plan\", \"batch\"%s", (int)(at - line), line, at + strlen(cpu)) > 0);
    free(line);
    return text;
}

static void test_chunk_table_of_plans(void **state)
{
    (void)state;
    char *lines[] = {on_plan(PLANNED(1, 128, 32, 4, 100)), on_plan(PLANNED(2, 128, 64, 3, 100)),
                     on_plan(PLANNED(3, 128, 128, 2, 100)), NULL};
    expect_table("chunk", lines,
                 "series\tmethod\tlabel\trank\tchunk\tstep_ms\tlow_ms\thigh_ms\tdrawn\tpeak_bytes\tlimit_"
                 "bytes\toom\thost_peak_bytes\tbreak_even_chunk\n"
                 "1\tseco\tseco\t0\t32\t4\t4\t4\tNaN\tNaN\t1000000\t0\tNaN\tNaN\n"
                 "1\tseco\tseco\t0\t64\t3\t3\t3\tNaN\tNaN\t1000000\t0\tNaN\tNaN\n"
                 "1\tseco\tseco\t0\t128\t2\t2\t2\tNaN\tNaN\t1000000\t0\tNaN\tNaN\n");
}

// Times are means over draws, held against the mean of the walk over all chunks: budgets 1 and 2 differ also where
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
        // A method without draws has no mean over draws: neither a point nor a series.
        record(8, "e", "ok", "f64", 250, SPACO(1, "fixed", "paper"), ", 'median_ms': 4, 'samples_ms': [4]"),
        record(9, "e", "ok", "f64", 250, SPACO(2, "fixed", "paper"), ", 'median_ms': 5, 'samples_ms': [5]"),
        NULL,
    };
    // Compensation is named only where the sampler alone does not tell.
    expect_table("sparsity", lines,
                 "series\tmethod\tlabel\trank\tbudget\tchunks\tdrawn\ttime_ratio\ttime_ratio_low\ttime_ratio_"
                 "high\trounds\tbias\t"
                 "rms_error\n"
                 "1\tspaco\tsampler bernoulli\t0\t1\t4\t0.666666667\t0.2\t0.01\t0.5\t0\tNaN\tNaN\n"
                 "1\tspaco\tsampler bernoulli\t0\t2\t4\t1.66666667\t0.5\t0.01\t1\t0\tNaN\tNaN\n"
                 "2\tspaco\tsampler uniform, compensation none\t1\t1\t4\tNaN\tNaN\tNaN\tNaN\t0\t0.75\t2\n"
                 "3\tspaco\tsampler uniform, compensation paper\t2\t2\t4\t2\t0.6\t0.5\t0.7\t0\t0.25\t0.5\n");
}

#define DEFERRED(deferral, share)                                                                                  \
    "{'name': 'deferred', 'chunk': 64, 'deferral': " #deferral ", 'backward_share': " #share "}"
#define MOMENTS(l2, rms, subsets, flops)                                                                           \
    ", 'bias': {'relative_l2': " #l2 ", 'rms_error': " #rms ", 'subsets': " #subsets ", 'flops': " #flops "}"

// Work is the mean over draws, not that of the first; what skips chunks, or drops gradients of keys, has a series.
static void test_estimates_table(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f64", 250, seco_64, ", 'flops': 400"),
        record(2, "e", "ok", "f64", 250, SPACO(2, "uniform", "paper"), ", 'flops': 7" MOMENTS(0.25, 0.5, 6, 200)),
        record(3, "e", "ok", "f64", 250, SPACO(1, "uniform", "paper"), ", 'flops': 7" MOMENTS(0.5, 1, 4, 100)),
        record(4, "e", "ok", "f64", 250, SPACO(3, "uniform", "paper"), ", 'flops': 300, 'bias': null"),
        record(5, "e", "ok", "f64", 250, DEFERRED(0.5, 1), MOMENTS(0, 0.125, 8, 380)),
        record(6, "e", "ok", "f64", 250, DEFERRED(0, 1), MOMENTS(0.5, 0.5, 1, 300)),
        record(7, "e", "ok", "f64", 250, DEFERRED(0.25, 0.5), MOMENTS(0, 2, 54, 160)),
        NULL,
    };
    expect_table("estimates", lines,
                 "series\tmethod\tlabel\trank\twork\tbias\trms_error\tdraws\n"
                 "1\tspaco\tspaco, chunk 64\t0\t0.25\t0.5\t1\t4\n"
                 "1\tspaco\tspaco, chunk 64\t0\t0.5\t0.25\t0.5\t6\n"
                 "2\tdeferred\tdeferred, chunk 64\t1\t0.95\t0\t0.125\t8\n"
                 "3\tdeferred\tdeferred, chunk 64, some chunks skipped\t2\t0.4\t0\t2\t54\n"
                 "4\tdeferred\tdeferred, chunk 64, no gradients of keys\t3\t0.75\t0.5\t0.5\t1\n");
    char *alone[] = {
        record(1, "e", "ok", "f64", 250, SPACO(2, "uniform", "paper"), MOMENTS(0.25, 0.5, 6, 200)),
        record(2, "e", "ok", "f64", 250, SPACO(1, "uniform", "paper"), MOMENTS(0.5, 1, 4, 100)),
        NULL,
    };
    assert_null(table_of("estimates", alone)); // without the exact method's work
}

// Budgets whose walk over all chunks nobody timed, and whose errors nobody measured, have no panel.
static void test_sparsity_of_nothing(void **state)
{
    (void)state;
    char *lines[] = {
        record(1, "e", "ok", "f64", 250, SPACO(1, "uniform", "paper"), DRAWN("[4, 5]", "[1, 1]", "4", "1")),
        record(2, "e", "ok", "f64", 250, SPACO(2, "uniform", "paper"), DRAWN("[6, 7]", "[2, 2]", "6", "1")), NULL};
    assert_null(table_of("sparsity", lines));
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
    // The error of a sampled estimate is not rounding.
    expect_table(
        "gradient-error", lines,
        "series\tmethod\tlabel\trank\tdtype\trelative_l2\tnoise_floor\tworst_relative_l2\tmax_abs\tcosine\n"
        "1\tfull\tfull\t0\tf64\t0\t1e-16\tNaN\tNaN\tNaN\n"
        "1\tfull\tfull\t0\tf32\t1e-07\t2e-07\t3e-07\t4e-09\t1\n");
}

// A curve of 5000 points, with a peak and a dip of one point each, and one of five.
static void test_curves_keep_their_extremes(void **state)
{
    (void)state;
    enum { POINTS = 5000, PEAK = 3217, DIP = 41, OOM = 4000 };
    struct figure_table table = {0};
    figure_table_columns(&table, "context\tpeak_bytes\toom");
    for (int i = 0; i < POINTS + 5; i++) {
        double value = i == PEAK ? 1e9 : i == DIP ? 1 : 1000 + i % 7;
        figure_table_row(&table, 1 + (i >= POINTS), "full", 0, "full");
        FIGURE_NUMBERS(&table, i < POINTS ? 1 + i : i, i == OOM ? NAN : value, i == OOM);
    }
    figure_table_thin(&table, NULL, false);
    figure_table_thin(&table, "no such chunk", false);
    assert_int_equal(table.row_count, POINTS + 5);
    figure_table_thin(&table, "context", true);
    assert_int_equal(table.thinned_from, POINTS + 5);
    printf("%zu of %d points are left\n", table.row_count, POINTS + 5);
    assert_true(table.row_count > 300 && table.row_count < 1200);
    char *text = figure_text(&table);
    static const char *const left[] = {"\n1\tfull\tfull\t0\t1\t1000\t0\n",
                                       "\t3218\t1000000000\t0\n",
                                       "\t42\t1\t0\n",
                                       "\t4001\tNaN\t1\n",
                                       "\t5000\t",
                                       "\n2\tfull\tfull\t0\t5000\t",
                                       "\t5004\t",
                                       "\t0\t2048\t"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (!strstr(text, left[i]))
            fail_msg("left out: %s", left[i]);
    free(text);
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
    for (int i = 0; i < EVENTS; i++)
        fprintf(stream, "%s[%d, %d, 1000, %d]", i ? ", " : "", i, 10 * i, i == PEAK ? 777 : i % 7);
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
    for (char *c = table; (c = strchr(c, '\n')); c++)
        rows++;
    assert_in_range(rows, 700, 900); // two corners for each of at most 400 steps
    free(table);
}

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
               ", 'drawn_chunks': [0, 1, 3]" CATEGORIES("6", ROW("norm", "rmsnorm_forward", "null", "6", "null"))),
        NULL,
    };
    expect_table("categories", lines,
                 "series\tmethod\tlabel\trank\testimated\tGEMM\tattention_forward\tattention_backward\t"
                 "attention_glue\tconvolution\tdelta_forward\tdelta_"
                 "backward\tnorm\tRoPE\tSwiGLU\trouting\tbias\tembedding\thead\tcopy\toptimizer\tidle\n"
                 "1\tfull\tfull\t0\t1\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t7\t0\t0\t0\n"
                 "2\tseco\tseco, chunk 64\t0\t0\t3.5\t0\t0\t2.5\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0.5\n"
                 "3\tspaco\tspaco, chunk 64, budget 2, a draw of "
                 "3\t0\t0\t0\t0\t0\t0\t0\t0\t0\t6\t0\t0\t0\t0\t0\t0\t0\t0\t0\n");
    char *none[] = {record(1, "e", "ok", "f32", 64, full, ", 'categories': null"), NULL};
    assert_null(table_of("categories", none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_table),
        cmocka_unit_test(test_pair_sums_table),
        cmocka_unit_test(test_prompt_table),
        cmocka_unit_test(test_time_table),
        cmocka_unit_test(test_chunk_table),
        cmocka_unit_test(test_chunk_table_of_plans),
        cmocka_unit_test(test_sparsity_table),
        cmocka_unit_test(test_gradient_error_table),
        cmocka_unit_test(test_curves_keep_their_extremes),
        cmocka_unit_test(test_timeline_keeps_the_peak),
        cmocka_unit_test(test_categories_table),
        cmocka_unit_test(test_interconnect_table),
        cmocka_unit_test(test_work_table),
        cmocka_unit_test(test_sparsity_of_nothing),
        cmocka_unit_test(test_estimates_table),
    };
    return cmocka_run_group_tests_name("figure", tests, NULL, NULL);
}
