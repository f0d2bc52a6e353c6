// Tests of harness/plot/picture: the form of pictures, which is their size, title, axes, style and colours.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/plot/plot.h"
#include "tests/drawn_sweep.h"
#include <math.h>

static void draw_as(const struct scratch *scratch, struct picture_form form)
{
    struct scratch_path path = scratch_path(scratch, "r.jsonl"), folder = scratch_path(scratch, "out");
    const char *paths[] = {path.text};
    struct plot_request request = {.paths = paths, .path_count = 1, .form = form};
    request.form.folder = folder.text;
    request.form.scripts = "plots";
    struct status status = {0};
    if (!plot(&request, &status))
        fail_msg("%s", status.message);
}

static unsigned big_endian(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (unsigned)b[0] << 24 | (unsigned)b[1] << 16 | (unsigned)b[2] << 8 | b[3];
}

// The whole width is used, and no more height than given: in mm by the svg, in 1/300 inch by the png.
static void test_sizes_on_paper(void **state)
{
    static const struct {
        const char *text;
        double width_mm, height_mm;
    } sizes[] = {{"85mm", 85, 0},         {"170x110mm", 170, 110}, {"6.5x4in", 165.1, 101.6},
                 {"30x10.5cm", 300, 105}, {"60x200mm", 60, 200},   {"400x60mm", 400, 60}};
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct status status = {0};
        struct picture_form form = {.formats = "svg,png,pdf"};
        double width, height;
        assert_true(picture_size_parse(sizes[i].text, &form.size, &status));
        draw_as(scratch, form);
        char *svg = read_text(scratch, "out/sweep-time.svg"), *png = read_text(scratch, "out/sweep-time.png"),
             *pdf = read_text(scratch, "out/sweep-time.pdf");
        assert_int_equal(sscanf(strstr(svg, "width="), "width=\"%lfmm\" height=\"%lfmm\"", &width, &height), 2);
        assert_true(fabs(width - sizes[i].width_mm) < 0.5);
        assert_true(!sizes[i].height_mm || fabs(height - sizes[i].height_mm) < 0.5);
        assert_true(fabs(big_endian(png + 16) - width / 25.4 * 300) < 6);
        assert_true(fabs(big_endian(png + 20) - height / 25.4 * 300) < 6);
        assert_memory_equal(pdf, "%PDF-", 5);
        free(svg);
        free(png);
        free(pdf);
    }
}

static void test_sizes_that_are_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",        "mm",    "85",      "85 mm", "0x4in",       "170x110", "170xmm",
                                        "x110mm",  "5e3mm", "1.2.3mm", "-85mm", "170x110x5mm", "170x0mm", "nanmm",
                                        "170x9mm", "1x1in", "2001mm",  "85px",  "170x110mmm"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct picture_size size;
        struct status status = {0};
        if (picture_size_parse(wrong[i], &size, &status) || !strstr(status.message, "--size: "))
            fail_msg("\"%s\": %s", wrong[i], status.message);
    }
}

// A heading's own signs are letters to gnuplot; an empty one is none.
static void test_titles(void **state)
{
    static const char *const titles[] = {"Peak {memory}_2 of @all ~models^2 & \\more", "", NULL};
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        draw_as(scratch, (struct picture_form){.formats = "svg", .title = titles[i]});
        char *svg = read_text(scratch, "out/sweep-memory.svg");
        assert_true(!strstr(svg, "Peak memory against context") == (titles[i] != NULL));
        assert_true(!strstr(svg, "Peak {memory}_2 of @all ~models^2 &amp; \\more") == (i != 0));
        free(svg);
    }
}

// A linear axis of bytes begins at 0, a logarithmic one nowhere.
static void test_logarithmic_axes(void **state)
{
    static const char *const axes[] = {"y", "x,y", "y,x", "none", "x"};
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        draw_as(scratch, (struct picture_form){.formats = "svg", .log = axes[i]});
        char *svg = read_text(scratch, "out/sweep-memory.svg");
        assert_true(!strstr(svg, "> 0<") == (strchr(axes[i], 'y') != NULL));
        free(svg);
    }
    struct status status = {0};
    static const char *const wrong[] = {"z", "", "x,", "xy", "x,none"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(picture_form_check(&(struct picture_form){.formats = "svg", .log = wrong[i]}, &status));
        assert_non_null(strstr(status.message, "--log: expected x, y, x,y or none"));
    }
}

// Pictures leave out the caption's text; colours are greys; letters have serifs.
static void test_styles(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    static const char *const styles[] = {NULL, "bare", "grey", "serif", "serif,bare,grey"};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        draw_as(scratch, (struct picture_form){.formats = "svg", .style = styles[i]});
        char *svg = read_text(scratch, "out/sweep-memory.svg");
        const char *style = styles[i] ? styles[i] : "";
        assert_true(!strstr(svg, "Peak memory against context") == (strstr(style, "bare") != NULL));
        assert_true(!strstr(svg, "abcdef123456") == (strstr(style, "bare") != NULL));
        assert_true(!strstr(svg, "\"sans-serif\"") == (strstr(style, "serif") != NULL));
        free(svg);
    }
    struct status status = {0};
    assert_false(picture_form_check(&(struct picture_form){.formats = "svg", .style = "gray"}, &status));
    assert_non_null(strstr(status.message, "--style: "));
}

// One panel alone, with its legend, under a name of its own; letters of a family.
static void test_panels_and_fonts(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1);
    draw_as(scratch, (struct picture_form){.formats = "svg", .panel = "per-token", .font = "Latin Modern"});
    char *svg = read_text(scratch, "out/sweep-time-panel-per-token.svg");
    assert_true(strstr(svg, "time per token") && !strstr(svg, "time of one step") && strstr(svg, ">full<"));
    assert_true(strstr(svg, "\"Latin Modern\"") && !strstr(svg, "sans-serif"));
    free(svg);
    struct status status = {0};
    struct scratch_path path = scratch_path(scratch, "r.jsonl");
    const char *paths[] = {path.text};
    struct plot_request request = {.paths = paths,
                                   .path_count = 1,
                                   .form = {.formats = "svg", .panel = "per-tokn", .scripts = "plots"},
                                   .figures = "time"};
    assert_false(plot(&request, &status));
    assert_non_null(strstr(status.message, "has \"per-tokn\"; did you mean \"per-token\"? panels are "));
    assert_non_null(strstr(status.message, "time (time, per-token)"));
}

// How many colours the picture has that are no greys.
static size_t colours_of(const char *svg, size_t *greys)
{
    char seen[64][8];
    size_t count = 0, coloured = 0;
    for (const char *at = svg; (at = strstr(at, "rgb(")); at++) {
        int red, green, blue;
        char colour[8];
        assert_int_equal(sscanf(at, "rgb( %d, %d, %d)", &red, &green, &blue), 3);
        snprintf(colour, sizeof colour, "%02x%02x%02x", red & 255, green & 255, blue & 255);
        size_t known = 0;
        while (known < count && strcmp(seen[known], colour) != 0)
            known++;
        if (known < count || count == 64)
            continue;
        snprintf(seen[count++], 8, "%s", colour);
        coloured += red != green || green != blue;
    }
    *greys = count - coloured;
    return coloured;
}

// Eight series of one method: three share its colour, five have one of their own; in greys there are as many.
static void test_series_of_one_method_have_colours(void **state)
{
    struct scratch *scratch = *state;
    char *lines[17] = {NULL};
    for (int i = 0; i < 16; i++) {
        char method[64], rest[40];
        snprintf(method, sizeof method, "{'name': 'seco', 'chunk': %d}", 8 << i / 2);
        snprintf(rest, sizeof rest, ", 'peak_bytes': %d", 1000 + 100 * i);
        lines[i] = record(i + 1, "sweep", "ok", "f32", 4096 << i % 2, method, rest);
    }
    write_records(scratch, "r.jsonl", lines);
    size_t greys, grey_greys;
    draw_as(scratch, (struct picture_form){.formats = "svg"});
    char *svg = read_text(scratch, "out/sweep-memory.svg");
    assert_int_equal(colours_of(svg, &greys), 6);
    free(svg);
    draw_as(scratch, (struct picture_form){.formats = "svg", .style = "grey"});
    svg = read_text(scratch, "out/sweep-memory.svg");
    assert_int_equal(colours_of(svg, &grey_greys), 0);
    assert_int_equal(grey_greys, greys + 6);
    free(svg);
}

// A logarithmic axis goes little further than what it shows.
static void test_no_decade_is_wasted(void **state)
{
    struct scratch *scratch = *state;
    write_sweep(scratch, "r.jsonl", "f32", 1); // 5 to 11 ms
    draw_as(scratch, (struct picture_form){.formats = "svg"});
    char *svg = read_text(scratch, "out/sweep-time.svg");
    assert_true(strstr(svg, ">5<") && strstr(svg, ">10<") && !strstr(svg, ">100<") && !strstr(svg, ">1<"));
    free(svg);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sizes_on_paper),
        TEST(test_sizes_that_are_none),
        TEST(test_titles),
        TEST(test_logarithmic_axes),
        TEST(test_styles),
        TEST(test_panels_and_fonts),
        TEST(test_series_of_one_method_have_colours),
        TEST(test_no_decade_is_wasted),
    };
    return cmocka_run_group_tests_name("picture form", tests, NULL, NULL);
}
