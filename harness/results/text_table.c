#include "harness/results/text_table.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct text_table_word text_table_number(double value, int decimals)
{
    struct text_table_word word = {"-"};
    if (isfinite(value))
        snprintf(word.text, sizeof word.text, "%.*f", decimals, value);
    return word;
}

void text_table_row(struct text_table *table, const char *const *words)
{
    size_t count = 0;
    while (words[count])
        count++;
    CHECK(count <= TEXT_TABLE_COLUMNS && (table->rows == 0 || table->columns == count));
    table->columns = count;
    table->cells = realloc(table->cells, (table->rows + 1) * count * sizeof *table->cells);
    CHECK(table->cells);
    for (size_t i = 0; i < count; i++) {
        char *copy = strdup(words[i]);
        CHECK(copy);
        table->cells[table->rows * count + i] = copy;
    }
    table->rows++;
}

static void print_rule(const struct text_table *table, const int *widths, FILE *stream)
{
    for (size_t c = 0; c < table->columns; c++) {
        fputs(c ? "|-" : "|:", stream);
        for (int i = 1; i < widths[c] + 1; i++)
            fputc('-', stream);
        fputs(c ? ":" : "-", stream);
    }
    fputs("|\n", stream);
}

void text_table_print(const struct text_table *table, bool markdown, FILE *stream)
{
    int widths[TEXT_TABLE_COLUMNS] = {0};
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        int length = (int)strlen(table->cells[i]);
        int *width = &widths[i % table->columns];
        *width = length > *width ? length : *width;
    }
    for (size_t r = 0; r < table->rows; r++) {
        for (size_t c = 0; c < table->columns; c++) {
            const char *word = table->cells[r * table->columns + c];
            fprintf(stream, markdown ? "| %*s " : c ? "  %*s" : "%*s", c ? widths[c] : -widths[c], word);
        }
        fputs(markdown ? "|\n" : "\n", stream);
        if (markdown && r == 0)
            print_rule(table, widths, stream);
    }
}

void text_table_free(struct text_table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct text_table){0};
}
