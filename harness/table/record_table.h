// Record table: records as rows of a table, sorted, with requested columns.
#pragma once
#include "harness/json/interned.h"
#include "harness/table/record_columns.h"

struct record_table {
    size_t column_count, row_count;
    struct record_column *columns; // [column_count]
    struct table_row *rows;        // [row_count], in the requested order
    json_t **values;               // [row_count * column_count]
    const char **titles;           // [column_count]
    const char *base_name;         // of ratios: "full", or "full, f32" if it has several dtypes
    struct record_columns known;
    char *names;           // storage of the columns' names
    struct interned words; // the names of the rows
};

// Makes a table of records with the columns "a,b,c", sorted. The baseline of ratios is the first record's method
// with its options, at the row's model, context, batch and kind of device, for times also its machine, whatever the
// order; without such a record there is no ratio. Returns false and a status for an unknown column. Release with
// record_table_close, also after a failure.
bool record_table_open(struct record_table *table, const struct results *results, const char *columns,
                       const char *sort, struct status *status);
// The same without values, which record_table_compute then makes one at a time, to save memory.
bool record_table_open_rows(struct record_table *table, const struct results *results, const char *columns,
                            const char *sort, struct status *status);
void record_table_close(struct record_table *table);
// A value, a new reference.
json_t *record_table_compute(const struct record_table *table, size_t row, size_t column);
// A value, borrowed; this and the following need a table with values.
const json_t *record_table_value(const struct record_table *table, size_t row, size_t column);
// The value in words: "1240", "530 MiB", "-"; disturbed times have a mark, ratios of times an interval. To be
// freed.
char *record_table_words(const struct record_table *table, size_t row, size_t column);
// "*" if other programs ran during the record's samples, "?" if they may have (record.h), else "".
const char *record_table_mark(const struct record *record);
// The column's title for printed tables.
const char *record_table_title(const struct record_table *table, size_t column);
// Tells whether the column has no information: null in every row, or ok in every row.
bool record_table_is_silent(const struct record_table *table, size_t column);
