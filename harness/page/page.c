#include "harness/page/page.h"
#include "harness/files/output_file.h"
#include "harness/page/html.h"
#include "harness/page/part.h"
#include "harness/table/record_filter.h"
#include <stdlib.h>
#include <string.h>

// Template, style and script, embedded into the program; each ends in a zero.
extern const char page_template[], page_style[], page_script[];

// The assembler reads the file; the path is relative to the repository's root.
#define ASSET(name, file)                                                                                          \
    __asm__(".section .rodata\n"                                                                                   \
            ".global " #name "\n"                                                                                  \
            ".type " #name ", @object\n" #name ":\n"                                                               \
            ".incbin \"harness/page/" file "\"\n"                                                                  \
            ".byte 0\n"                                                                                            \
            ".size " #name ", . - " #name "\n"                                                                     \
            ".previous\n")

ASSET(page_template, "page.html");
ASSET(page_style, "page.css");
ASSET(page_script, "page.js");

static const struct {
    const char *name, *title;
    page_writer *write;
} parts[] = {{"claims", "Claims", claims_part},
             {"figures", "Figures", figures_part},
             {"records", "Records", records_part},
             {"history", "From commit to commit", history_part},
             {"time", "Where the time goes", time_part},
             {"published", "Beside published points", published_part},
             {"longest", "Longest contexts", longest_part},
             {"origins", "Where the records come from", origins_part}};

enum { PARTS = sizeof parts / sizeof *parts };

struct written {
    char *html;
    size_t bytes, count; // number of its items, 0: the part is left out
};

static bool write_parts(const struct page *page, struct written written[PARTS], struct status *status)
{
    bool fine = true;
    for (size_t i = 0; fine && i < PARTS; i++) {
        FILE *stream = open_memstream(&written[i].html, &written[i].bytes);
        fine = parts[i].write(page, stream, &written[i].count, status);
        CHECK(fclose(stream) == 0);
    }
    return fine;
}

// --- the template

static void write_title(const struct page *page, FILE *stream)
{
    const struct results *results = &page->results;
    const char *experiment = results->count ? results->records[0]->experiment : "";
    size_t alike = 0;
    while (alike < results->count && strcmp(results->records[alike]->experiment, experiment) == 0)
        alike++;
    if (alike && alike == results->count)
        html_text(stream, experiment);
    else if (page->all.file_count == 1)
        html_text(stream, page->all.files[0].path);
    else
        fputs("Records of long-context backpropagation", stream);
}

static void write_contents(const struct written written[PARTS], FILE *stream)
{
    fputs("<nav aria-label=\"Contents\"><ul>\n", stream);
    for (size_t i = 0; i < PARTS; i++)
        if (written[i].count)
            fprintf(stream, "<li><a href=\"#%s\">%s</a><span class=\"count\">%zu</span></li>\n", parts[i].name,
                    parts[i].title, written[i].count);
    fputs("</ul></nav>\n", stream);
}

static void write_sections(const struct written written[PARTS], FILE *stream)
{
    bool any = false;
    for (size_t i = 0; i < PARTS; i++) {
        any |= written[i].count > 0;
        if (written[i].count)
            fprintf(stream, "<section id=\"%s\">\n<h2>%s</h2>\n%s</section>\n", parts[i].name, parts[i].title,
                    written[i].html);
    }
    if (!any)
        fputs("<p>No records.</p>\n", stream);
}

static void write_placed(const struct page *page, const struct written written[PARTS], const char *place,
                         size_t bytes, FILE *stream)
{
    if (strncmp(place, "title", bytes) == 0)
        write_title(page, stream);
    else if (strncmp(place, "css", bytes) == 0)
        fputs(page_style, stream);
    else if (strncmp(place, "js", bytes) == 0)
        fputs(page_script, stream);
    else if (strncmp(place, "summary", bytes) == 0)
        facts_write(page, stream);
    else if (strncmp(place, "contents", bytes) == 0)
        write_contents(written, stream);
    else
        write_sections(written, stream);
}

// The template has placeholders in double braces.
static void write_page(const struct page *page, const struct written written[PARTS], FILE *stream)
{
    const char *rest = page_template;
    for (const char *place; (place = strstr(rest, "{{")); rest = strstr(place, "}}") + 2) {
        fwrite(rest, 1, (size_t)(place - rest), stream);
        write_placed(page, written, place + 2, (size_t)(strstr(place, "}}") - place) - 2, stream);
    }
    fputs(rest, stream);
}

// Selects the records that fit the conditions, and the table's.
static bool choose(struct page *page, struct status *status)
{
    const struct report_request *report = page->report;
    results_of(&page->every, &page->all, true);
    results_of(&page->results, &page->all, report->every);
    return record_filter_some(&page->results, report->conditions, report->condition_count, status) &&
           record_filter_some(&page->every, report->conditions, report->condition_count, status);
}

bool page_write(const struct page_request *request, const char *path, struct status *status)
{
    const struct report_request *report = request->report;
    struct page page = {.report = request->report, .claims = request->claims};
    struct written written[PARTS] = {0};
    char *html = NULL;
    size_t bytes = 0;
    bool fine = output_file_check(path, status) &&
                results_open(&page.all, report->paths, report->path_count, true, status) && choose(&page, status) &&
                published_load(&page.published, report->published, status) &&
                page_figures_draw(&page.figures, &page, status) && write_parts(&page, written, status);
    if (fine) {
        FILE *stream = open_memstream(&html, &bytes);
        write_page(&page, written, stream);
        CHECK(fclose(stream) == 0);
        fine = output_file_write(path, html, bytes, status);
    }
    free(html);
    for (size_t i = 0; i < PARTS; i++)
        free(written[i].html);
    page_figures_free(&page.figures);
    results_close(&page.results);
    results_close(&page.every);
    results_close(&page.all);
    published_free(&page.published);
    return fine;
}
