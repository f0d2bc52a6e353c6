#include "harness/plot/figure_table.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// --- construction

static const char *word_of(struct figure_table *table, const char *text)
{
    return interned_text(&table->words, text, strlen(text));
}

static void add_columns(struct figure_table *table, const char *names)
{
    for (size_t length; *names; names += length + (names[length] == '\t')) {
        length = strcspn(names, "\t");
        table->columns = realloc(table->columns, (table->column_count + 1) * sizeof *table->columns);
        table->columns[table->column_count++] = interned_text(&table->words, names, length);
    }
}

void figure_table_columns(struct figure_table *table, const char *names)
{
    if (!table->column_count)
        add_columns(table, "series\tmethod\tlabel\trank");
    add_columns(table, names);
}

static void add_cell(struct figure_table *table, struct figure_cell cell)
{
    if (table->cell_count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 256;
        table->cells = realloc(table->cells, table->capacity * sizeof *table->cells);
    }
    CHECK(table->cell_count < table->row_count * table->column_count);
    table->cells[table->cell_count++] = cell;
}

void figure_table_row(struct figure_table *table, size_t series, const char *method, size_t rank, const char *label,
                      ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, label);
    vsnprintf(text, sizeof text, label, arguments);
    va_end(arguments);
    CHECK(table->cell_count == table->row_count * table->column_count);
    table->row_count++;
    FIGURE_NUMBERS(table, (double)series);
    figure_table_word(table, method);
    figure_table_word(table, text);
    FIGURE_NUMBERS(table, (double)rank);
}

void figure_table_word(struct figure_table *table, const char *word)
{
    add_cell(table, (struct figure_cell){word_of(table, word), NAN});
}

void figure_table_numbers(struct figure_table *table, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_cell(table, (struct figure_cell){NULL, values[i]});
}

void figure_table_free(struct figure_table *table)
{
    free(table->columns);
    free(table->cells);
    interned_free(&table->words);
    *table = (struct figure_table){0};
}

size_t figure_table_find(const struct figure_table *table, const char *column)
{
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i], column) == 0)
            return i;
    return SIZE_MAX;
}

// --- removing rows

static void drop_rows(struct figure_table *table, const bool *kept)
{
    size_t rows = 0, bytes = table->column_count * sizeof *table->cells;
    for (size_t i = 0; i < table->row_count; i++)
        if (kept[i])
            memmove(&table->cells[rows++ * table->column_count], &table->cells[i * table->column_count], bytes);
    table->row_count = rows;
    table->cell_count = rows * table->column_count;
}

// Renumbers the remaining values from 1.
static void count_anew(struct figure_table *table, size_t column)
{
    size_t greatest = 0;
    for (size_t i = 0; i < table->row_count; i++)
        greatest = fmax((double)greatest, figure_table_at(table, i, column)->number);
    size_t *numbers = calloc(greatest + 1, sizeof *numbers), count = 0;
    for (size_t i = 0; i < table->row_count; i++)
        numbers[(size_t)figure_table_at(table, i, column)->number] = 1;
    for (size_t i = 0; i <= greatest; i++)
        numbers[i] = numbers[i] ? ++count : 0;
    for (size_t i = 0; i < table->row_count; i++) {
        double *number = &table->cells[i * table->column_count + column].number;
        *number = (double)numbers[(size_t)*number];
    }
    free(numbers);
}

void figure_table_keep(struct figure_table *table, const bool *rows)
{
    static const char *const counted[] = {"series", "group", "panel"};
    drop_rows(table, rows);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        size_t column = figure_table_find(table, counted[i]);
        if (column != SIZE_MAX)
            count_anew(table, column);
    }
}

// --- thinning

#define ROWS_MAX   2000 // maximum without thinning
#define ROWS_SHOWN 1000 // otherwise
#define SPANS_MIN  32   // of a panel's width
#define SPANS_MAX  200

// Equal parts of the horizontal axis.
struct spans {
    bool logarithmic;
    size_t count;
    double min, greatest;
};

static size_t span_of(const struct spans *spans, double value)
{
    double share = spans->logarithmic ? log(value / spans->min) / log(spans->greatest / spans->min)
                                      : (value - spans->min) / (spans->greatest - spans->min);
    return spans->greatest > spans->min ? (size_t)((double)(spans->count - 1) * share) : 0;
}

// Scripts take an axis' ticks, powers of two, from the table.
static bool is_tick(double value)
{
    int exponent;
    return frexp(value, &exponent) == 0.5;
}

// Notes the row with the minimum, or maximum, of a column within a span.
static void note(size_t *at, const struct figure_table *table, size_t row, size_t column, double sign)
{
    double own = sign * figure_table_at(table, row, column)->number;
    if (isfinite(own) && (*at == SIZE_MAX || own > sign * figure_table_at(table, *at, column)->number))
        *at = row;
}

// Marks rows `from` to before `to`, of one series.
static void mark_series(const struct figure_table *table, size_t from, size_t to, size_t along,
                        const struct spans *spans, bool *kept)
{
    size_t *extreme = malloc(2 * spans->count * sizeof *extreme);
    for (size_t column = COLUMNS_OF_ALL; column < table->column_count; column++) {
        memset(extreme, 0xff, 2 * spans->count * sizeof *extreme);
        for (size_t row = from; row < to && column != along; row++) {
            double at = figure_table_at(table, row, along)->number;
            if (!isfinite(at))
                continue;
            size_t span = span_of(spans, at);
            kept[row] |= is_tick(at);
            note(&extreme[2 * span], table, row, column, 1);
            note(&extreme[2 * span + 1], table, row, column, -1);
        }
        for (size_t i = 0; i < 2 * spans->count; i++)
            if (extreme[i] != SIZE_MAX)
                kept[extreme[i]] = true;
    }
    kept[from] = kept[to - 1] = true;
    free(extreme);
}

void figure_table_thin(struct figure_table *table, const char *along, bool logarithmic)
{
    size_t column = along ? figure_table_find(table, along) : SIZE_MAX, series = 0;
    struct spans spans = {.min = INFINITY, .greatest = -INFINITY};
    if (column == SIZE_MAX || table->row_count <= ROWS_MAX)
        return;
    bool *kept = calloc(table->row_count, sizeof *kept);
    for (size_t i = 0; i < table->row_count; i++) {
        spans.min = fmin(spans.min, figure_table_at(table, i, column)->number);
        spans.greatest = fmax(spans.greatest, figure_table_at(table, i, column)->number);
        series = fmax((double)series, figure_table_at(table, i, COLUMN_SERIES)->number);
    }
    spans.logarithmic = spans.min > 0 && (logarithmic || spans.greatest > 16 * spans.min);
    size_t count = ROWS_SHOWN / 2 / series; // the minimum and the maximum of each
    spans.count = count < SPANS_MIN ? SPANS_MIN : count > SPANS_MAX ? SPANS_MAX : count;
    for (size_t from = 0, to; from < table->row_count; from = to) {
        double number = figure_table_at(table, from, COLUMN_SERIES)->number;
        for (to = from; to < table->row_count && figure_table_at(table, to, COLUMN_SERIES)->number == number;)
            to++;
        mark_series(table, from, to, column, &spans, kept);
    }
    table->thinned_from = table->row_count;
    drop_rows(table, kept);
    free(kept);
}

// --- output

static bool is_beyond(double value)
{
    return isfinite(value) && value != 0 && (fabs(value) < 1e-60 || fabs(value) > 1e60);
}

bool figure_table_beyond(const struct figure_table *table)
{
    bool beyond = false;
    for (size_t i = 0; i < table->cell_count; i++)
        beyond |= !table->cells[i].word && is_beyond(table->cells[i].number);
    return beyond;
}

static void write_cell(const struct figure_cell *cell, FILE *stream)
{
    double value = cell->number;
    if (cell->word)
        for (const char *c = cell->word; *c; c++)
            fputc(*c == '\t' || *c == '\n' ? ' ' : *c, stream);
    else if (!isfinite(value))
        fputs("NaN", stream);
    else if (is_beyond(value))
        fputs("beyond 1e60", stream);
    else
        fprintf(stream, value == floor(value) && fabs(value) < 1e15 ? "%.0f" : "%.9g", value);
}

char *figure_table_text(const struct figure_table *table)
{
    char *text;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    CHECK(stream && table->cell_count == table->row_count * table->column_count);
    for (size_t column = 0; column < table->column_count; column++)
        fprintf(stream, "%s%s", column ? "\t" : "", table->columns[column]);
    for (size_t i = 0; i < table->cell_count; i++) {
        fputc(i % table->column_count ? '\t' : '\n', stream);
        write_cell(&table->cells[i], stream);
    }
    fputc('\n', stream);
    CHECK(fclose(stream) == 0);
    return text;
}
