// Part of a page: writes its HTML from the records, or nothing if they do not have it.
#pragma once
#include "harness/record/results.h"
#include "harness/report/report.h"

struct page_figure {
    char *name, *kind, *html; // kind: by which claims name it
};

struct page_figures {
    size_t count, left_out; // left_out: for there was no room
    struct page_figure *items;
    struct status missing; // why there are none: without gnuplot the rest of the page is still worth having
};

struct page {
    const struct report_request *report; // as in page.h
    const char *claims;
    struct results all;     // as they were read
    struct results every;   // those that fit the conditions
    struct results results; // those of the page's table: of each trial one, unless every record was asked for
    struct published published;
    struct page_figures figures;
};

// The records' figures, which other parts tell of, before any part is written. False and a status if a file is
// wrong. Release with page_figures_free.
bool page_figures_draw(struct page_figures *figures, const struct page *page, struct status *status);
void page_figures_free(struct page_figures *figures);

// How many items a part wrote; false and a status if a file is wrong.
typedef bool page_writer(const struct page *page, FILE *stream, size_t *count, struct status *status);
page_writer claims_part, figures_part, records_part, history_part, time_part, published_part, longest_part,
    origins_part;
// What the records are in a few facts, at the head of the page.
void facts_write(const struct page *page, FILE *stream);
