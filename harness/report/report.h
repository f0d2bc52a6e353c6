// Report: the records as one table; beside what papers published, point by point and curve by curve; where a step's
// time goes, of the records that say so; and how well it was predicted.
#pragma once
#include "harness/papers/pairing.h"
#include "harness/report/record_table_report.h"
#include <stdio.h>

struct report_request {
    const char *const *paths; // result files; a trial that is in several counts as in the last
    size_t path_count;
    const char *const *conditions; // of the records that count (record_filter.h)
    size_t condition_count;
    bool every;                        // every record of a trial counts
    struct record_table_request table; // its format is that of all tables
    const char *const
        *max_context_paths; // outputs of `longbp max-context --json` (harness/papers/longest_contexts.h)
    size_t max_context_count;
    const char *published; // folder of the published points; NULL: as published_load finds it
    bool summary;          // the summaries alone, and not the table, every point and every operation
};

// Whether nothing but the table of records is asked for: its chunks, their order, or a format that holds one
// table.
bool report_is_table_alone(const struct report_request *request);
// Writes the report: the table alone where that is asked for, else what else there is, too. False and a status if a
// file is wrong; of summaries, if there are none.
bool report_write(const struct report_request *request, FILE *stream, struct status *status);

// What papers published beside the records, an experiment after another, with an empty line between them and, if
// apart, before the first; how many there were.
size_t report_published_write(const struct report_request *request, const struct results *results,
                              const struct published *published, bool apart, FILE *stream);
