// Text table: rows of words under a header, in columns for a terminal or as markdown.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TEXT_TABLE_COLUMNS 10

struct text_table {
    size_t columns, rows; // the first row is the header
    char **cells;         // [rows * columns]
};

// A word for a number, "-" for one that is not finite.
struct text_table_word {
    char text[64];
};
struct text_table_word text_table_number(double value, int decimals);

// Adds a row: as many words as the first row had, ending in NULL.
void text_table_row(struct text_table *table, const char *const *words);
// The first column to the left, all others to the right.
void text_table_print(const struct text_table *table, bool markdown, FILE *stream);
void text_table_free(struct text_table *table);
