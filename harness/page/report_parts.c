// Reports in markdown, on the page.
#include "harness/compare/history_report.h"
#include "harness/page/markdown.h"
#include "harness/page/part.h"
#include "harness/report/category_report.h"
#include "harness/report/prediction_report.h"
#include <stdlib.h>

struct text {
    char *markdown;
    size_t bytes;
    FILE *stream;
};

static void text_open(struct text *text)
{
    text->stream = open_memstream(&text->markdown, &text->bytes);
}

static void text_close(struct text *text, FILE *html)
{
    CHECK(fclose(text->stream) == 0);
    markdown_to_html(text->markdown, html);
    free(text->markdown);
}

// Uses every record, where the page's table has only the last of each trial.
bool history_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    (void)status;
    const struct history_report form = {.format = TABLE_MARKDOWN, .compared = true};
    struct histories histories = {0};
    struct text text;
    text_open(&text);
    histories_make(&histories, page->every.records, page->every.count);
    for (size_t i = 0; i < histories.count; i++)
        *count += history_compared(&histories.items[i]) > 0;
    if (*count)
        history_report_write(&form, &histories, text.stream);
    text_close(&text, stream);
    histories_free(&histories);
    return true;
}

bool time_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    (void)status;
    struct text text;
    const struct category_report categories = {.format = TABLE_MARKDOWN, .operations = true};
    text_open(&text);
    *count = category_report_write(&categories, &page->results, text.stream);
    *count += prediction_report_write(&page->results, true, TABLE_MARKDOWN, text.stream);
    text_close(&text, stream);
    return true;
}

bool published_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    (void)status;
    struct text text;
    const struct report_request request = {.table.format = TABLE_MARKDOWN};
    text_open(&text);
    *count = report_published_write(&request, &page->results, &page->published, false, text.stream);
    text_close(&text, stream);
    return true;
}

bool longest_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    (void)status;
    const struct report_request request = {.table.format = TABLE_MARKDOWN};
    struct text text;
    text_open(&text);
    *count = report_longest_write(&request, &page->results, &page->published, false, text.stream);
    text_close(&text, stream);
    return true;
}
