// Report: records as one table; beside published values, point by point and curve by curve; a step's time by
// category; and the accuracy of its prediction.
#pragma once
#include "harness/papers/pairing.h"
#include "harness/report/record_table_report.h"
#include <stdio.h>

struct report_request {
    const char *const *paths; // result files; a trial in several counts as in the last
    size_t path_count;
    const char *const *conditions; // conditions for records (record_filter.h)
    size_t condition_count;
    bool every;                        // uses every record of a trial
    struct record_table_request table; // its format applies to all tables
    const char *published;             // folder of the published points; NULL: see published_load
    bool summary;                      // only summaries, without the table, points and operations
};

// Tells whether only the table of records is requested: by its columns, their order, or a format for a single
// table.
bool report_is_table_alone(const struct report_request *request);
// Writes the report: only the table if requested, otherwise all parts. Returns false and a status if a file is
// wrong; for summaries, if there are none.
bool report_write(const struct report_request *request, FILE *stream, struct status *status);

// Writes published values beside the records, one experiment after another, with an empty line between them and, if
// apart, before the first; returns their number.
size_t report_published_write(const struct report_request *request, const struct results *results,
                              const struct published *published, bool apart, FILE *stream);
// Writes tables of the longest contexts and largest batches (harness/papers/longest_contexts.h); returns the number
// of settings.
size_t report_longest_write(const struct report_request *request, const struct results *results,
                            const struct published *published, bool apart, FILE *stream);
