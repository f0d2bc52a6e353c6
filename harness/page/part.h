// Part of a page: writes its HTML from the records, or nothing if they lack its data.
#pragma once
#include "harness/record/results.h"
#include "harness/report/report.h"

struct page_figure {
    char *name, *kind, *html; // kind: by which claims refer to it
};

struct page_figures {
    size_t count, left_out; // left_out: beyond the page's limit
    struct page_figure *items;
    struct status missing; // why there are none, for example without gnuplot
};

struct page {
    const struct report_request *report; // as in page.h
    const char *claims;
    struct results all;     // as read
    struct results every;   // those that fit the conditions
    struct results results; // those of the page's table: the last of each trial, unless every record was requested
    struct published published;
    struct page_figures figures;
};

// Draws the records' figures, to which other parts link, before any part is written. Returns false and a status if
// a file is wrong. Release with page_figures_free.
bool page_figures_draw(struct page_figures *figures, const struct page *page, struct status *status);
void page_figures_free(struct page_figures *figures);

// Sets the number of items written; returns false and a status if a file is wrong.
typedef bool page_writer(const struct page *page, FILE *stream, size_t *count, struct status *status);
page_writer claims_part, figures_part, records_part, history_part, time_part, published_part, longest_part,
    origins_part;
// Writes a summary of the records at the head of the page.
void facts_write(const struct page *page, FILE *stream);
