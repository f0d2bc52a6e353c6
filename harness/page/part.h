// Part of a page: writes its HTML from the records, or nothing if they do not have it.
#pragma once
#include "harness/page/page.h"
#include "harness/results/results.h"

struct page {
    const struct page_request *request;
    struct results results;
    struct published published;
};

// How many items a part wrote; false and a status if a file is wrong.
typedef bool page_writer(const struct page *page, FILE *stream, size_t *count, struct status *status);
page_writer claims_part, figures_part, records_part, history_part, time_part, published_part, longest_part,
    origins_part;
// What the records are in a few facts, at the head of the page.
void facts_write(const struct page *page, FILE *stream);
