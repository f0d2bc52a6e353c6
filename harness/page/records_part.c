#include "harness/page/html.h"
#include "harness/page/part.h"
#include "harness/table/record_table.h"
#include <stdlib.h>
#include <string.h>

// Default columns; those without information are left out.
static const char columns_shown[] = "setting,experiment,context,status,time_ms,spread_ms,estimate_ms,peak_bytes,"
                                    "host_peak_bytes,flops,gradient.relative_l2,provenance.revision,reason";
// Columns with a list to filter by, if rows differ.
static const char *const choices[] = {"experiment", "status", "method", "context", NULL};

static bool is_choice(const char *name)
{
    size_t i = 0;
    while (choices[i] && strcmp(choices[i], name) != 0)
        i++;
    return choices[i] != NULL;
}

// Display properties of a column.
struct look {
    bool hidden, numeric;
};

static bool is_alike(const struct record_table *table, size_t column)
{
    for (size_t r = 1; r < table->row_count; r++)
        if (!json_equal(record_table_value(table, r, column), record_table_value(table, 0, column)))
            return false;
    return table->row_count > 1;
}

static bool is_numeric(const struct record_table *table, size_t column)
{
    for (size_t r = 0; r < table->row_count; r++) {
        const json_t *value = record_table_value(table, r, column);
        if (!json_is_number(value) && !json_is_null(value))
            return false;
    }
    return true;
}

// "peak" for "peak_bytes", whose cells have units; "estimate, ms" for "estimate_ms".
static void write_title(const struct record_table *table, size_t column, FILE *stream)
{
    const struct record_column *shown = &table->columns[column];
    const char *unit = text_or(shown->unit, "");
    char title[200], end[40];
    snprintf(title, sizeof title, "%s", record_table_title(table, column));
    snprintf(end, sizeof end, "_%s", unit);
    size_t length = strlen(title), end_length = strlen(end);
    bool in_name = !shown->figure && *unit && length > end_length && strcmp(title + length - end_length, end) == 0;
    if (in_name)
        title[length - end_length] = 0;
    for (char *c = title; !shown->figure && *c; c++)
        *c = *c == '_' || *c == '.' ? ' ' : *c;
    html_text(stream, strcmp(title, "+-") == 0 ? "±" : title);
    if (in_name && strcmp(unit, "bytes") != 0)
        fprintf(stream, ", %s", unit);
}

static void write_head(const struct record_table *table, const struct look *looks, FILE *stream)
{
    fputs("<thead><tr>", stream);
    for (size_t c = 0; c < table->column_count; c++) {
        if (looks[c].hidden)
            continue;
        const char *name = table->columns[c].name;
        fprintf(stream, "<th scope=\"col\"%s%s title=\"", looks[c].numeric ? " class=\"n\"" : "",
                is_choice(name) ? " data-choice" : "");
        html_text(stream, name);
        fputs("\">", stream);
        write_title(table, c, stream);
        fputs("</th>", stream);
    }
    fputs("<th scope=\"col\" class=\"command\"></th></tr></thead>\n", stream);
}

// Inserts commas between the thousands of the leading number: "131,072", "25,684*". Frees the words and returns new
// ones.
static char *grouped(char *words)
{
    size_t sign = *words == '-', count = strspn(words + sign, "0123456789"), used = 0;
    char *more = calloc(2 * strlen(words) + 1, 1);
    for (size_t i = 0; words[i]; i++) {
        if (i > sign && i < sign + count && (sign + count - i) % 3 == 0)
            more[used++] = ',';
        more[used++] = words[i];
    }
    free(words);
    return more;
}

// The text of a cell, to be freed.
static char *cell_words(const struct record_table *table, size_t row, size_t column)
{
    const char *unit = text_or(table->columns[column].unit, "");
    const json_t *value = record_table_value(table, row, column);
    char *words = record_table_words(table, row, column);
    return json_is_number(value) && strcmp(unit, "bytes") != 0 ? grouped(words) : words;
}

static void write_cell(const struct record_table *table, size_t row, size_t column, bool numeric, bool first,
                       FILE *stream)
{
    const json_t *value = record_table_value(table, row, column);
    bool status = strcmp(table->columns[column].name, "status") == 0;
    char *words = cell_words(table, row, column);
    fputs(first ? "<th scope=\"row\"" : "<td", stream);
    if (numeric)
        fprintf(stream, " class=\"n%s\"", json_is_null(value) ? " none" : "");
    else if (status)
        fprintf(stream, " class=\"status-%s\"", words);
    if (json_is_number(value))
        fprintf(stream, " data-v=\"%.17g\"", json_number_value(value));
    if (json_is_string(value) && strlen(words) > 40) {
        fputs(" title=\"", stream);
        html_text(stream, words);
        fputs("\"", stream);
    }
    fputs(">", stream);
    html_text(stream, json_is_null(value) ? "–" : words);
    fputs(first ? "</th>" : "</td>", stream);
    free(words);
}

static void write_row(const struct record_table *table, const struct look *looks, size_t row, FILE *stream)
{
    const char *command = table->rows[row].record->command;
    bool first = true;
    fputs("<tr>", stream);
    for (size_t c = 0; c < table->column_count; c++) {
        if (!looks[c].hidden)
            write_cell(table, row, c, looks[c].numeric, first, stream);
        first &= looks[c].hidden;
    }
    fputs("<td class=\"command\">", stream);
    if (command) {
        fputs("<button type=\"button\" class=\"plain\" title=\"", stream);
        html_text(stream, command);
        fputs("\" data-copy=\"", stream);
        html_text(stream, command);
        fputs("\">copy command</button>", stream);
    }
    fputs("</td></tr>\n", stream);
}

// Tells whether a column repeats information of other parts of the page.
static bool says_nothing(const struct record_table *table, size_t column)
{
    const char *name = table->columns[column].name;
    const json_t *value = record_table_value(table, 0, column);
    bool once = is_choice(name) || strncmp(name, "provenance", strlen("provenance")) == 0;
    bool empty = json_is_string(value) && !*json_string_value(value);
    return record_table_is_silent(table, column) || ((once || empty) && is_alike(table, column));
}

// Explains the marks that occur behind times.
static void write_marks(const struct record_table *table, FILE *stream)
{
    bool surely = false, perhaps = false;
    for (size_t r = 0; r < table->row_count; r++) {
        const char *mark = record_table_mark(table->rows[r].record);
        surely |= *mark == '*';
        perhaps |= *mark == '?';
    }
    if (surely)
        fputs("<p class=\"quiet\">* Something else ran beside these steps: their times are too long.</p>\n",
              stream);
    if (perhaps)
        fputs("<p class=\"quiet\">? Too short to tell whether something ran beside them, but the machine was "
              "busy.</p>\n",
              stream);
}

static void write_table(const struct record_table *table, bool chosen, FILE *stream)
{
    struct look *looks = calloc(table->column_count + 1, sizeof *looks);
    for (size_t c = 0; c < table->column_count; c++)
        looks[c] = (struct look){!chosen && says_nothing(table, c), is_numeric(table, c)};
    fputs("<div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Records\">"
          "<table class=\"records sortable\" data-tools>\n",
          stream);
    write_head(table, looks, stream);
    fputs("<tbody>\n", stream);
    for (size_t r = 0; r < table->row_count; r++)
        write_row(table, looks, r, stream);
    fputs("</tbody></table></div>\n", stream);
    write_marks(table, stream);
    free(looks);
}

bool records_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    const struct record_table_request *request = &page->report->table;
    struct record_table table;
    const char *columns = request->columns ? request->columns : columns_shown;
    bool fine = record_table_open(&table, &page->results, columns, request->sort, status);
    *count = fine ? table.row_count : 0;
    if (*count)
        write_table(&table, request->columns, stream);
    record_table_close(&table);
    return fine;
}
