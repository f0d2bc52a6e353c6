// Figure table: the data of a picture, in cells until gnuplot reads them.
#pragma once
#include "harness/json/interned.h"
#include <stdbool.h>
#include <stddef.h>

struct figure_cell {
    const char *word; // NULL: a number
    double number;    // NaN: none
};

// The first four columns of every table: a series' number from 1, its method, its label, and its rank among its
// method's series, which determines its look.
enum { COLUMN_SERIES, COLUMN_METHOD, COLUMN_LABEL, COLUMN_RANK, COLUMNS_OF_ALL };

// Zeroed: empty.
struct figure_table {
    size_t column_count, row_count, cell_count, capacity;
    const char **columns;      // [column_count]
    struct figure_cell *cells; // [row_count][column_count]
    struct interned words;
    size_t thinned_from; // rows before figure_table_thin; 0: not thinned
};

// Adds columns with the names that scripts use: "context\tpeak_bytes".
void figure_table_columns(struct figure_table *table, const char *names);
// Begins a row after the previous one is complete.
void figure_table_row(struct figure_table *table, size_t series, const char *method, size_t rank, const char *label,
                      ...) __attribute__((format(printf, 5, 6)));
// Add the row's cells, column by column.
void figure_table_word(struct figure_table *table, const char *word);
void figure_table_numbers(struct figure_table *table, const double *values, size_t count);
#define FIGURE_NUMBERS(table, ...)                                                                                 \
    figure_table_numbers(table, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))
void figure_table_free(struct figure_table *table);

static inline const struct figure_cell *figure_table_at(const struct figure_table *table, size_t row, size_t column)
{
    return &table->cells[row * table->column_count + column];
}
// SIZE_MAX: no such column.
size_t figure_table_find(const struct figure_table *table, const char *column);
// Keeps the marked rows and renumbers series, groups and panels from 1.
void figure_table_keep(struct figure_table *table, const bool *rows);
// Removes rows that a picture cannot show. Among rows of a series within a few pixels along the column `along`,
// keeps the minimum and the maximum of every column, and powers of two. The axis is logarithmic if requested or if
// it spans more than a factor of 16 (plots/context.gp).
void figure_table_thin(struct figure_table *table, const char *along, bool logarithmic);
// Tells whether a number is beyond gnuplot's axes: not 0 and below 1e-60, or above 1e60.
bool figure_table_beyond(const struct figure_table *table);
// Tab-separated with a header line, to be freed: whole numbers exactly, others to 9 digits, NaN for missing ones.
char *figure_table_text(const struct figure_table *table);
