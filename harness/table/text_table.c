#include "harness/table/text_table.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum table_format table_format_find(const char *name)
{
    static const char *const names[TABLE_FORMATS] = {"text", "markdown", "latex", "csv", "json"};
    enum table_format format = TABLE_TEXT;
    while (format < TABLE_FORMATS && strcmp(name, names[format]) != 0)
        format++;
    return format;
}

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
    CHECK(table->rows == 0 || table->columns == count);
    table->columns = count;
    if ((table->rows & (table->rows - 1)) == 0) { // room for twice as many
        table->cells = realloc(table->cells, (2 * table->rows + 1) * count * sizeof *table->cells);
        CHECK(table->cells || count == 0);
    }
    for (size_t i = 0; i < count; i++)
        table->cells[table->rows * count + i] = interned_text(&table->words, words[i], strlen(words[i]));
    table->rows++;
}

// --- escaping

struct escape {
    char sign;
    const char *written;
};

static const struct escape markdown_escapes[] = {{'|', "\\|"}, {'\n', " "}, {0}};
static const struct escape text_escapes[] = {{'\n', " "}, {0}};
static const struct escape latex_escapes[] = {{'\\', "\\textbackslash{}"},
                                              {'{', "\\{"},
                                              {'}', "\\}"},
                                              {'$', "\\$"},
                                              {'&', "\\&"},
                                              {'#', "\\#"},
                                              {'_', "\\_"},
                                              {'%', "\\%"},
                                              {'~', "\\textasciitilde{}"},
                                              {'^', "\\textasciicircum{}"},
                                              {'<', "\\textless{}"},
                                              {'>', "\\textgreater{}"},
                                              {'|', "\\textbar{}"},
                                              {'\n', " "},
                                              {0}};

static bool needs_escapes(const char *word, const struct escape *escapes)
{
    bool needs = false;
    for (; escapes->sign && !needs; escapes++)
        needs = strchr(word, escapes->sign);
    return needs;
}

// The word, or an escaped one stored in `words`.
static const char *escaped(const char *word, enum table_format format, struct interned *words)
{
    const struct escape *escapes = format == TABLE_LATEX      ? latex_escapes
                                   : format == TABLE_MARKDOWN ? markdown_escapes
                                                              : text_escapes;
    char *text = NULL;
    size_t bytes;
    if (!needs_escapes(word, escapes))
        return word;
    FILE *stream = open_memstream(&text, &bytes);
    for (; *word; word++) {
        const struct escape *escape = escapes;
        while (escape->sign && escape->sign != *word)
            escape++;
        if (escape->sign)
            fputs(escape->written, stream);
        else
            fputc(*word, stream);
    }
    CHECK(fclose(stream) == 0);
    word = interned_text(words, text, bytes);
    free(text);
    return word;
}

// --- rows

struct look {
    const char *before, *between, *after; // of a row
};

static const struct look looks[] = {[TABLE_TEXT] = {"", "  ", "\n"},
                                    [TABLE_MARKDOWN] = {"| ", " | ", " |\n"},
                                    [TABLE_LATEX] = {"", " & ", " \\\\\n"}};

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

static void print_begin(const struct text_table *table, FILE *stream)
{
    fputs("\\begin{tabular}{", stream);
    for (size_t c = 0; c < table->columns; c++)
        fputc(c ? 'r' : 'l', stream);
    fputs("}\n\\hline\n", stream);
}

static void print_row(const char *const *words, size_t columns, const int *widths, const struct look *look,
                      FILE *stream)
{
    for (size_t c = 0; c < columns; c++)
        fprintf(stream, "%s%*s", c ? look->between : look->before, c ? widths[c] : -widths[c], words[c]);
    fputs(look->after, stream);
}

// Assumed terminal width. In wider tables the first column's words wrap after commas or between words.
#define TEXT_WIDTH      120
#define FIRST_WIDTH_MIN 40

// The width of the first column.
static int first_width(const int *widths, size_t columns)
{
    int others = 0;
    for (size_t c = 1; c < columns; c++)
        others += widths[c] + (int)strlen(looks[TABLE_TEXT].between);
    int room = TEXT_WIDTH - others > FIRST_WIDTH_MIN ? TEXT_WIDTH - others : FIRST_WIDTH_MIN;
    return widths[0] < room ? widths[0] : room;
}

// The bytes of the words that fit a line: up to the last comma in its second half, else up to the last space that
// fits, else up to the next.
static size_t line_bytes(const char *words, size_t room)
{
    size_t bytes = strlen(words), comma = 0, space = 0;
    if (bytes <= room)
        return bytes;
    for (size_t i = 1; i < bytes && (i <= room || !space); i++) {
        if (words[i] != ' ')
            continue;
        space = i;
        if (words[i - 1] == ',')
            comma = i;
    }
    return comma > room / 2 ? comma : space ? space : bytes;
}

static void print_text_row(const char *const *words, size_t columns, const int *widths, FILE *stream)
{
    const struct look *look = &looks[TABLE_TEXT];
    const char *rest = words[0];
    CHECK(rest);
    size_t bytes = line_bytes(rest, (size_t)widths[0]);
    fprintf(stream, "%-*.*s", widths[0], (int)bytes, rest);
    for (size_t c = 1; c < columns; c++)
        fprintf(stream, "%s%*s", look->between, widths[c], words[c]);
    fputs(look->after, stream);
    while (*(rest += bytes)) {
        rest += *rest == ' ';
        bytes = line_bytes(rest, (size_t)widths[0] - 4);
        fprintf(stream, "    %.*s\n", (int)bytes, rest);
    }
}

void text_table_print(const struct text_table *table, enum table_format format, FILE *stream)
{
    CHECK(format <= TABLE_LATEX);
    size_t count = table->rows * table->columns;
    const char **words = calloc(count + 1, sizeof *words);
    struct interned written = {0};
    int *widths = calloc(table->columns + 1, sizeof *widths);
    for (size_t i = 0; i < count; i++) {
        words[i] = escaped(table->cells[i], format, &written);
        int length = (int)strlen(words[i]), *width = &widths[i % table->columns];
        *width = length > *width ? length : *width;
    }
    if (format == TABLE_TEXT && table->columns)
        widths[0] = first_width(widths, table->columns);
    if (format == TABLE_LATEX)
        print_begin(table, stream);
    for (size_t r = 0; r < table->rows; r++) {
        if (format == TABLE_TEXT)
            print_text_row(words + r * table->columns, table->columns, widths, stream);
        else
            print_row(words + r * table->columns, table->columns, widths, &looks[format], stream);
        if (r == 0 && format == TABLE_MARKDOWN)
            print_rule(table, widths, stream);
        if (r == 0 && format == TABLE_LATEX)
            fputs("\\hline\n", stream);
    }
    if (format == TABLE_LATEX)
        fputs("\\hline\n\\end{tabular}\n", stream);
    interned_free(&written);
    free(words);
    free(widths);
}

void text_table_free(struct text_table *table)
{
    interned_free(&table->words);
    free(table->cells);
    *table = (struct text_table){0};
}
