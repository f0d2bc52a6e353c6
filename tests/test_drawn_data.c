// Tests of drawn data: the points of a picture's curves, which gnuplot's `set table` writes in place of the
// picture, are the numbers of the records in the unit that the axis names, each under its series.
#define _GNU_SOURCE // asprintf
#include "tests/drawn_points.h"
#include "tests/quoted.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define CONTEXTS     3

static const char *const drawn_methods[] = {"full", "checkpoint"};

// Sizes at which pictures take other units: what is said of full at the first context.
static const struct size {
    double bytes, ms;
} sizes[] = {{3e5, 4}, {5e7, 2e3}, {2e10, 9e4}};

static double peak_of(const struct size *size, size_t method, size_t context)
{
    return size->bytes * (double)(context + 1) / (double)(method + 1);
}

static double ms_of(const struct size *size, size_t method, size_t context)
{
    return size->ms * (double)(2 * context + 1) * (double)(method + 1);
}

static void write_records(const struct scratch *scratch, const struct size *size)
{
    FILE *file = fopen(scratch_path(scratch, "sizes.jsonl").text, "w");
    assert_non_null(file);
    for (size_t m = 0; m < COUNT(drawn_methods); m++) {
        for (size_t c = 0; c < CONTEXTS; c++) {
            char *text, *line;
            double ms = ms_of(size, m, c);
            assert_true(asprintf(&text,
                                 "{'schema': 2, 'id': '%032zx', 'experiment': 'e', 'status': 'ok', 'reason': '', "
                                 "'trial': {'model': 'tiny', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, "
                                 "'context': %d, 'method': {'name': '%s'}}, 'samples_ms': [%.17g, %.17g, %.17g], "
                                 "'median_ms': %.17g, 'peak_bytes': %.0f, 'lower_bound_bytes': %.0f}\n",
                                 10 * m + c, 256 << c, drawn_methods[m], ms * 0.75, ms, ms * 1.5, ms,
                                 peak_of(size, m, c), peak_of(size, m, c) / 2) > 0);
            line = quoted(text);
            fputs(line, file);
            free(line);
            free(text);
        }
    }
    assert_int_equal(fclose(file), 0);
}

// Behind the points that are not there.
static const char *skip_missing(const char *at)
{
    for (;;) {
        at += strspn(at, " \n");
        char *end;
        double x = strtod(at, &end), y = strtod(end, &end);
        if (*at == '#' || !*at || (!isnan(x) && !isnan(y)))
            return at;
        at = end + strcspn(end, "\n");
    }
}

// Whether the points that stand here, behind a curve's head, are these.
static bool has_points(const char *at, const double *x, const double *y)
{
    bool same = true;
    for (size_t c = 0; same && c < CONTEXTS; c++) {
        char *end;
        at = skip_missing(at);
        double left = strtod(at, &end), right = strtod(end, &end);
        same = left == x[c] && fabs(right / y[c] - 1) < 1e-4; // gnuplot writes six digits
        at = end + strcspn(end, "\n");
    }
    at = skip_missing(at);
    return same && (*at == '#' || !*at);
}

// That a curve of this title has these points and no others.
static void expect_curve(const char *table, const char *title, const double *x, const double *y, const char *what)
{
    char head[80];
    snprintf(head, sizeof head, "# Curve title: \"%s\"\n", title);
    bool found = false;
    for (const char *at = table; !found && (at = strstr(at, head));) {
        at = strchr(at + strlen(head), '\n'); // behind the names of the chunks
        found = at && has_points(at, x, y);
    }
    if (!found)
        fail_msg("no curve of %s is %s: %g, %g, %g at %g, %g, %g in\n%s", title, what, y[0], y[1], y[2], x[0], x[1],
                 x[2], table);
}

struct quantity {
    const char *figure, *axis;
    double (*value)(const struct size *size, size_t method, size_t context); // in bytes or ms
    double factor;
    bool per_token;
};

static void curves_are_the_records(void **state)
{
    struct scratch *scratch = *state;
    static const struct quantity quantities[] = {
        {"memory", "peak memory", peak_of, 1, false},  {"memory", "peak memory", peak_of, 0.5, false},
        {"time", "time of one step", ms_of, 1, false}, {"time", "time of one step", ms_of, 0.75, false},
        {"time", "time per token", ms_of, 1, true},
    };
    for (size_t s = 0; s < COUNT(sizes); s++) {
        const char *drawn = "";
        write_records(scratch, &sizes[s]);
        for (size_t q = 0; q < COUNT(quantities); q++) {
            const struct quantity *quantity = &quantities[q];
            if (strcmp(drawn, quantity->figure) != 0)
                draw_points(scratch, drawn = quantity->figure, "cat sizes.jsonl");
            char *svg = text_of(scratch, "drawn.svg"), *table = text_of(scratch, "points");
            double unit = drawn_unit(svg, quantity->axis);
            for (size_t m = 0; m < COUNT(drawn_methods); m++) {
                double x[CONTEXTS], y[CONTEXTS];
                for (size_t c = 0; c < CONTEXTS; c++) {
                    x[c] = 256 << c;
                    y[c] = quantity->factor * quantity->value(&sizes[s], m, c) / unit /
                           (quantity->per_token ? x[c] : 1);
                }
                expect_curve(table, drawn_methods[m], x, y, quantity->axis);
            }
            free(svg);
            free(table);
        }
    }
}

// ---- trials that ran out of memory

enum { LIMIT = 20 }; // MiB

static void write_chunks(const struct scratch *scratch)
{
    static const struct {
        const char *method;
        int chunk, peak; // MiB; 0: out of memory
    } trials[] = {{"full", 0, 0},   {"checkpoint", 0, 17}, {"seco", 64, 11},      {"seco", 128, 12},
                  {"seco", 256, 0}, {"streambp", 64, 9},   {"streambp", 128, 10}, {"streambp", 256, 0}};
    FILE *file = fopen(scratch_path(scratch, "sizes.jsonl").text, "w");
    assert_non_null(file);
    for (size_t i = 0; i < COUNT(trials); i++) {
        char chunk[32] = "", measured[160] = "", *text, *line;
        if (trials[i].chunk)
            snprintf(chunk, sizeof chunk, ", 'chunk': %d", trials[i].chunk);
        if (trials[i].peak)
            snprintf(measured, sizeof measured, ", 'samples_ms': [5, 5], 'median_ms': 5, 'peak_bytes': %d",
                     trials[i].peak << 20);
        assert_true(asprintf(&text,
                             "{'schema': 2, 'id': '%032zx', 'experiment': 'e', 'status': '%s', 'reason': '', "
                             "'trial': {'model': 'tiny', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, "
                             "'context': 1024, 'method': {'name': '%s'%s}, 'limits': {'memory': %d}}%s}\n",
                             i, trials[i].peak ? "ok" : "oom", trials[i].method, chunk, LIMIT << 20, measured) > 0);
        line = quoted(text);
        fputs(line, file);
        free(line);
        free(text);
    }
    assert_int_equal(fclose(file), 0);
}

// Points of curves of this title that lie above the limit; the last is in x and y.
static size_t points_above(const char *table, const char *title, double *x, double *y)
{
    char head[80];
    size_t count = 0;
    snprintf(head, sizeof head, "# Curve title: \"%s\"\n", title);
    for (const char *at = table; (at = strstr(at, head));) {
        for (at = strchr(at + strlen(head), '\n') + 1; *(at = skip_missing(at)) && *at != '#';) {
            char *end;
            double left = strtod(at, &end), right = strtod(end, &end);
            if (right > LIMIT)
                *x = left, *y = right, count++;
            at = end + strcspn(end, "\n");
        }
    }
    return count;
}

// Each has a cross of its own above the limit, those without chunks at both ends of the axis.
static void what_does_not_fit_is_above_the_limit(void **state)
{
    struct scratch *scratch = *state;
    double x, seco = 0, streambp = 0, full = 0;
    write_chunks(scratch);
    draw_points(scratch, "chunk", "cat sizes.jsonl");
    char *svg = text_of(scratch, "drawn.svg"), *table = text_of(scratch, "points");
    assert_non_null(strstr(svg, "memory limit, 20.00 MiB"));
    assert_true(drawn_unit(svg, "peak memory") == 1 << 20);
    assert_int_equal(points_above(table, "checkpoint", &x, &full), 0);
    assert_int_equal(points_above(table, "full", &x, &full), 2);
    assert_int_equal(points_above(table, "streambp", &x, &streambp), 1);
    assert_true(x == 256);
    assert_int_equal(points_above(table, "seco", &x, &seco), 1);
    assert_true(x == 256);
    assert_true(full > streambp && streambp > seco);
    free(svg);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(curves_are_the_records, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_above_the_limit, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests_name("drawn_data", tests, NULL, NULL);
}
