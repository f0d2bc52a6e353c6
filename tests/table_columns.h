// Table columns: a table whose columns stand between tabs, under their names, read back.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE_COLUMNS_MAX 32

struct table_columns {
    size_t column_count, row_count;
    char **cells; // [1 + row_count][TABLE_COLUMNS_MAX], the names first
};

// Takes the text apart, and borrows it.
static inline struct table_columns table_columns_read(char *text)
{
    struct table_columns table = {0};
    size_t lines = 0;
    for (char *line; (line = strsep(&text, "\n")) && *line; lines++) {
        table.cells = realloc(table.cells, (lines + 1) * TABLE_COLUMNS_MAX * sizeof *table.cells);
        assert_non_null(table.cells);
        size_t count = 0;
        for (char *cell; (cell = strsep(&line, "\t")); count++) {
            assert_true(count < TABLE_COLUMNS_MAX);
            table.cells[lines * TABLE_COLUMNS_MAX + count] = cell;
        }
        assert_true(lines == 0 || count == table.column_count);
        table.column_count = count;
    }
    assert_true(lines > 0);
    table.row_count = lines - 1;
    return table;
}

// name: with nothing but its first `bytes`.
static inline const char *table_columns_cell(const struct table_columns *table, size_t row, const char *name,
                                             size_t bytes)
{
    for (size_t c = 0; c < table->column_count; c++)
        if (strlen(table->cells[c]) == bytes && memcmp(table->cells[c], name, bytes) == 0)
            return table->cells[(row + 1) * TABLE_COLUMNS_MAX + c];
    fail_msg("no column %.*s", (int)bytes, name);
    return NULL;
}

static inline const char *table_columns_text(const struct table_columns *table, size_t row, const char *name)
{
    return table_columns_cell(table, row, name, strlen(name));
}

// "weights+data/context": a sum of columns over another sum.
static inline double table_columns_value(const struct table_columns *table, size_t row, const char *sums)
{
    double value = 0, above = NAN;
    for (const char *name = sums;; name++) {
        size_t bytes = strcspn(name, "+/");
        value += strtod(table_columns_cell(table, row, name, bytes), NULL);
        name += bytes;
        if (*name == '/') {
            above = value;
            value = 0;
        }
        if (!*name)
            return strchr(sums, '/') ? above / value : value;
    }
}

static inline void table_columns_free(struct table_columns *table)
{
    free(table->cells);
    *table = (struct table_columns){0};
}
