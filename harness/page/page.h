// Page: records as one self-contained HTML file: the papers' claims, pictures, tables, time by operation, and
// provenance.
#pragma once
#include "harness/report/report.h"

struct page_request {
    const struct report_request *report; // records, conditions, columns and order of the table of records
    const char *claims;                  // file of claims; NULL: experiments/claims.json, if it exists
};

// Writes the page. Without gnuplot it has no pictures and says so, also on stderr. Returns false and a status if a
// file is wrong or the page cannot be written.
bool page_write(const struct page_request *request, const char *path, struct status *status);
