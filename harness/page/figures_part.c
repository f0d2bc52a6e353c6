#include "harness/page/html.h"
#include "harness/page/part.h"
#include "harness/plot/plot.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// Pages with more are slow to open; for large sweeps `longbp plot` draws the rest.
#define PICTURES_MAX 60

// --- a picture as a part of a page

struct change {
    const char *from, *to; // in a tag
};

// Writes a tag of the SVG, '<' to '>'. Ids are made unique on the page; a mark's tooltip becomes an attribute
// instead of a script call; the picture's white background is left to the page.
static void write_tag(const char *tag, size_t bytes, size_t number, FILE *stream)
{
    char id[40], other_id[40], reference[40], url[40];
    snprintf(id, sizeof id, "id='p%zu-", number);
    snprintf(other_id, sizeof other_id, "id=\"p%zu-", number);
    snprintf(reference, sizeof reference, "href='#p%zu-", number);
    snprintf(url, sizeof url, "url(#p%zu-", number);
    const struct change changes[] = {{"id='", id},
                                     {"id=\"", other_id},
                                     {"href='#", reference},
                                     {"url(#", url},
                                     {"onmousemove=\"gnuplot_svg.showHypertext(evt,'", "data-told=\""},
                                     {"')\" onmouseout=\"gnuplot_svg.hideHypertext()\"", "\""}};
    static const char sheet[] = "<rect x=\"0\" y=\"0\"";
    if (bytes > sizeof sheet && strncmp(tag, sheet, sizeof sheet - 1) == 0)
        return;
    for (size_t i = 0; i < bytes;) {
        size_t c = 0;
        while (c < sizeof changes / sizeof *changes &&
               strncmp(tag + i, changes[c].from, strlen(changes[c].from)) != 0)
            c++;
        if (c < sizeof changes / sizeof *changes) {
            fputs(changes[c].to, stream);
            i += strlen(changes[c].from);
        } else {
            fputc(tag[i++], stream);
        }
    }
}

static void write_svg(const char *svg, size_t number, FILE *stream)
{
    const char *rest = strstr(svg, "<svg");
    CHECK(rest);
    while (*rest) {
        size_t words = strcspn(rest, "<");
        fwrite(rest, 1, words, stream);
        rest += words;
        const char *end = strchr(rest, '>');
        if (!end)
            break;
        write_tag(rest, (size_t)(end + 1 - rest), number, stream);
        rest = end + 1;
    }
    fputs(rest, stream);
}

// The labels of a table's series, in order.
static json_t *labels_of(const struct figure_table *table)
{
    json_t *labels = json_array();
    for (size_t i = 0; i < table->row_count; i++) {
        size_t series = (size_t)figure_table_at(table, i, COLUMN_SERIES)->number;
        while (json_array_size(labels) < series)
            json_array_append_new(labels, json_string(""));
        json_array_set_new(labels, series - 1, json_string(figure_table_at(table, i, COLUMN_LABEL)->word));
    }
    return labels;
}

static void take(void *taker, const struct picture *picture, const char *svg)
{
    struct page_figures *figures = taker;
    char *html = NULL;
    size_t bytes, number = figures->count + 1;
    FILE *stream = open_memstream(&html, &bytes);
    json_t *labels = labels_of(picture->table);
    char *series = json_dumps(labels, JSON_COMPACT), *table = figure_table_text(picture->table);
    fprintf(stream, "<figure id=\"picture-%zu\" aria-label=\"", number);
    html_text(stream, picture->name);
    fputs("\" data-series=\"", stream);
    html_text(stream, series);
    fputs("\"><div class=\"scroll\" tabindex=\"0\">", stream);
    write_svg(svg, number, stream);
    fputs("</div>\n<figcaption><details><summary>Data</summary><pre>", stream);
    html_text(stream, table);
    fputs("</pre><button type=\"button\" class=\"plain\" data-copy=\"", stream);
    html_text(stream, table);
    fputs("\">copy data</button></details></figcaption></figure>\n", stream);
    CHECK(fclose(stream) == 0);
    free(table);
    free(series);
    json_decref(labels);
    figures->items = realloc(figures->items, number * sizeof *figures->items);
    figures->items[figures->count++] = (struct page_figure){strdup(picture->name), strdup(picture->kind), html};
}

// --- all pictures

// Length of a picture's name without its context: "speed-chunk" of "speed-chunk-context-2048"; the whole name if it
// has none.
static size_t stem_bytes(const char *name)
{
    const char *context = strstr(name, "-context-"), *digits = context ? context + strlen("-context-") : NULL;
    bool ends = digits && *digits && !digits[strspn(digits, "0123456789")];
    return ends ? (size_t)(context - name) : strlen(name);
}

// The first of the pictures that differ only in context; the picture itself if it has none.
static size_t first_alike(const struct page_figures *figures, size_t at)
{
    const char *name = figures->items[at].name;
    size_t bytes = stem_bytes(name), first = 0;
    if (!name[bytes])
        return at;
    while (stem_bytes(figures->items[first].name) != bytes || !figures->items[first].name[bytes] ||
           strncmp(figures->items[first].name, name, bytes) != 0)
        first++;
    return first;
}

static void write_index(const struct page_figures *figures, FILE *stream)
{
    fputs("<nav class=\"figures\" aria-label=\"Figures\"><ul>\n", stream);
    for (size_t i = 0; i < figures->count; i++) {
        const char *name = figures->items[i].name;
        if (first_alike(figures, i) != i)
            continue;
        fprintf(stream, "<li><a href=\"#picture-%zu\">", i + 1);
        html_bytes(stream, name, stem_bytes(name));
        fputs("</a></li>\n", stream);
    }
    fputs("</ul></nav>\n", stream);
}

// Groups pictures that differ only in context; the page's script shows one at a time.
static void write_alike(const struct page_figures *figures, size_t first, FILE *stream)
{
    bool several = false;
    for (size_t i = first + 1; i < figures->count; i++)
        several |= first_alike(figures, i) == first;
    fputs(several ? "<div class=\"alike\">\n" : "", stream);
    for (size_t i = first; i < figures->count; i++)
        if (first_alike(figures, i) == first)
            fputs(figures->items[i].html, stream);
    fputs(several ? "</div>\n" : "", stream);
}

bool page_figures_draw(struct page_figures *figures, const struct page *page, struct status *status)
{
    const struct report_request *report = page->report;
    struct picture_room room = {.left = PICTURES_MAX};
    const struct plot_request request = {.paths = report->paths,
                                         .path_count = report->path_count,
                                         .records = &page->all,
                                         .conditions = report->conditions,
                                         .condition_count = report->condition_count,
                                         .published = report->published,
                                         .form = {.take = take, .taker = figures, .room = &room, .formats = "svg"}};
    struct status drawing = {0};
    bool fine = page->results.count == 0 || plot(&request, &drawing);
    figures->left_out = room.left_out;
    if (!fine && drawing.code == STATUS_UNSUPPORTED) {
        fprintf(stderr, "longbp: warning: the page has no figures: %s\n", drawing.message);
        figures->missing = drawing;
        return true;
    }
    if (!fine)
        *status = drawing;
    return fine;
}

void page_figures_free(struct page_figures *figures)
{
    for (size_t i = 0; i < figures->count; i++) {
        free(figures->items[i].name);
        free(figures->items[i].kind);
        free(figures->items[i].html);
    }
    free(figures->items);
    *figures = (struct page_figures){0};
}

bool figures_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    const struct page_figures *figures = &page->figures;
    (void)status;
    if (figures->missing.code != STATUS_OK) {
        fputs("<p>Left out: ", stream);
        html_text(stream, figures->missing.message);
        fputs(".</p>\n", stream);
    }
    if (figures->count > 4)
        write_index(figures, stream);
    for (size_t i = 0; i < figures->count; i++)
        if (first_alike(figures, i) == i)
            write_alike(figures, i, stream);
    if (figures->left_out)
        fprintf(stream,
                "<p class=\"quiet\">%zu more figures are left out: <code>longbp plot</code> draws them, "
                "<code>--where</code> chooses records.</p>\n",
                figures->left_out);
    *count = figures->count + (figures->missing.code != STATUS_OK);
    return true;
}
