// Comparison by a key: the settings of one file, or of several together, held against each other: trials that
// differ in this key alone.
//
// By device, a plan and what was measured may differ besides in what either alone has: the profile and the links
// that estimates are made from, what is measured, and a limit of memory that no trial of one side has. Their title
// says the plan's profile and the card that was measured, and a note that a plan of no card in particular is one.
#pragma once
#include "harness/compare/comparison_report.h"

struct comparison_by {
    size_t count;
    struct titled_comparison *items; // [count]: the first value that the files have, and each of the others
    struct interned interned;        // what pairs the records
};

// key: NULL compares two files by id, as one item without a title; else of a trial, or an option of its method;
// "method": the method with all its options. Records without the option are left out. False and a status if there
// is no such key, or the files have fewer than two values of it. Release with comparison_by_free, also after a
// failure.
bool comparison_by_make(struct comparison_by *by, const struct result_file *files, size_t file_count,
                        const char *key, const struct comparison_options *options, struct status *status);
void comparison_by_free(struct comparison_by *by);
