// Figure table: what a picture is drawn from, as cells up to where gnuplot reads it.
#pragma once
#include "harness/json/interned.h"
#include <stdbool.h>
#include <stddef.h>

struct figure_cell {
    const char *word; // NULL: a number
    double number;    // NaN: none
};

// The first four chunks of every table: a series' number from 1, its method, its label and its rank, which says
// how it looks among those of its method.
enum { COLUMN_SERIES, COLUMN_METHOD, COLUMN_LABEL, COLUMN_RANK, COLUMNS_OF_ALL };

// Zeroed: empty.
struct figure_table {
    size_t column_count, row_count, cell_count, capacity;
    const char **columns;      // [column_count]
    struct figure_cell *cells; // [row_count][column_count]
    struct interned words;
    size_t thinned_from; // rows before figure_table_thin left some out; 0: all are there
};

// Adds chunks behind those that every table has, named as scripts know them: "context\tpeak_bytes".
void figure_table_columns(struct figure_table *table, const char *names);
// Begins a row, once the one before has all its cells.
void figure_table_row(struct figure_table *table, size_t series, const char *method, size_t rank, const char *label,
                      ...) __attribute__((format(printf, 5, 6)));
// The cells of the row, one chunk after another.
void figure_table_word(struct figure_table *table, const char *word);
void figure_table_numbers(struct figure_table *table, const double *values, size_t count);
#define FIGURE_NUMBERS(table, ...)                                                                                 \
    figure_table_numbers(table, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))
void figure_table_free(struct figure_table *table);

static inline const struct figure_cell *figure_table_at(const struct figure_table *table, size_t row, size_t column)
{
    return &table->cells[row * table->column_count + column];
}
// SIZE_MAX: there is no such chunk.
size_t figure_table_find(const struct figure_table *table, const char *column);
// Leaves the rows that are marked. Numbers that go from 1 without a gap, of series, groups and panels, do so again.
void figure_table_keep(struct figure_table *table, const bool *rows);
// Leaves no more rows than a picture can show. Among rows of a series whose numbers in the chunk `along` lie
// within a few pixels of each other those with the least and the greatest number of any chunk stay, and powers of
// two. The axis is linear, or logarithmic: if that is said, or it reaches more than 16 times as far as it begins
// (plots/context.gp).
void figure_table_thin(struct figure_table *table, const char *along, bool logarithmic);
// Whether a number is beyond what gnuplot's axes hold: not 0 and below 1e-60, or above 1e60.
bool figure_table_beyond(const struct figure_table *table);
// Tab-separated with a header line, to be freed: whole numbers exactly, others to 9 digits, NaN where there is
// none.
char *figure_table_text(const struct figure_table *table);
