#include "harness/page/markdown.h"
#include "harness/page/html.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LOW 25 // rows of a table that is shown at full height

struct cell {
    const char *text;
    size_t bytes;
    bool indented; // part of the row above it
};

struct table {
    size_t columns, rows;
    struct cell *cells; // [rows * columns]
};

// --- tables

// Bytes up to the next unescaped bar.
static size_t cell_bytes(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && text[i] != '|')
        i += text[i] == '\\' && i + 1 < bytes ? 2 : 1;
    return i < bytes ? i : bytes;
}

static struct cell trimmed(const char *text, size_t bytes)
{
    size_t before = 0;
    while (before < bytes && text[before] == ' ')
        before++;
    size_t end = bytes;
    while (end > before && text[end - 1] == ' ')
        end--;
    return (struct cell){text + before, end - before, before > 1 && end > before};
}

static bool is_rule(const char *line, size_t bytes)
{
    return strspn(line, "|:-") >= bytes;
}

static size_t columns_of(const char *line, size_t bytes)
{
    size_t columns = 0;
    for (size_t at = 1; at < bytes; at += cell_bytes(line + at, bytes - at) + 1)
        columns++;
    return columns;
}

static void add_row(struct table *table, const char *line, size_t bytes)
{
    if (!table->rows)
        table->columns = columns_of(line, bytes);
    table->cells = realloc(table->cells, (table->rows + 1) * table->columns * sizeof *table->cells);
    size_t at = 1;
    for (size_t c = 0; c < table->columns; c++) {
        size_t length = at < bytes ? cell_bytes(line + at, bytes - at) : 0;
        // Only the first, left-aligned column is ever indented.
        struct cell cell = at < bytes ? trimmed(line + at, length) : (struct cell){"", 0, false};
        cell.indented = cell.indented && c == 0 && line[at + 1] == ' ';
        table->cells[table->rows * table->columns + c] = cell;
        at += length + 1;
    }
    table->rows++;
}

static bool is_none(const struct cell *cell)
{
    return cell->bytes == 0 || (cell->bytes == 1 && *cell->text == '-');
}

// Tells whether a column is numeric: apart from the head, every cell starts with a digit or a sign, or is empty.
static bool is_numeric(const struct table *table, size_t column)
{
    for (size_t r = 1; r < table->rows; r++) {
        const struct cell *cell = &table->cells[r * table->columns + column];
        bool sign = cell->bytes > 1 && *cell->text == '-';
        if (!is_none(cell) && !isdigit((unsigned char)cell->text[sign]))
            return false;
    }
    return column > 0;
}

static void write_words(const struct cell *cell, FILE *stream)
{
    for (size_t i = 0; i < cell->bytes; i++) {
        i += cell->text[i] == '\\' && i + 1 < cell->bytes && cell->text[i + 1] == '|';
        html_bytes(stream, cell->text + i, 1);
    }
}

static void write_cell(const struct table *table, size_t row, size_t column, FILE *stream)
{
    const struct cell *cell = &table->cells[row * table->columns + column];
    const char *tag = row == 0 || column == 0 ? "th" : "td";
    const char *look = cell->indented               ? " class=\"indent1\""
                       : !is_numeric(table, column) ? ""
                       : row > 0 && is_none(cell)   ? " class=\"n none\""
                                                    : " class=\"n\"";
    fprintf(stream, "<%s%s%s>", tag, row == 0 ? " scope=\"col\"" : column == 0 ? " scope=\"row\"" : "", look);
    if (row > 0 && is_none(cell))
        fputs("–", stream);
    else
        write_words(cell, stream);
    fprintf(stream, "</%s>", tag);
}

// Tables with indented parts keep their order.
static void write_table(struct table *table, FILE *stream)
{
    bool parts = false;
    for (size_t i = 0; i < table->rows * table->columns; i++)
        parts |= table->cells[i].indented;
    if (table->rows)
        fprintf(stream,
                "<div class=\"scroll%s\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table%s>\n<thead>",
                table->rows > LOW ? " tall" : "", parts ? "" : " class=\"sortable\"");
    for (size_t r = 0; r < table->rows; r++) {
        fputs(r == 1 ? "</thead>\n<tbody>\n<tr>" : "<tr>", stream);
        for (size_t c = 0; c < table->columns; c++)
            write_cell(table, r, c, stream);
        fputs(r == 0 ? "</tr>" : "</tr>\n", stream);
    }
    if (table->rows)
        fprintf(stream, "%s</table></div>\n", table->rows > 1 ? "</tbody>" : "</thead><tbody></tbody>");
    free(table->cells);
    *table = (struct table){0};
}

// --- lines

static void write_line(const char *tag, const char *line, size_t bytes, FILE *stream)
{
    fprintf(stream, "<%s>", tag);
    html_bytes(stream, line, bytes);
    fprintf(stream, "</%s>\n", tag);
}

void markdown_to_html(const char *markdown, FILE *stream)
{
    struct table table = {0};
    while (*markdown) {
        size_t bytes = strcspn(markdown, "\n");
        const char *line = markdown;
        markdown += bytes + (markdown[bytes] == '\n');
        if (*line == '|' && bytes > 1) {
            if (!is_rule(line, bytes))
                add_row(&table, line, bytes);
            continue;
        }
        write_table(&table, stream);
        if (strncmp(line, "## ", 3) == 0)
            write_line("h3", line + 3, bytes - 3, stream);
        else if (bytes > 4 && strncmp(line, "**", 2) == 0)
            write_line("h4", line + 2, bytes - 4, stream);
        else if (bytes)
            write_line("p", line, bytes, stream);
    }
    write_table(&table, stream);
}
