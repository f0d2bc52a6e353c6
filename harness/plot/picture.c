#include "harness/plot/picture.h"
#include "harness/files/output_file.h"
#include "harness/plot/gnuplot.h"
#include "harness/text/text.h"
#include "harness/text/word_list.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

// --- size

#define MIN_MM 30.0
#define MAX_MM 2000.0

static const struct unit {
    const char *name;
    double mm;
} units[] = {{"mm", 1}, {"cm", 10}, {"in", 25.4}};

// Digits with at most one point, and the text after them; 0 if there are none.
static double read_number(const char **text)
{
    char digits[24], *end;
    size_t length = strspn(*text, "0123456789.");
    if (!length || length >= sizeof digits)
        return 0;
    snprintf(digits, length + 1, "%s", *text);
    *text += length;
    double value = strtod(digits, &end);
    return *end ? 0 : value;
}

static bool within(double mm)
{
    return mm >= MIN_MM && mm <= MAX_MM;
}

bool picture_size_parse(const char *text, struct picture_size *size, struct status *status)
{
    const char *at = text;
    double width = read_number(&at), height = 0;
    bool both = *at == 'x';
    if (both) {
        at++;
        height = read_number(&at);
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(at, units[i].name) != 0 || width <= 0 || (both && height <= 0))
            continue;
        *size = (struct picture_size){width * units[i].mm, height * units[i].mm};
        if (within(size->width_mm) && (!both || within(size->height_mm)))
            return true;
        return status_set(status, STATUS_BAD_INPUT,
                          "--size: \"%.40s\": a side has %g mm at least and %g mm at most", text, MIN_MM, MAX_MM);
    }
    return status_set(status, STATUS_BAD_INPUT,
                      "--size: expected a width, or WIDTHxHEIGHT, in mm, cm or in, such as 170x110mm or 85mm, "
                      "found \"%.40s\"",
                      text);
}

// --- files

static bool make_folder(const char *path, struct status *status)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return status_set(status, STATUS_BAD_INPUT, "%.200s...: the name is too long", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0777);
        *slash = '/';
    }
    struct stat info;
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
        return status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode))
        return status_set(status, STATUS_IO, "%s: not a folder", path);
    return true;
}

#define MM_PER_UNIT (25.4 / 96) // the scripts' unit is 1/96 inch

// Sets the size in the head of gnuplot's SVG, which has none, as large as fits the request; to be freed.
static char *svg_of_size(const char *svg, struct picture_size size, size_t *bytes)
{
    const char *box = strstr(svg, "viewBox=\"");
    double width, height;
    CHECK(box && sscanf(box, "viewBox=\"0 0 %lf %lf\"", &width, &height) == 2);
    double mm = size.width_mm / width;
    if (size.height_mm > 0 && mm * height > size.height_mm)
        mm = size.height_mm / height;
    char *sized = NULL;
    FILE *stream = open_memstream(&sized, bytes);
    fprintf(stream, "%.*swidth=\"%.2fmm\" height=\"%.2fmm\" %s", (int)(box - svg), svg, mm * width, mm * height,
            box);
    CHECK(fclose(stream) == 0);
    return sized;
}

// Tells whether gnuplot's notices are shown with this format: only with the first.
static bool is_telling(const char *formats, const char *format)
{
    bool first = strncmp(formats, format, strlen(format)) == 0;
    return first || (strncmp(formats, "tsv,", 4) == 0 && is_telling(formats + 4, format));
}

// The picture as gnuplot draws it, to be freed; NULL and a status on failure.
static char *drawn_by(const struct picture *picture, const char *table, const char *format, size_t *bytes,
                      struct status *status)
{
    const struct picture_form *form = picture->form;
    char width[32], height[32];
    struct gnuplot_variable variables[14] = {{"format", format},
                                             {"setting", picture->setting},
                                             {"source", picture->source},
                                             {"machine", picture->machine}};
    size_t count = 4;
    if (form->take)
        variables[count++] = (struct gnuplot_variable){"interactive", "yes"};
    if (!form->take && is_telling(form->formats, format))
        variables[count++] = (struct gnuplot_variable){"telling", picture->name};
    if (form->title)
        variables[count++] = (struct gnuplot_variable){"given_title", form->title};
    if (picture->claim)
        variables[count++] = (struct gnuplot_variable){"claim", picture->claim};
    if (form->style)
        variables[count++] = (struct gnuplot_variable){"given_style", form->style};
    if (form->font)
        variables[count++] = (struct gnuplot_variable){"given_font", form->font};
    if (form->panel)
        variables[count++] = (struct gnuplot_variable){"given_panel", form->panel};
    if (form->log)
        variables[count++] = (struct gnuplot_variable){"given_log", form->log};
    if (form->size.width_mm > 0) {
        snprintf(width, sizeof width, "%.2f", form->size.width_mm / MM_PER_UNIT);
        variables[count++] = (struct gnuplot_variable){"given_width", width};
    }
    if (form->size.height_mm > 0) {
        snprintf(height, sizeof height, "%.2f", form->size.height_mm / MM_PER_UNIT);
        variables[count++] = (struct gnuplot_variable){"given_height", height};
    }
    return gnuplot_draw(form->scripts, picture->figure, variables, count, table, bytes, status);
}

// A picture's table as text, and the drawn part of it.
struct texts {
    const char *whole, *drawn;
};

static bool draw(const struct picture *picture, const struct texts *table, const char *format,
                 struct status *status)
{
    const struct picture_form *form = picture->form;
    char path[PATH_MAX + 400];
    bool is_table = strcmp(format, "tsv") == 0;
    size_t bytes = strlen(table->whole);
    char *drawn = is_table ? strdup(table->whole) : drawn_by(picture, table->drawn, format, &bytes, status);
    if (drawn && form->size.width_mm > 0 && strcmp(format, "svg") == 0) {
        char *sized = svg_of_size(drawn, form->size, &bytes);
        free(drawn);
        drawn = sized;
    }
    snprintf(path, sizeof path, "%s/%.300s.%s", form->folder, picture->name, format);
    bool written = drawn && output_file_write(path, drawn, bytes, status);
    free(drawn);
    if (written)
        printf("%s\n", path);
    return written;
}

static bool draw_for_taker(const struct picture *picture, const char *table, struct status *status)
{
    struct picture_room *room = picture->form->room;
    if (room && !room->left) {
        room->left_out++;
        return true;
    }
    if (room)
        room->left--;
    size_t bytes;
    char *svg = drawn_by(picture, table, "svg", &bytes, status);
    if (svg)
        picture->form->take(picture->form->taker, picture, svg);
    free(svg);
    return svg != NULL;
}

bool picture_form_check(const struct picture_form *form, struct status *status)
{
    static const char *const axes[] = {"x", "y", "x,y", "y,x", "none"};
    bool known = !form->log;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        known |= form->log && strcmp(form->log, axes[i]) == 0;
    return (!form->folder || *form->folder ||
            status_set(status, STATUS_BAD_INPUT, "--out: expected a folder, found \"\"; . is this one")) &&
           word_list_check(form->formats, "svg,png,pdf,tsv", "--format", status) &&
           (!form->style || word_list_check(form->style, "bare,grey,serif", "--style", status)) &&
           (!form->style || !form->title || !word_list_has(form->style, "bare") ||
            status_set(status, STATUS_BAD_INPUT,
                       "--title: --style bare has no heading; leave one of the two out")) &&
           (known ||
            status_set(status, STATUS_BAD_INPUT, "--log: expected x, y, x,y or none, found \"%.40s\"", form->log));
}

static bool draw_all(const struct picture *picture, const struct texts *table, struct status *status)
{
    char formats[64], *rest = NULL;
    snprintf(formats, sizeof formats, "%s", picture->form->formats);
    bool drawn = make_folder(picture->form->folder, status);
    for (char *format = strtok_r(formats, ",", &rest); drawn && format; format = strtok_r(NULL, ",", &rest))
        drawn = draw(picture, table, format, status);
    return drawn;
}

// A picture's texts in a fixed order.
enum { TEXTS = 7 };
static void texts_of(struct picture *picture, const char **texts[TEXTS])
{
    const char **const all[TEXTS] = {&picture->name,    &picture->kind,   &picture->figure, &picture->claim,
                                     &picture->setting, &picture->source, &picture->machine};
    memcpy(texts, all, sizeof all);
}

static void queue_add(struct picture_queue *queue, const struct picture *picture)
{
    const char **texts[TEXTS];
    queue->pictures = realloc(queue->pictures, (queue->count + 1) * sizeof *queue->pictures);
    struct picture *added = &queue->pictures[queue->count++];
    *added = *picture;
    texts_of(added, texts);
    for (size_t i = 0; i < TEXTS; i++)
        CHECK(!*texts[i] || (*texts[i] = strdup(*texts[i])));
    CHECK(added->table = malloc(sizeof *added->table));
    *added->table = *picture->table;
    *picture->table = (struct figure_table){0};
}

static bool draw_shown(const struct picture *picture, struct status *status)
{
    if (figure_table_beyond(picture->table)) {
        fprintf(stderr, "%s: no picture: a number is above 1e60, or below 1e-60 and not 0\n", picture->name);
        return true;
    }
    struct picture shown = *picture;
    char source[1000] = "", *table;
    char *whole = figure_table_text(picture->table);
    figure_table_thin(picture->table, picture->along, picture->logarithmic);
    if (picture->table->thinned_from) {
        text_append(source, sizeof source,
                    "%s; of %zu points %zu are drawn: of those that lie side by side, the least and "
                    "the greatest",
                    picture->source, picture->table->thinned_from, picture->table->row_count);
        shown.source = source;
    }
    table = figure_table_text(picture->table);
    bool drawn = picture->form->take ? draw_for_taker(&shown, table, status)
                                     : draw_all(&shown, &(struct texts){whole, table}, status);
    free(whole);
    free(table);
    return drawn;
}

bool picture_draw(const struct picture *picture, struct status *status)
{
    if (!series_choice_apply(picture->form->series, picture->table))
        return true;
    if (!picture->form->queue)
        return draw_shown(picture, status);
    queue_add(picture->form->queue, picture);
    return true;
}

bool picture_queue_draw(const struct picture_queue *queue, struct status *status)
{
    bool drawn = true;
    for (size_t i = 0; drawn && i < queue->count; i++)
        drawn = draw_shown(&queue->pictures[i], status);
    return drawn;
}

void picture_queue_free(struct picture_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        const char **texts[TEXTS];
        texts_of(&queue->pictures[i], texts);
        for (size_t t = 0; t < TEXTS; t++)
            free((char *)*texts[t]);
        figure_table_free(queue->pictures[i].table);
        free(queue->pictures[i].table);
    }
    free(queue->pictures);
    *queue = (struct picture_queue){0};
}
