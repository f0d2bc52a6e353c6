// Record table: records as one table, a row each: for people as text, markdown or LaTeX, with units in words and
// what says nothing left out; for programs as csv (RFC 4180: a header, lines that end in CR LF, what needs it in
// quotes; a null is empty, lists and objects are JSON) or as an array of JSON objects, with values as they are.
#pragma once
#include "harness/files/interned.h"
#include "harness/results/record_columns.h"
#include "harness/results/text_table.h"

struct record_table_request {
    enum table_format format;
    // "setting,context,peak_bytes" (record_columns.h); NULL: for people the setting, what a step takes and its
    // peak, for programs every field that is no table itself.
    const char *columns;
    const char *sort; // "context", "peak_bytes:desc"; NULL: as the files have them
};

struct record_table {
    size_t column_count, row_count;
    struct record_column *columns; // [column_count]
    struct table_row *rows;        // [row_count], in the order asked for
    json_t **values;               // [row_count * column_count]
    struct record_columns known;
    char *names;           // what the columns were asked for by
    struct interned words; // the names of the rows
};

// The table of these records with the columns "a,b,c", in an order. Ratios are over the first row. False and a
// status if a column is not known. Release with record_table_close, also after a failure.
bool record_table_open(struct record_table *table, const struct results *results, const char *columns,
                       const char *sort, struct status *status);
void record_table_close(struct record_table *table);
// A value, borrowed.
const json_t *record_table_value(const struct record_table *table, size_t row, size_t column);
// The same in words for people: "1240", "530 MiB", "-". To be freed.
char *record_table_words(const struct record_table *table, size_t row, size_t column);
// What heads the column of a table for people.
const char *record_table_title(const struct record_table *table, size_t column);
// Whether the column says nothing: null in every row, or that every row is ok.
bool record_table_is_silent(const struct record_table *table, size_t column);

// Writes the table that is asked for. False and a status, and nothing written, if a column is not known.
bool record_table_write(const struct record_table_request *request, const struct results *results, FILE *stream,
                        struct status *status);
