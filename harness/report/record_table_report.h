// Record table's report: the table as text, markdown or LaTeX, with units in words and without uninformative
// columns; or as csv (RFC 4180: a header, lines that end in CR LF, quotes if needed; null is empty, lists and
// objects are JSON) or a JSON array of objects, with plain values.
#pragma once
#include "harness/table/record_table.h"
#include "harness/table/text_table.h"

struct record_table_request {
    enum table_format format;
    // "setting,context,peak_bytes" (record_columns.h). NULL: printed tables have the setting, the gradient's error
    // of estimates, step time and peak; csv and json have every field that is no table itself.
    const char *columns;
    const char *sort; // "context", "peak_bytes:desc"; NULL: the files' order
};

// Writes the requested table. Returns false and a status, and writes nothing, for an unknown column.
bool record_table_report(const struct record_table_request *request, const struct results *results, FILE *stream,
                         struct status *status);
