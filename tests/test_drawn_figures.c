// Tests of every figure's drawn data: the points of its panels, which gnuplot's `set table` writes in place of the
// picture, are the columns of the figure's table (test_figure, test_training_figures) in the units that the axes
// name, each under its series. A figure without a panel here fails.
#define _GNU_SOURCE // asprintf
#include "tests/drawn_points.h"
#include "tests/figure_table.h"
#include "tests/table_columns.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define GIB          0x1p30

// Source of a figure: a command that prints records of one picture; $R is the folder of kept records.
static const struct {
    const char *figure, *records;
} sources[] = {
    {"memory", "cat $R/context-sweep.jsonl"},
    {"time", "cat $R/context-sweep.jsonl"},
    {"chunk", "grep '\"chunk\":' $R/chunk.jsonl"},
    {"sparsity", "cat $R/sparsity.jsonl"},
    {"estimates", "grep 'byte-model/random' $R/sparsity-trained.jsonl"},
    {"gradient-error", "cat $R/gradient-error.jsonl"},
    {"router-losses", "grep '\"router_aux_loss\":0.01,' $R/aux-loss.jsonl"},
    {"routing", "grep '\"dtype\":\"bf16\"' $R/routing-flips.jsonl"},
    {"accumulators", "cat $R/accumulators.jsonl"},
    {"prompt", "grep '\"device\":\"plan-cuda\"' $R/prefix.jsonl"},
    {"interconnect", "grep '\"context\":131072,' $R/interconnect.jsonl"},
    {"work", "cat $R/inference.jsonl"},
    {"pair-sums", "cat $R/pair-sums.jsonl"},
    {"lost-updates", "cat $R/lost-updates.jsonl"},
    {"timeline", "cat $R/timeline.jsonl"},
    {"categories", "cat categories"},
    {"prediction", "cat $R/prediction.jsonl"},
    {"published-memory", "cat $R/streambp-figure3.jsonl"},
    {"published-time", "cat $R/streambp-table1.jsonl"},
    {"training", "cat $R/training.jsonl"},
    {"learning", "cat learning"},
    {"metrics", "cat metrics"},
    {"rates", "cat $R/learning-rate.jsonl"},
    {"optimizers", "cat $R/optimizers.jsonl"},
    {"history",
     "cat history && sed -e s/abcdef123456/123456abcdef/ -e 's/\"peak_bytes\": 4/\"peak_bytes\": 5/' history"},
    {"max-context", "grep '\"profile\":\"a100-80g\"' $R/max-context.jsonl"},
    {"pareto-front",
     "$L advise --model tiny --context 1024 --memory-limit 24MiB --like cpu --profile rtx-3090 --json "
     "2>/dev/null"},
    {"frontier", "$L frontier --model tiny --methods full,seco --device-memory 12MiB,24MiB,1GiB --json"},
};

// Points (along, of), in sums and ratios of chunks.
struct panel {
    const char *figure;
    const char *along, *along_axis; // its axis as the picture has it, or what stands there before " (UNIT)"
    double along_unit;              // 0: that of " (UNIT)"
    const char *of, *axis;          // NULL: nothing but the place along the axis is known
    double unit;
    enum {
        PLAIN,
        POSITIVE, // of a logarithmic axis, which has no place for 0
        UNTITLED  // curves do not say their series
    } kind;
};

#define LIVE                                                                                                       \
    "weights+gradients+optimizer+data+hidden_checkpoints+kv_cache+kv_gradients+activations+logits+workspace"

static const struct panel panels[] = {
    {"memory", "context", "context (tokens)", 1, "peak_bytes", "peak memory", 0, PLAIN},
    {"memory", "context", "context (tokens)", 1, "lower_bound_bytes", "peak memory", 0, PLAIN},
    {"time", "context", "context (tokens)", 1, "step_ms", "time of one step", 0, PLAIN},
    {"time", "context", "context (tokens)", 1, "low_ms", "time of one step", 0, PLAIN},
    {"time", "context", "context (tokens)", 1, "step_ms/context", "time per token", 0, PLAIN},
    {"chunk", "chunk", "chunk (tokens)", 1, "step_ms", "time of one step", 0, PLAIN},
    {"chunk", "chunk", "chunk (tokens)", 1, "low_ms", "time of one step", 0, PLAIN},
    {"chunk", "chunk", "chunk (tokens)", 1, "peak_bytes", "peak memory", 0, PLAIN},
    {"sparsity", "budget", "budget (chunks of ", 1, "time_ratio", "time, relative to seco", 1, PLAIN},
    {"sparsity", "budget", "budget (chunks of ", 1, "time_ratio_low", "time, relative to seco", 1, PLAIN},
    {"sparsity", "budget", "budget (chunks of ", 1, "bias", "bias, relative to the gradient", 1, PLAIN},
    {"sparsity", "budget", "budget (chunks of ", 1, "rms_error", "root mean square error, relative", 1, PLAIN},
    {"estimates", "work", "FLOPs of a step, relative to seco", 1, "bias", "bias, relative to the gradient", 1,
     PLAIN},
    {"estimates", "work", "FLOPs of a step, relative to seco", 1, "rms_error", "root mean square error, relative",
     1, PLAIN},
    // Along an axis that may be broken: places tell nothing of values.
    {"gradient-error", NULL, "relative L2 error against the f64 reference", 1, "series", NULL, 1, PLAIN},
    {"router-losses", "chunk", "chunk (tokens)", 1, "relative_l2", "relative L2 error, all weights", 1, POSITIVE},
    {"router-losses", "chunk", "chunk (tokens)", 1, "cell_worst_relative_l2", "relative L2 error, worst tensor", 1,
     POSITIVE},
    {"routing", "chunk", "chunk (tokens)", 1, "flips", "share of tokens and layers with other experts", 1,
     POSITIVE},
    {"routing", "chunk", "chunk (tokens)", 1, "kept_relative_l2", "relative L2 error, all weights", 1, POSITIVE},
    {"accumulators", "chunks", "chunks of the context", 1, "relative_l2", "relative L2 error against f64", 1,
     PLAIN},
    {"accumulators", "chunks", "chunks of the context", 1, "sums_relative_l2",
     "relative L2 of what sums in bf16 alone change", 1, POSITIVE},
    {"prompt", "group", "sequences of a group", 1, "flops_ratio", "FLOPs, ratio", 1, PLAIN},
    {"prompt", "group", "sequences of a group", 1, "peak_ratio", "peak memory, ratio", 1, PLAIN},
    {"prompt", "group", "sequences of a group", 1, "time_ratio", "time of one step, ratio", 1, PLAIN},
    {"interconnect", "ranks", "ranks", 1, "time_s", "time of one step, s", 1, PLAIN},
    {"interconnect", "ranks", "ranks", 1, "idle_percent", "the busiest waits, %", 1, PLAIN},
    {"interconnect", "ranks", "ranks", 1, "sent_GB", "sent by a rank, GB", 1, PLAIN},
    {"work", "context", "context (tokens)", 1, "estimate_ms", "estimated time of one step", 0, PLAIN},
    {"work", "context", "context (tokens)", 1, "flops/context", "GFLOP per token", 1e9, PLAIN},
    {"pair-sums", "context", "tokens of a sequence", 1, "error", "|error of D| (nats), mean over the pairs", 1,
     POSITIVE},
    {"lost-updates", "rate", "rate", 1, "unchanged", "share of weights that were to move and did not", 1, PLAIN},
    {"lost-updates", "rate", "rate", 1, "lost", "share of the updates that is lost", 1, PLAIN},
    {"timeline", "ms", "time", 0, "weights", "memory", 0, UNTITLED},
    {"timeline", "ms", "time", 0, LIVE, "memory", 0, UNTITLED},
    {"categories", "GEMM", "time of one step", 0, NULL, NULL, 1, UNTITLED},
    {"categories", "GEMM+attention_forward+attention_backward+attention_glue+norm", "time of one step", 0, NULL,
     NULL, 1, UNTITLED},
    {"prediction", "measured_ms", "measured (ms)", 1, "estimate_ms", "predicted (ms)", 1, PLAIN},
    {"prediction", "measured_ms", "measured (ms)", 1, "estimate_ms/at_speed_ms",
     "predicted over measured, at that speed", 1, PLAIN},
    {"published-memory", "context", "context (tokens)", 1, "ours", "peak memory (GiB)", GIB, UNTITLED},
    {"published-memory", "context", "context (tokens)", 1, "published", "peak memory (GiB)", GIB, UNTITLED},
    {"published-time", "context", "context (tokens)", 1, "ours", "time of one step (s)", 1e3, UNTITLED},
    {"published-time", "context", "context (tokens)", 1, "published", "time of one step (s)", 1e3, UNTITLED},
    {"training", "step", "step", 1, "evaluation_loss", "loss of held-out tokens (nats)", 1, PLAIN},
    {"training", "seconds", "time of the steps (s)", 1, "evaluation_loss", "the same, against time", 1, PLAIN},
    {"learning", "flops", "GFLOPs of all steps", 1e9, "loss", "loss (nats)", 1, PLAIN},
    {"learning", "seconds", "time: steps times that of one (s)", 1, "loss", "the same, against time", 1, PLAIN},
    {"learning", "difference", "difference by seed (nats)", 1, NULL, NULL, 1, PLAIN},
    {"metrics", "step", "step", 1, "margin", "reward margin of the pairs (nats)", 1, PLAIN},
    {"metrics", "step", "step", 1, "accuracy", "share of pairs with a margin above 0", 1, PLAIN},
    {"metrics", "step", "step", 1, "clip_low", "share of ratios below the bound", 1, PLAIN},
    {"metrics", "step", "step", 1, "clip_high", "share of ratios above the bound", 1, PLAIN},
    {"metrics", "step", "step", 1, "kl", "divergence k3 (nats per token)", 1, PLAIN},
    {"rates", "rate", "rate", 1, "evaluation_loss", "loss of held-out tokens, at the end (nats)", 1, PLAIN},
    {"rates", "rate", "rate", 1, "published", "published: mean loss of the last steps (nats)", 1, PLAIN},
    {"optimizers", "resident", "memory (GiB): resident, and peak of a step", GIB, NULL, NULL, 1, PLAIN},
    {"optimizers", "peak", "memory (GiB): resident, and peak of a step", GIB, NULL, NULL, 1, PLAIN},
    {"optimizers", "published", "memory (GiB): resident, and peak of a step", GIB, NULL, NULL, 1, PLAIN},
    {"history", "commit", "From commit to commit", 1, "time_ratio", "time of one step, over the first", 1, PLAIN},
    {"max-context", "max_context", "context (tokens)", 1, NULL, NULL, 1, UNTITLED},
    {"pareto-front", "peak_bytes", "memory of the device at the peak", 0, "seconds", "step time (s), an estimate",
     1, PLAIN},
    {"frontier", "device_bytes", "memory of the device (GiB)", GIB, "max_context", "longest context (tokens)", 1,
     PLAIN},
    {"history", "commit", "From commit to commit", 1, "peak_ratio", "peak memory, over the first", 1, PLAIN},
};

static void write_lines(const struct scratch *scratch, const char *name, char *const *lines)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "w");
    assert_non_null(file);
    for (; *lines; lines++) {
        fprintf(file, "%s\n", *lines);
        free(*lines);
    }
    assert_int_equal(fclose(file), 0);
}

// Sketches of figures without kept records.
static void write_sketches(const struct scratch *scratch)
{
#define RUN(id, keys, curve)                                                                                       \
    run_of(                                                                                                        \
        id, full, keys ", 'train': {'steps': 4}",                                                                  \
        ", 'samples_ms': [500, 500], 'curve': {'loss': [8, 2], 'gradient_norm': [1, 1], 'evaluation_step': [], "   \
        "'evaluation_loss': [], " curve "}")
    char *categories[] = {
        record(1, "e", "ok", "f32", 64, full,
               CATEGORIES("6.5", ROW("GEMM", "gemm", "[1, 2, 3]", "3.5", "1") ", " ROW("norm", "rmsnorm_forward",
                                                                                       "null", "3", "1"))),
        record(2, "e", "ok", "f32", 64, seco_64, CATEGORIES("9", ROW("GEMM", "gemm", "[1, 2, 3]", "9", "1"))),
        NULL};
    char *metrics[] = {
        RUN(1, "'objective': {'name': 'dpo', 'beta': 0.5}", "'margin': [-1, 2], 'accuracy': [0.25, 1]"),
        RUN(2, "'objective': {'name': 'grpo', 'beta': 0.25}",
            "'clip_low': [0.25, 0.5], 'clip_high': [0, 1], 'kl': [3, 4]"),
        NULL};
    static const char drawn[] = "{'name': 'spaco', 'chunk': 16, 'budget': 2}";
#define LEARNING(id, seed, method, of_steps, losses)                                                               \
    seeded(seed,                                                                                                   \
           run_of(id, method, "'train': {'steps': 2}", ", 'curve': {'evaluation_loss': [" losses "], " of_steps))
#define TWO                                                                                                        \
    "'evaluation_step': [0, 1, 2], 'loss': [8, 2], 'gradient_norm': [1, 1]}, 'flops': 1e9, 'samples_ms': [500, "   \
    "500]"
#define THREE                                                                                                      \
    "'evaluation_step': [0, 2, 3], 'loss': [8, 2, 2], 'gradient_norm': [1, 1, 1]}, 'flops': 2e9, 'samples_ms': "   \
    "[9, 9, 9]"
    char *learning[] = {LEARNING(1, '1', full, TWO, "9, 8.5, 5"),
                        LEARNING(2, '2', full, TWO, "8, 7.5, 6.5"),
                        LEARNING(3, '1', seco_64, THREE, "9, 8, 6"),
                        LEARNING(4, '2', seco_64, THREE, "8, 7, 7"),
                        LEARNING(5, '1', drawn, TWO, "9, 8, 7"),
                        LEARNING(6, '2', drawn, TWO, "8, 7, 7.5"),
                        record(7, "e", "ok", "f32", 64, full, ", 'samples_ms': [500], 'median_ms': 500"),
                        NULL};
    char *history[] = {record(1, "e", "ok", "f32", 64, full,
                              ", 'peak_bytes': 4000, 'median_ms': 3, 'samples_ms': [3, 3, 3, 3, 3, 3]"),
                       record(2, "e", "ok", "f32", 64, seco_64,
                              ", 'peak_bytes': 2000, 'median_ms': 5, 'samples_ms': [5, 5, 5, 5, 5, 5]"),
                       NULL};
    write_lines(scratch, "categories", categories);
    write_lines(scratch, "learning", learning);
    write_lines(scratch, "metrics", metrics);
    write_lines(scratch, "history", history);
}

static const char *records_of(const char *figure)
{
    for (size_t i = 0; i < COUNT(sources); i++)
        if (strcmp(sources[i].figure, figure) == 0)
            return sources[i].records;
    fail_msg("no records to draw %s of", figure);
    return NULL;
}

// That the picture names the axis; its unit, where the panel does not say it.
static double axis_unit(const char *svg, const char *axis, double unit)
{
    if (unit == 0)
        return drawn_unit(svg, axis);
    if (axis && !strstr(svg, axis))
        fail_msg("no axis \"%s\"", axis);
    return unit;
}

// How many points there are, all of which must be drawn.
static size_t expect_panel(const struct panel *panel, const char *svg, const struct drawn_points *drawn,
                           const struct table_columns *table)
{
    double along_unit = axis_unit(svg, panel->along_axis, panel->along_unit),
           unit = panel->of ? axis_unit(svg, panel->axis, panel->unit) : 1;
    size_t points = 0;
    for (size_t row = 0; row < table->row_count; row++) {
        double x = panel->along ? table_columns_value(table, row, panel->along) : NAN,
               y = panel->of ? table_columns_value(table, row, panel->of) : NAN;
        if ((panel->along && !isfinite(x)) || (panel->of && !isfinite(y)) ||
            (panel->kind == POSITIVE && (x <= 0 || y <= 0)))
            continue;
        const char *title = panel->kind == UNTITLED ? NULL : table_columns_text(table, row, "label");
        points++;
        if (!drawn_points_have(drawn, title, x / along_unit, y / unit))
            fail_msg("%s: no point of \"%s\" at %g, %g, which are %s and %s", panel->figure, title ? title : "any",
                     x / along_unit, y / unit, panel->along ? panel->along : "anything",
                     panel->of ? panel->of : "anything");
    }
    return points;
}

// The least that letters and what they stand on may measure: 6 pt, and half an em for a letter, which is less than
// most are wide.
#define LETTER_MIN_PT 6.0
#define LETTER_EM     0.5

// Counts the letters of an upright text up to its tag, an entity as one.
static size_t letters_of(const char *text)
{
    size_t count = 0;
    for (; *text && *text != '<'; text += *text == '&' ? strcspn(text, ";") + 1 : 1)
        count += (*text & 0xC0) != 0x80;
    return count;
}

// In a chunk of a paper, 85 mm wide, letters are large enough to be read, and none is outside the page.
static void expect_legible(const struct scratch *scratch, const char *figure)
{
    char command[200];
    snprintf(command, sizeof command,
             "$L plot r.jsonl --figures %s --size 85mm --format svg -o slim && mv slim/*.svg slim.svg", figure);
    assert_int_equal(run(scratch, command), 0);
    char *svg = text_of(scratch, "slim.svg");
    double width_mm, width, height;
    size_t texts = 0;
    assert_int_equal(sscanf(strstr(svg, "width="), "width=\"%lfmm\"", &width_mm), 1);
    assert_int_equal(sscanf(strstr(svg, "viewBox="), "viewBox=\"0 0 %lf %lf\"", &width, &height), 2);
    for (const char *at = svg; (at = strstr(at, "<g transform=\"translate(")); at++) {
        double x, y, size;
        int turned = 0;
        const char *end = strchr(at, '>'), *font = strstr(at, "font-size=\""),
                   *anchor = strstr(at, "text-anchor=\"");
        sscanf(at, "<g transform=\"translate(%lf,%lf) rotate(%d", &x, &y, &turned);
        if (!font || font > end || sscanf(font, "font-size=\"%lf\"", &size) != 1)
            continue;
        texts++;
        double pt = size * width_mm / width * 72 / 25.4;
        const char *text = strstr(end, "<text>");
        double wide = text ? LETTER_EM * size * (double)letters_of(text + strlen("<text>")) : 0,
               before = strncmp(anchor, "text-anchor=\"start", 18) == 0 ? 0
                        : strncmp(anchor, "text-anchor=\"end", 16) == 0 ? 1
                                                                        : 0.5;
        if (pt < LETTER_MIN_PT)
            fail_msg("%s: letters of %.2f pt", figure, pt);
        if (!turned && (x - before * wide < 0 || x + (1 - before) * wide > width || y > height))
            fail_msg("%s: cut off: %.80s", figure, text ? text : at);
    }
    if (!texts)
        fail_msg("%s: no text", figure);
    free(svg);
}

static void panels_are_the_tables(void **state)
{
    const struct scratch *scratch = *state;
    write_sketches(scratch);
    for (size_t f = 0; figures[f]; f++) {
        const char *figure = figures[f]->name;
        size_t checked = 0;
        draw_points(scratch, figure, records_of(figure));
        char *svg = text_of(scratch, "drawn.svg"), *tsv = text_of(scratch, "drawn.tsv"),
             *points = text_of(scratch, "points");
        struct drawn_points drawn = drawn_points_read(points);
        struct table_columns table = table_columns_read(tsv);
        for (size_t p = 0; p < COUNT(panels); p++) {
            if (strcmp(panels[p].figure, figure) != 0)
                continue;
            if (expect_panel(&panels[p], svg, &drawn, &table) < 2)
                fail_msg("%s: nothing is drawn of %s", figure, panels[p].of ? panels[p].of : panels[p].along);
            checked++;
        }
        if (!checked)
            fail_msg("no panel of %s is read back", figure);
        expect_legible(scratch, figure);
        table_columns_free(&table);
        drawn_points_free(&drawn);
        free(points);
        free(tsv);
        free(svg);
    }
}

static size_t points_at(const struct drawn_points *drawn, const char *title, double x, double y)
{
    size_t count = 0;
    for (size_t i = 0; i < drawn->count; i++) {
        const struct drawn_points one = {1, &drawn->points[i]};
        count += drawn_points_have(&one, title, x, y);
    }
    return count;
}

// A ring is a second point where smaller chunks take more memory: at the inner least of seco, not at the least of
// streambp, which is its smallest chunk's.
static void least_memory_is_marked(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *method;
        int chunk, peak_mib;
        size_t points;
    } rows[] = {{"seco", 16, 9, 1},     {"seco", 32, 5, 2},     {"seco", 64, 7, 1},
                {"streambp", 16, 3, 1}, {"streambp", 32, 4, 1}, {"streambp", 64, 6, 1}};
    char *lines[COUNT(rows) + 1] = {NULL};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char method[80], peak[80];
        snprintf(method, sizeof method, "{'name': '%s', 'chunk': %d}", rows[i].method, rows[i].chunk);
        snprintf(peak, sizeof peak, ", 'peak_bytes': %d", rows[i].peak_mib << 20);
        lines[i] = record((int)i + 1, "e", "ok", "f32", 128, method, peak);
    }
    write_lines(scratch, "least", lines);
    draw_points(scratch, "chunk", "cat least");
    char *svg = text_of(scratch, "drawn.svg"), *points = text_of(scratch, "points");
    struct drawn_points drawn = drawn_points_read(points);
    assert_non_null(strstr(svg, "least memory; smaller chunks take more"));
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(points_at(&drawn, rows[i].method, rows[i].chunk, rows[i].peak_mib), rows[i].points);
    drawn_points_free(&drawn);
    free(points);
    free(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(panels_are_the_tables, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(least_memory_is_marked, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests_name("drawn_figures", tests, NULL, NULL);
}
