#include "harness/plot/series_choice.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include "harness/text/word_list.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 64

void series_choice_open(struct series_choice *choice, const char *list, const char *panel)
{
    *choice = (struct series_choice){.panel = panel};
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = at + word_list_first(at);
        while (*end && end[1] == ' ') // a label's own comma
            end += 1 + word_list_first(end + 1);
        choice->names = realloc(choice->names, (choice->count + 1) * sizeof *choice->names);
        CHECK(choice->names && (choice->names[choice->count++] = strndup(at, (size_t)(end - at))));
    }
    CHECK(choice->found = calloc(choice->count + 1, sizeof *choice->found));
}

void series_choice_close(struct series_choice *choice)
{
    for (size_t i = 0; i < choice->count; i++)
        free(choice->names[i]);
    free(choice->names);
    free(choice->found);
}

static void see(char *seen, size_t bytes, const char *label)
{
    char entry[256];
    snprintf(entry, sizeof entry, " \"%.200s\"", label);
    if (!strstr(seen, entry) && strlen(seen) + strlen(entry) < bytes)
        text_append(seen, bytes, "%s", entry);
}

// Whether the label is the name, or begins with it up to a comma.
static bool begins(const char *label, const char *name)
{
    size_t length = strlen(name);
    return strncmp(label, name, length) == 0 && (label[length] == ',' || !label[length]);
}

bool series_choice_has_panel(struct series_choice *choice, const char *label)
{
    bool is = !choice->panel || begins(label, choice->panel);
    see(choice->panels_seen, sizeof choice->panels_seen, label);
    choice->panel_found |= is;
    return is;
}

static bool chosen(struct series_choice *choice, const char *method, const char *label)
{
    bool any = !choice->count;
    for (size_t i = 0; i < choice->count; i++) {
        bool is = strcmp(choice->names[i], method) == 0 || begins(label, choice->names[i]);
        choice->found[i] |= is;
        any |= is;
    }
    return any;
}

// Columns whose numbers go from 1 without a gap.
static const char *const counted[] = {"series", "group", "panel"};
enum { COUNTED = sizeof counted / sizeof *counted };

struct table {
    size_t columns, method, label, panel, places[COUNTED]; // columns, where the table has no such one
    size_t rows;
    bool *kept[COUNTED]; // [rows + 1]: numbers that rows have which are chosen
};

// Splits a line at its tabs.
static size_t split(char *line, char *fields[COLUMNS_MAX])
{
    size_t count = 0;
    for (char *field; count < COLUMNS_MAX && (field = strsep(&line, "\t"));)
        fields[count++] = field;
    return count;
}

static size_t column_of(char *const *fields, size_t count, const char *name)
{
    size_t column = 0;
    while (column < count && strcmp(fields[column], name) != 0)
        column++;
    return column;
}

static void read_header(struct table *table, const char *text)
{
    char *line = strndup(text, strcspn(text, "\n")), *fields[COLUMNS_MAX];
    CHECK(line);
    *table = (struct table){.columns = split(line, fields)};
    table->method = column_of(fields, table->columns, "method");
    table->label = column_of(fields, table->columns, "label");
    table->panel = column_of(fields, table->columns, "panel_label");
    if (table->panel == table->columns)
        table->panel = column_of(fields, table->columns, "group_label");
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        table->rows++;
    for (size_t i = 0; i < COUNTED; i++) {
        table->places[i] = column_of(fields, table->columns, counted[i]);
        CHECK(table->kept[i] = calloc(table->rows + 1, sizeof **table->kept));
    }
    CHECK(table->method < table->columns && table->label < table->columns);
    free(line);
}

static size_t number_in(const struct table *table, char *const *fields, size_t counted_column)
{
    size_t number = strtoul(fields[table->places[counted_column]], NULL, 10);
    CHECK(number <= table->rows);
    return number;
}

// The fields of a row, in a copy of it to be freed; NULL if its series is not chosen.
static char *chosen_row(struct series_choice *choice, const struct table *table, const char *row,
                        char *fields[COLUMNS_MAX])
{
    char *line = strndup(row, strcspn(row, "\n"));
    CHECK(line);
    CHECK(split(line, fields) == table->columns);
    bool is = table->panel == table->columns || series_choice_has_panel(choice, fields[table->panel]);
    see(choice->seen, sizeof choice->seen, fields[table->label]);
    if (chosen(choice, fields[table->method], fields[table->label]) && is)
        return line;
    free(line);
    return NULL;
}

static void write_row(const struct table *table, char *const *fields, FILE *stream)
{
    for (size_t column = 0; column < table->columns; column++) {
        const char *tab = column ? "\t" : "";
        size_t i = 0, number = 0;
        while (i < COUNTED && table->places[i] != column)
            i++;
        if (i == COUNTED) {
            fprintf(stream, "%s%s", tab, fields[column]);
            continue;
        }
        for (size_t below = 0; below <= number_in(table, fields, i); below++)
            number += table->kept[i][below];
        fprintf(stream, "%s%zu", tab, number);
    }
    fputc('\n', stream);
}

// Row by row: marks the numbers of those that are chosen, or, with a stream, writes these. How many there are.
static size_t walk_rows(struct series_choice *choice, struct table *table, const char *text, FILE *stream)
{
    size_t count = 0;
    for (const char *row = strchr(text, '\n') + 1; *row; row += strcspn(row, "\n") + 1) {
        char *fields[COLUMNS_MAX], *line = chosen_row(choice, table, row, fields);
        if (line && stream)
            write_row(table, fields, stream);
        for (size_t i = 0; line && !stream && i < COUNTED; i++)
            if (table->places[i] < table->columns)
                table->kept[i][number_in(table, fields, i)] = true;
        count += line != NULL;
        free(line);
    }
    return count;
}

char *series_choice_apply(struct series_choice *choice, const char *text)
{
    if (!choice->count && !choice->panel)
        return strdup(text);
    struct table table;
    read_header(&table, text);
    choice->panel_found |= table.panel == table.columns;
    char *written = NULL;
    if (walk_rows(choice, &table, text, NULL)) {
        size_t bytes;
        FILE *stream = open_memstream(&written, &bytes);
        CHECK(stream);
        fprintf(stream, "%.*s\n", (int)strcspn(text, "\n"), text);
        walk_rows(choice, &table, text, stream);
        CHECK(fclose(stream) == 0);
    }
    for (size_t i = 0; i < COUNTED; i++)
        free(table.kept[i]);
    return written;
}

// One that was not found: which was meant among what was seen, and that.
static bool tell(const struct series_choice *choice, const char *name, struct status *status)
{
    struct names names = {0};
    char *labels = strdup(choice->seen), *heads = strdup(choice->seen), *rest = labels, *word;
    CHECK(labels && heads);
    while ((word = strsep(&rest, "\"")) && names.count + 2 < NAMES_MAX) { // what stands between is blank
        char *head = heads + (word - labels);
        head[strcspn(head, ",\"")] = 0;
        if (names_find(&names, head) == names.count)
            names_add(&names, head);
        names_add(&names, word);
    }
    const char *nearest = names_nearest(&names, name);
    status_set(status, STATUS_BAD_INPUT,
               "--series: no picture has \"%.60s\"; %s%.200s%stake a method or a series, commas between, of:%s",
               name, nearest ? "did you mean \"" : "", nearest ? nearest : "", nearest ? "\"? " : "",
               *choice->seen ? choice->seen : " none, for nothing could be drawn");
    free(labels);
    free(heads);
    return false;
}

bool series_choice_check(const struct series_choice *choice, struct status *status)
{
    for (size_t i = 0; i < choice->count; i++)
        if (!choice->found[i])
            return tell(choice, choice->names[i], status);
    return true;
}
