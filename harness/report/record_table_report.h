// Record table's report: the table for people as text, markdown or LaTeX, with units in words and what says nothing
// left out; for programs as csv (RFC 4180: a header, lines that end in CR LF, what needs it in quotes; a null is
// empty, lists and objects are JSON) or as an array of JSON objects, with values as they are.
#pragma once
#include "harness/table/record_table.h"
#include "harness/table/text_table.h"

struct record_table_request {
    enum table_format format;
    // "setting,context,peak_bytes" (record_columns.h); NULL: for people the setting, the gradient's error where a
    // row's is an estimate, what a step takes and its peak, for programs every field that is no table itself.
    const char *columns;
    const char *sort; // "context", "peak_bytes:desc"; NULL: as the files have them
};

// Writes the table that is asked for. False and a status, and nothing written, if a column is not known.
bool record_table_report(const struct record_table_request *request, const struct results *results, FILE *stream,
                         struct status *status);
