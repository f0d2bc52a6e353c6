// Record columns: what can be a column of a table of records: every field by its path ("trial.method.chunk", as
// `longbp list fields` has it), whatever records have in objects that are free, and figures (record_figure.h). A
// key of a trial and an option of its method go by their own names, too: "context", "method", "chunk".
#pragma once
#include "harness/record/record_json.h"
#include "harness/record/results.h"
#include "harness/table/record_figure.h"

struct record_column {
    const char *name;                   // as it was asked for
    struct record_path path;            // trial, method, chunk: a key may have dots itself
    const struct record_figure *figure; // NULL: a field, else what stands in place of one
    const char *unit;                   // NULL: none
};

struct record_columns {
    json_t *free_keys; // {"trial.method": {"name": ..., ...}}: the keys of objects without members, in any record
    json_t *known;     // {name: [whether it is a column of its own accord, path, unit]}, in the table's order
};

// The columns of these records. Release with record_columns_close.
void record_columns_open(struct record_columns *columns, const struct results *results);
void record_columns_close(struct record_columns *columns);
// A column by its name; false and a status that begins with what asked for it, "--columns", if there is none.
bool record_columns_find(const struct record_columns *columns, const char *asked_by, const char *name,
                         struct record_column *column, struct status *status);
// Every field that is no table itself, in the order of `longbp list fields`: to be freed; *count of them.
struct record_column *record_columns_flat(const struct record_columns *columns, size_t *count);
// Of a record, a new reference; null: it has none, or an empty list or object. The column is a field.
json_t *record_column_value(const struct record_column *column, const struct record *record);
