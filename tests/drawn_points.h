// Drawn points: what gnuplot draws of a figure's one picture, read back: `set table` writes points in its place.
// Before it is included, _GNU_SOURCE is defined, for asprintf.
#pragma once
#include "tests/program.h"
#include <math.h>
#include <stdbool.h>

// Draws the records that a shell command prints, in which $R is the folder of kept results: into drawn.svg and
// drawn.tsv, the table that it is drawn from, and its points into the file points.
static inline void draw_points(const struct scratch *scratch, const char *figure, const char *records)
{
    char *command, *scripts = realpath("plots", NULL), *results = realpath("results", NULL),
                   *published = realpath("experiments/published", NULL);
    assert_true(scripts && results && published);
    // Points are written as the ticks of their axis are. gnuplot 5.4.4 dies of a table with a curve whose points
    // are all missing; of one where they are undefined it does not.
    assert_true(asprintf(&command,
                         "R='%s'; rm -rf scripts drawn drawn.svg points && mkdir scripts && "
                         "cp '%s'/*.gp scripts && { %s; } > r.jsonl && "
                         "sed -i -e '/^set datafile missing NaN/d' -e \"s/^\\( *set format .\\) .*/\\1 '%%.9g'/\" "
                         "-e \"s/set format x \\\"[^\\\"]*\\\"/set format x '%%.9g'/\" scripts/*.gp && "
                         "$L plot r.jsonl --figures %s --published '%s' --format svg,tsv -o drawn && "
                         "mv drawn/*.svg drawn.svg && mv drawn/*.tsv drawn.tsv && "
                         "gnuplot -e \"set table 'points'; data='drawn.tsv'; format='svg'; scripts='scripts'; "
                         "setting=''; source=''; machine=''\" scripts/%s.gp > tabulated.svg",
                         results, scripts, records, figure, published, figure) > 0);
    if (run(scratch, command) != 0)
        fail_msg("%s is not one picture: %s", figure, text_of(scratch, "err"));
    free(command);
    free(published);
    free(results);
    free(scripts);
}

// One unit of a picture's axis, in bytes or ms, such as of "peak memory (MiB)".
static inline double drawn_unit(const char *svg, const char *axis)
{
    static const struct {
        const char *name;
        double value;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"ms", 1}, {"s", 1e3}, {"µs", 1e-3}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        char label[80];
        snprintf(label, sizeof label, "%s (%s)", axis, units[i].name);
        if (strstr(svg, label))
            return units[i].value;
    }
    fail_msg("no axis \"%s\" with a unit", axis);
    return 0;
}

struct drawn_point {
    const char *title; // of its curve, up to a quote; "": it has none
    double x, y;
};

struct drawn_points {
    size_t count;
    struct drawn_point *points;
};

// Borrows the text.
static inline struct drawn_points drawn_points_read(const char *text)
{
    static const char begin[] = "# Curve ", titled[] = "# Curve title: \"";
    struct drawn_points drawn = {0};
    const char *title = "";
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, titled, strlen(titled)) == 0)
            title = line + strlen(titled);
        else if (strncmp(line, begin, strlen(begin)) == 0)
            title = "";
        char *end, *behind;
        double x = strtod(line, &end), y = strtod(end, &behind);
        if (end == line || behind == end || memchr(line, '\n', (size_t)(behind - line)))
            continue;
        drawn.points = realloc(drawn.points, (drawn.count + 1) * sizeof *drawn.points);
        assert_non_null(drawn.points);
        drawn.points[drawn.count++] = (struct drawn_point){title, x, y};
    }
    return drawn;
}

// gnuplot writes six digits.
static inline bool drawn_alike(double value, double drawn)
{
    return fabs(value - drawn) <= 1e-5 * fmax(fabs(value), fabs(drawn));
}

// title NULL: of any curve; a NaN: anywhere along that axis.
static inline bool drawn_points_have(const struct drawn_points *drawn, const char *title, double x, double y)
{
    bool found = false;
    for (size_t i = 0; !found && i < drawn->count; i++) {
        const struct drawn_point *point = &drawn->points[i];
        size_t bytes = strcspn(point->title, "\"\n");
        found = (isnan(x) || drawn_alike(x, point->x)) && (isnan(y) || drawn_alike(y, point->y)) &&
                (!title || (strlen(title) == bytes && memcmp(title, point->title, bytes) == 0));
    }
    return found;
}

static inline void drawn_points_free(struct drawn_points *drawn)
{
    free(drawn->points);
    *drawn = (struct drawn_points){0};
}
