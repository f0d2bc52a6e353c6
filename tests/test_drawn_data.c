// Tests of what gnuplot draws: the points of a picture's curves, which `set table` writes in place of the picture,
// are the numbers of the records in the unit that the axis names, each under its series.
#define _GNU_SOURCE // asprintf
#include "tests/program.h"
#include "tests/quoted.h"
#include <ctype.h>
#include <math.h>
#include <stdbool.h>

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
    FILE *file = fopen(scratch_path(scratch, "r.jsonl").text, "w");
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

// The picture as it is, into drawn/, and what its script draws, into the file table.
static void draw(const struct scratch *scratch, const char *figure)
{
    char *command, *scripts = realpath("plots", NULL);
    assert_non_null(scripts);
    assert_true(asprintf(&command,
                         "rm -rf scripts && mkdir scripts && cp %s/*.gp scripts && "
                         "(echo \"set table '$PWD/table'\"; cat %s/%s.gp) > scripts/%s.gp && "
                         "$L plot r.jsonl --figures %s --format svg -o drawn && "
                         "$L plot r.jsonl --figures %s --format svg -o tabulated --scripts scripts",
                         scripts, scripts, figure, figure, figure, figure) > 0);
    if (run(scratch, command) != 0)
        fail_msg("%s: %s", figure, text_of(scratch, "err"));
    free(command);
    free(scripts);
}

// What one unit is that an axis of the picture names, as in "peak memory (MiB)".
static double unit_of(const char *svg, const char *axis)
{
    static const struct {
        const char *name;
        double value;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"ms", 1}, {"s", 1e3}, {"µs", 1e-3}};
    for (size_t i = 0; i < COUNT(units); i++) {
        char label[80];
        snprintf(label, sizeof label, "%s (%s)", axis, units[i].name);
        if (strstr(svg, label))
            return units[i].value;
    }
    fail_msg("no axis \"%s\" with a unit", axis);
    return 0;
}

// Whether the points that stand here, behind a curve's head, begin with these.
static bool has_points(const char *at, const double *x, const double *y)
{
    bool same = true;
    for (size_t c = 0; same && c < CONTEXTS; c++) {
        char *end;
        double left = strtod(at, &end), right = strtod(end, &end);
        same = left == x[c] && fabs(right / y[c] - 1) < 1e-4; // gnuplot writes six digits
        at = end + strcspn(end, "\n");
    }
    while (same && isspace((unsigned char)*at))
        at++;
    return same && (*at == '#' || !*at);
}

// That a curve of this title has these points and no others.
static void expect_curve(const char *table, const char *title, const double *x, const double *y, const char *what)
{
    char head[80];
    snprintf(head, sizeof head, "# Curve title: \"%s\"\n", title);
    bool found = false;
    for (const char *at = table; !found && (at = strstr(at, head));) {
        at = strchr(at + strlen(head), '\n'); // behind the names of the columns
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
            char picture[40];
            if (strcmp(drawn, quantity->figure) != 0)
                draw(scratch, drawn = quantity->figure);
            snprintf(picture, sizeof picture, "drawn/e-%s.svg", quantity->figure);
            char *svg = text_of(scratch, picture), *table = text_of(scratch, "table");
            double unit = unit_of(svg, quantity->axis);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(curves_are_the_records, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests_name("drawn_data", tests, NULL, NULL);
}
