// Text table: rows of words under a header, as plain text, markdown or LaTeX.
#pragma once
#include "harness/json/interned.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// csv and json hold values instead of words (record_table.h).
enum table_format { TABLE_TEXT, TABLE_MARKDOWN, TABLE_LATEX, TABLE_CSV, TABLE_JSON, TABLE_FORMATS };
// TABLE_FORMATS for unknown names.
enum table_format table_format_find(const char *name);

struct text_table {
    size_t columns, rows; // the first row is the header
    const char **cells;   // [rows * columns]
    struct interned words;
};

// A number in words, "-" if it is not finite.
struct text_table_word {
    char text[64];
};
struct text_table_word text_table_number(double value, int decimals);

// Adds a row with as many words as the first, ending in NULL.
void text_table_row(struct text_table *table, const char *const *words);
// Prints the first column left-aligned, the others right-aligned. In text that is too wide the first column wraps.
void text_table_print(const struct text_table *table, enum table_format format, FILE *stream);
void text_table_free(struct text_table *table);
