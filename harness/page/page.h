// Page: records as one HTML file that needs no network: what papers claim of them, pictures, tables, where a step's
// time goes, and where all of it comes from.
#pragma once
#include "harness/report/report.h"

struct page_request {
    const struct report_request *report; // records, conditions, columns and order of the table of records
    const char *claims;                  // file of claims; NULL: experiments/claims.json, if it is there
};

// Writes the page. Without gnuplot it has no pictures, and says so, on stderr as well. False and a status if a file
// is wrong or the page cannot be written.
bool page_write(const struct page_request *request, const char *path, struct status *status);
