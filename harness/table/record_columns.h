// Record columns: the possible columns of a table of records: every field by its path ("trial.method.chunk", as in
// `longbp list fields`), keys of free-form objects, and figures (record_figure.h). Trial keys and method options
// also have short names: "context", "method", "chunk".
#pragma once
#include "harness/record/record_json.h"
#include "harness/record/results.h"
#include "harness/table/record_figure.h"

struct record_column {
    const char *name;                   // as requested
    struct record_path path;            // trial, method, chunk: a key may itself contain dots
    const struct record_figure *figure; // NULL: a field, else a figure
    const char *unit;                   // NULL: none
};

struct record_columns {
    json_t *free_keys; // {"trial.method": {"name": ..., ...}}: the keys of objects without members, in any record
    json_t *known;     // {name: [whether it is listed, path, unit]}, in the table's order
};

// The columns of these records. Release with record_columns_close.
void record_columns_open(struct record_columns *columns, const struct results *results);
void record_columns_close(struct record_columns *columns);
// A column by name; returns false and a status that begins with the requesting option, "--columns", if there is
// none.
bool record_columns_find(const struct record_columns *columns, const char *asked_by, const char *name,
                         struct record_column *column, struct status *status);
// Every field that is no table itself, in the order of `longbp list fields`: to be freed; *count: their number.
struct record_column *record_columns_flat(const struct record_columns *columns, size_t *count);
// The value of a field's column, a new reference; null: none, or an empty list or object.
json_t *record_column_value(const struct record_column *column, const struct record *record);
