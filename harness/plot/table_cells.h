// Table cells: the numbers of a figure's table, as gnuplot can draw them.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// Stands for what is not 0 and below 1e-60 or above 1e60, where gnuplot's axes overflow: such a table is not drawn.
#define TABLE_BEYOND "beyond 1e60"

// Writes each after a tab: whole numbers exactly, others to 9 digits, "NaN" where there is none.
void table_cells(FILE *table, const double *values, size_t count);

#define TABLE_CELLS(table, ...)                                                                                    \
    table_cells(table, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

// The numbers that a row ends in.
#define TABLE_ROW(table, ...) (TABLE_CELLS(table, __VA_ARGS__), fputc('\n', table))

// Whether a number of the table is beyond what can be drawn.
bool table_cells_beyond(const char *table);
