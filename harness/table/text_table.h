// Text table: rows of words under a header, in columns for a terminal, as markdown or as LaTeX.
#pragma once
#include "harness/json/interned.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// csv and json are for programs: they hold values, not words, and are no text tables (record_table.h).
enum table_format { TABLE_TEXT, TABLE_MARKDOWN, TABLE_LATEX, TABLE_CSV, TABLE_JSON, TABLE_FORMATS };
// TABLE_FORMATS if there is no such format.
enum table_format table_format_find(const char *name);

struct text_table {
    size_t columns, rows; // the first row is the header
    const char **cells;   // [rows * columns]
    struct interned words;
};

// A word for a number, "-" for one that is not finite.
struct text_table_word {
    char text[64];
};
struct text_table_word text_table_number(double value, int decimals);

// Adds a row: as many words as the first row had, ending in NULL.
void text_table_row(struct text_table *table, const char *const *words);
// The first column to the left, all others to the right. In a text that is too wide for a terminal the first
// column's words stand in several lines.
void text_table_print(const struct text_table *table, enum table_format format, FILE *stream);
void text_table_free(struct text_table *table);
