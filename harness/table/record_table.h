// Record table: records as one table: a row each, in an order, with the columns that are asked for.
#pragma once
#include "harness/json/interned.h"
#include "harness/table/record_columns.h"

struct record_table {
    size_t column_count, row_count;
    struct record_column *columns; // [column_count]
    struct table_row *rows;        // [row_count], in the order asked for
    json_t **values;               // [row_count * column_count]
    const char **titles;           // [column_count]
    const char *base_name;         // of what ratios are over: "full", or "full, f32" where it has several dtypes
    struct record_columns known;
    char *names;           // what the columns were asked for by
    struct interned words; // the names of the rows
};

// The table of these records with the columns "a,b,c", in an order. Ratios are over one method with its options,
// the first record's: of the row's model, context, batch and kind of device, of times also of its machine, whatever
// the order of rows; where it has no such record there is no ratio. False and a status if a column is not known.
// Release with record_table_close, also after a failure.
bool record_table_open(struct record_table *table, const struct results *results, const char *columns,
                       const char *sort, struct status *status);
// The same without its values, of which record_table_compute gives one at a time: of many rows they take much
// memory.
bool record_table_open_rows(struct record_table *table, const struct results *results, const char *columns,
                            const char *sort, struct status *status);
void record_table_close(struct record_table *table);
// A value, a new reference.
json_t *record_table_compute(const struct record_table *table, size_t row, size_t column);
// A value, borrowed; of a table that has its values, as is what follows.
const json_t *record_table_value(const struct record_table *table, size_t row, size_t column);
// The same in words for people: "1240", "530 MiB", "-"; a time that something else may have made longer has a mark,
// and a ratio of times its interval. To be freed.
char *record_table_words(const struct record_table *table, size_t row, size_t column);
// "*" if something else ran beside the record's samples, "?" if it may have (record.h), "" else.
const char *record_table_mark(const struct record *record);
// What heads the column of a table for people.
const char *record_table_title(const struct record_table *table, size_t column);
// Whether the column says nothing: null in every row, or that every row is ok.
bool record_table_is_silent(const struct record_table *table, size_t column);
