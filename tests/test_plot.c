// Tests of harness/plot: the pictures, and the messages if there are none.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/plot/plot.h"
#include "tests/drawn_sweep.h"

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
    struct plot_request request = {.paths = texts,
                                   .path_count = count,
                                   .form = {.folder = folder.text, .scripts = scripts, .formats = formats}};
    return plot(&request, status);
}

static void must_draw(const struct scratch *scratch, struct request_files files, const char *formats)
{
    struct status status = {0};
    if (!draw(scratch, files, formats, "plots", &status))
        fail_msg("%s", status.message);
}

static void test_pictures(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    must_draw(scratch, (struct request_files){{"r.jsonl"}}, "svg,png,tsv");
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
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(svg, words[i]))
            fail_msg("\"%s\" is not in the picture", words[i]);
    assert_memory_equal(png, "\x89PNG\r\n", 6);
    assert_true(exists(scratch, "out/deep/sweep-time.svg") && exists(scratch, "out/deep/sweep-memory.png"));
    assert_true(exists(scratch, "out/deep/sweep-memory.tsv"));
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
        record(1, "all", "ok", "f32", 128, other, ", 'peak_bytes': 50, 'median_ms': 5, 'samples_ms': [5, 6]"),
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
    const char *const legends[7] = {[1] = "spaco: mean of draws ± 2 std. errors",
                                    [2] = "spaco: mean of draws ± 2 std. errors",
                                    [3] = ">mean of draws ± 2 std. errors<"};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char path[80];
        snprintf(path, sizeof path, "out/deep/%s.svg", pictures[i]);
        char *svg = read_text(scratch, path);
        assert_non_null(strstr(svg, "</svg>"));
        assert_non_null(strstr(svg, "{x_2} `ls` @x"));
        assert_true(!legends[i] || strstr(svg, legends[i]));
        free(svg);
    }
    // Which curves have which whiskers is said, and where there is one kind it is that of all.
    char *both = read_text(scratch, "out/deep/all-time.svg");
    assert_non_null(strstr(both, ">others: fastest to slowest sample<"));
    free(both);
    char *fixed[] = {
        record(1, "mixed", "ok", "f32", 128, SPACO(1, "uniform", "paper"), DRAWN("[4, 5]", "[1, 1]", "4.5", "0.5")),
        record(2, "mixed", "ok", "f32", 256, SPACO(1, "uniform", "paper"), DRAWN("[4, 5]", "[1, 1]", "4.5", "0.5")),
        record(3, "mixed", "ok", "f32", 256, SPACO(1, "fixed", "paper"), ", 'median_ms': 9, 'samples_ms': [9, 11]"),
        NULL};
    write_records(scratch, "m.jsonl", fixed);
    must_draw(scratch, (struct request_files){{"m.jsonl"}}, "svg");
    char *mixed = read_text(scratch, "out/deep/mixed-time.svg");
    assert_non_null(strstr(mixed, ">drawn chunks: mean of draws ± 2 std. errors<"));
    assert_non_null(strstr(mixed, ">others: fastest to slowest sample<"));
    free(mixed);
    write_sweep(scratch, "r.jsonl", "f32", 1);
    must_draw(scratch, (struct request_files){{"r.jsonl"}}, "svg");
    char *one = read_text(scratch, "out/deep/sweep-time.svg");
    assert_non_null(strstr(one, ">fastest to slowest sample<"));
    free(one);
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
         *chunk = read_text(scratch, "out/deep/plan-chunk-context-9216.svg");
    assert_non_null(strstr(memory, ">8192<"));
    assert_null(strstr(memory, ">7680<"));
    assert_non_null(strstr(chunk, "Memory against chunk size"));
    assert_non_null(strstr(chunk, "context 9216"));
    assert_false(exists(scratch, "out/deep/plan-time.svg"));
    // A picture of each of the longest contexts that have one.
    for (int context = 512; context <= 10240; context += 512) {
        char name[80];
        snprintf(name, sizeof name, "out/deep/plan-chunk-context-%d.svg", context);
        assert_int_equal(exists(scratch, name), context >= 7680 && context <= 9216);
    }
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
    must_draw(scratch, (struct request_files){{"a.jsonl", "b.jsonl"}}, "tsv");
    char *table = read_text(scratch, "out/deep/sweep-memory.tsv");
    assert_non_null(strstr(table, "\t256\t123\t"));
    assert_null(strstr(table, "9000000"));
    free(table);
}

// The record of that trial with another `measure`; it takes the line.
static char *measured(char *line, const char *measure)
{
    static const char whole[] = "{\"samples\": 3}";
    char *at = strstr(line, whole), *other;
    assert_non_null(at);
    assert_true(asprintf(&other, "%.*s%s%s", (int)(at - line), line, measure, at + sizeof whole - 1) > 0);
    free(line);
    return other;
}

#define TIMELINE                                                                                                   \
    ", 'peak_bytes': 7, 'timeline': {'category_order': ['weights'], 'events': [[0, 0, 9], [1, 8, 9], [2, 8, 9]]}"

// A trial that is measured again with more samples has one point, that of the last record; but what shows a part of
// `measure` shows the record that has it.
static void test_a_trial_measured_in_two_ways_has_one_point(void **state)
{
    struct scratch *scratch = *state;
    char *lines[] = {
        record(1, "e", "ok", "f32", 128, full, ", 'peak_bytes': 100, 'median_ms': 5, 'samples_ms': [5, 6]"),
        measured(record(2, "e", "ok", "f32", 256, full, TIMELINE), "{\"timeline\": true}"),
        measured(record(3, "e", "ok", "f32", 128, full, ", 'peak_bytes': 101"), "{\"samples\": 9}"),
        record(4, "e", "ok", "f32", 256, full, ", 'peak_bytes': 8, 'median_ms': 5, 'samples_ms': [5, 6]"),
        NULL,
    };
    write_records(scratch, "r.jsonl", lines);
    must_draw(scratch, (struct request_files){{"r.jsonl"}}, "tsv");
    char *table = read_text(scratch, "out/deep/e-memory.tsv");
    assert_non_null(strstr(table, "\t128\t101\t"));
    assert_non_null(strstr(table, "\t256\t8\t"));
    assert_null(strstr(table, "\t128\t100\t"));
    assert_null(strstr(table, "\t256\t7\t"));
    free(table);
    table = read_text(scratch, "out/deep/e-timeline.tsv");
    free(table);
}

static char *on_b(char *line)
{
    char *cpu = strstr(line, "A CPU");
    assert_non_null(cpu);
    *cpu = 'B';
    return line;
}

// Times of two machines are no curve together; bytes are those of any.
static void test_machines_have_pictures_of_their_own(void **state)
{
    struct scratch *scratch = *state;
    static const char first[] = ", 'peak_bytes': 100, 'median_ms': 5, 'samples_ms': [5, 6]",
                      second[] = ", 'peak_bytes': 100, 'median_ms': 7, 'samples_ms': [7, 8]";
    char *lines[] = {record(1, "e", "ok", "f32", 128, full, first), record(2, "e", "ok", "f32", 256, full, first),
                     on_b(record(4, "e", "ok", "f32", 128, full, second)),
                     on_b(record(3, "e", "ok", "f32", 512, full, second)), NULL};
    write_records(scratch, "a.jsonl", (char *[]){lines[0], lines[1], NULL});
    write_records(scratch, "b.jsonl", (char *[]){lines[2], lines[3], NULL});
    must_draw(scratch, (struct request_files){{"a.jsonl", "b.jsonl"}}, "tsv");
    char *table = read_text(scratch, "out/deep/e-time-a-cpu.tsv");
    assert_non_null(strstr(table, "\t128\t5\t"));
    assert_non_null(strstr(table, "\t256\t5\t"));
    assert_null(strstr(table, "\t7\t"));
    free(table);
    table = read_text(scratch, "out/deep/e-time-b-cpu.tsv");
    assert_non_null(strstr(table, "\t128\t7\t"));
    assert_non_null(strstr(table, "\t512\t7\t"));
    assert_null(strstr(table, "\t5\t"));
    free(table);
    table = read_text(scratch, "out/deep/e-memory.tsv");
    assert_non_null(strstr(table, "\t512\t"));
    free(table);
}

static void expect_failure(const struct scratch *scratch, const char *name, const char *formats,
                           const char *scripts, const char *message)
{
    struct status status = {0};
    assert_false(draw(scratch, (struct request_files){{name}}, formats, scripts, &status));
    if (!strstr(status.message, message))
        fail_msg("expected %s\n   found %s", message, status.message);
}

// Host memory has its own panel.
static void test_memory_of_the_host_is_drawn(void **state)
{
    struct scratch *scratch = *state;
    char *lines[] = {
        record(1, "host", "ok", "f32", 128, full, ", 'peak_bytes': 5000000, 'host_peak_bytes': 7000000"),
        record(2, "host", "ok", "f32", 256, full, ", 'peak_bytes': 9000000, 'host_peak_bytes': 8000000"),
        record(3, "host", "ok", "f32", 256, "{'name': 'seco', 'chunk': 32, 'inner': 'none'}",
               ", 'peak_bytes': 9000000, 'host_peak_bytes': 8000000"),
        record(4, "host", "ok", "f32", 256, seco_64, ", 'peak_bytes': 9000000, 'host_peak_bytes': 8000000"),
        record(5, "host", "ok", "f32", 256, seco_128, ", 'peak_bytes': 9000000, 'host_peak_bytes': 8000000"),
        NULL};
    static const char *const pictures[] = {"out/deep/host-memory.svg", "out/deep/host-chunk.svg"};
    write_records(scratch, "r.jsonl", lines);
    must_draw(scratch, (struct request_files){{"r.jsonl"}}, "svg");
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        char *svg = read_text(scratch, pictures[i]);
        assert_non_null(strstr(svg, "peak memory of the device (MiB)"));
        assert_non_null(strstr(svg, "peak memory of the host (MiB)"));
        free(svg);
    }
}

// With draws a record has the peak of the first: the picture states this, and omits the draw without chunks.
static void test_peaks_of_draws_are_told(void **state)
{
    struct scratch *scratch = *state;
    char *lines[] = {record(1, "e", "ok", "f32", 128, SPACO(1, "bernoulli", "paper"),
                            DRAWN("[4, 5]", "[1, 2]", "4.5", "0.5") ", 'drawn_chunks': [0], 'peak_bytes': 5000000"),
                     record(2, "e", "ok", "f32", 256, SPACO(1, "bernoulli", "paper"),
                            DRAWN("[4, 5]", "[1, 0]", "4.5", "0.5") ", 'drawn_chunks': [1], 'peak_bytes': 6000000"),
                     record(3, "e", "ok", "f32", 512, SPACO(1, "bernoulli", "paper"),
                            DRAWN("[1, 5]", "[0, 1]", "3", "0.5") ", 'drawn_chunks': null, 'peak_bytes': 1000000"),
                     NULL};
    write_records(scratch, "r.jsonl", lines);
    must_draw(scratch, (struct request_files){{"r.jsonl"}}, "svg,tsv");
    char *memory = read_text(scratch, "out/deep/e-memory.svg"), *time = read_text(scratch, "out/deep/e-time.svg"),
         *table = read_text(scratch, "out/deep/e-memory.tsv");
    assert_non_null(strstr(memory, "peak of spaco: that of its first draw"));
    assert_null(strstr(time, "of its first draw"));
    assert_null(strstr(table, "\t512\t"));
    free(memory);
    free(time);
    free(table);
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
    expect_failure(scratch, "empty.jsonl", "svg", "plots", "no records");
    expect_failure(scratch, "bad.jsonl", "svg", "plots", "bad.jsonl:1: not a record");
    expect_failure(scratch, "absent.jsonl", "svg", "plots", "No such file");
    expect_failure(scratch, "r.jsonl", "gif", "plots",
                   "--format: unknown word \"gif\"; known words: svg, png, pdf, tsv");
    expect_failure(scratch, "r.jsonl", ",", "plots", "--format: unknown word \"\"; known words: svg");
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

static void count_picture(void *taker, const struct picture *picture, const char *svg)
{
    assert_non_null(strstr(svg, "</svg>"));
    assert_string_equal(picture->name, "sweep-memory");
    ++*(size_t *)taker;
}

// A taker has no more pictures drawn than it has room for, and knows how many there would have been.
static void test_pictures_are_taken_while_there_is_room(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    size_t taken = 0;
    struct picture_room room = {.left = 1};
    write_sweep(scratch, "r.jsonl", "f32", 1);
    struct scratch_path path = scratch_path(scratch, "r.jsonl");
    const char *paths[] = {path.text};
    struct plot_request request = {
        .paths = paths,
        .path_count = 1,
        .form = {.take = count_picture, .taker = &taken, .room = &room, .scripts = "plots", .formats = "svg"}};
    assert_true(plot(&request, &status));
    assert_int_equal(taken, 1);
    assert_int_equal(room.left_out, 1);
}

static bool draw_chosen(const struct scratch *scratch, const char *series, const char *condition,
                        struct status *status)
{
    struct scratch_path path = scratch_path(scratch, "r.jsonl"), folder = scratch_path(scratch, "out");
    const char *paths[] = {path.text};
    struct plot_request request = {.paths = paths,
                                   .path_count = 1,
                                   .conditions = &condition,
                                   .condition_count = condition != NULL,
                                   .series = series,
                                   .form = {.folder = folder.text, .scripts = "plots", .formats = "tsv"}};
    return plot(&request, status);
}

// full, seco with two chunks: three series at two contexts.
static void write_series(struct scratch *scratch)
{
    static const char *const methods[] = {full, seco_64, seco_128};
    char *lines[7] = {NULL};
    for (int i = 0; i < 6; i++) {
        char rest[40];
        snprintf(rest, sizeof rest, ", 'peak_bytes': %d", 1000 + i);
        lines[i] = record(i + 1, "e", "ok", "f32", 256 << i % 2, methods[i / 2], rest);
    }
    write_records(scratch, "r.jsonl", lines);
}

// The rows of the series that are asked for, numbered anew, with the ranks that they have among all.
static void test_series_are_chosen(void **state)
{
    static const struct {
        const char *list, *starts[4];
    } choices[] = {
        {"full", {"1\tfull\tfull\t0\t"}},
        {"seco", {"1\tseco\tseco, chunk 64\t0\t", "2\tseco\tseco, chunk 128\t1\t"}},
        {"seco, chunk 128", {"1\tseco\tseco, chunk 128\t1\t"}},
        {"seco, chunk 128,full", {"1\tfull\tfull\t0\t", "2\tseco\tseco, chunk 128\t1\t"}},
        {NULL, {"1\tfull\tfull\t0\t", "2\tseco\tseco, chunk 64\t0\t", "3\tseco\tseco, chunk 128\t1\t"}},
    };
    struct scratch *scratch = *state;
    write_series(scratch);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct status status = {0};
        assert_true(draw_chosen(scratch, choices[i].list, NULL, &status));
        char *table = read_text(scratch, "out/e-memory.tsv"), *rest = table;
        assert_non_null(strsep(&rest, "\n"));
        for (size_t s = 0; s < 4 && choices[i].starts[s]; s++) {
            for (int row = 0; row < 2; row++) {
                const char *line = strsep(&rest, "\n"), *start = choices[i].starts[s];
                if (!line || strncmp(line, start, strlen(start)) != 0)
                    fail_msg("%s: %s, not %s", choices[i].list, line, start);
            }
        }
        assert_string_equal(rest, "");
        free(table);
    }
}

static void test_choices_that_are_none(void **state)
{
    static const struct {
        const char *series, *condition, *message;
    } wrong[] = {
        {"sec", NULL, "--series: no picture has \"sec\"; did you mean \"seco\"? take"},
        {"seco, chnk 64", NULL, "did you mean \"seco, chunk 64\"?"},
        {"full,seco, chunk 12", NULL, "of: \"full\" \"seco, chunk 64\" \"seco, chunk 128\""},
        {"", NULL, "--series: no picture has \"\""},
        {NULL, "context=7", "--where context=7: none of these 6 records; \"context\" is 256, 512 there"},
        {NULL, "contxt=256", "--where: no field \"contxt\"; did you mean \"context\"? `longbp list"},
        {NULL, "context", "--where: expected KEY=VALUE"},
        {NULL, "context=256", "none of these 3 records can be drawn"},
        {"full", "method=seco", "--series: no picture has \"full\""},
    };
    struct scratch *scratch = *state;
    write_series(scratch);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct status status = {0};
        assert_false(draw_chosen(scratch, wrong[i].series, wrong[i].condition, &status));
        if (!strstr(status.message, wrong[i].message))
            fail_msg("expected %s\n   found %s", wrong[i].message, status.message);
        assert_false(exists(scratch, "out")); // nothing is drawn before all is known to be right
    }
}

static void test_records_are_chosen(void **state)
{
    struct scratch *scratch = *state;
    struct status status = {0};
    write_series(scratch);
    assert_true(draw_chosen(scratch, NULL, "chunk=128", &status));
    char *table = read_text(scratch, "out/e-memory.tsv");
    assert_non_null(strstr(table, "\n1\tseco\tseco, chunk 128\t0\t256\t1004\t"));
    assert_null(strstr(table, "full"));
    free(table);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pictures),
        TEST(test_every_script_runs),
        TEST(test_planned_records),
        TEST(test_settings_are_kept_apart),
        TEST(test_the_last_record_of_a_trial_counts),
        TEST(test_a_trial_measured_in_two_ways_has_one_point),
        TEST(test_machines_have_pictures_of_their_own),
        TEST(test_memory_of_the_host_is_drawn),
        TEST(test_peaks_of_draws_are_told),
        TEST(test_failures_say_why),
        TEST(test_without_gnuplot),
        TEST(test_output_folder_is_a_file),
        TEST(test_pictures_are_taken_while_there_is_room),
        TEST(test_series_are_chosen),
        TEST(test_choices_that_are_none),
        TEST(test_records_are_chosen),
    };
    return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
