#define _GNU_SOURCE // asprintf
#include "harness/results/record_table.h"
#include "harness/files/size.h"
#include "harness/results/record_columns.h"
#include "harness/results/setting.h"
#include "harness/results/trial_names.h"
#include "harness/spec/trial.h"
#include <math.h>
#include <string.h>

#define DIGITS 4 // of a time, and of any other number that is not whole

const json_t *record_table_value(const struct record_table *table, size_t row, size_t column)
{
    return table->values[row * table->column_count + column];
}

// --- columns

static bool add_column(struct record_table *table, const char *asked_by, const char *name, struct status *status)
{
    struct record_column *column = &table->columns[table->column_count];
    for (size_t i = 0; i < table->column_count; i++)
        if (strcmp(text_or(table->columns[i].name, ""), name) == 0)
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%.60s\" is named twice", asked_by, name);
    bool found = record_columns_find(&table->known, asked_by, name, column, status);
    table->column_count += found;
    return found;
}

// The names "a,b,c" are taken apart and must stay.
static bool choose_columns(struct record_table *table, struct status *status)
{
    if (!table->names) {
        table->columns = record_columns_flat(&table->known, &table->column_count);
        return true;
    }
    size_t count = 1;
    for (const char *c = table->names; *c; c++)
        count += *c == ',';
    table->columns = calloc(count, sizeof *table->columns);
    CHECK(table->columns);
    char *rest = table->names, *name;
    bool fine = true;
    while (fine && (name = strsep(&rest, ",")))
        fine = add_column(table, "--columns", name, status);
    return fine;
}

// --- values

// A new reference.
static json_t *value_of(const struct record_column *column, const struct table_row *row,
                        const struct table_row *first)
{
    return column->figure ? column->figure->value(row, first) : record_column_value(column, row->record);
}

static void take_values(struct record_table *table)
{
    table->values = calloc(table->row_count * table->column_count + 1, sizeof *table->values);
    CHECK(table->values);
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++) {
            json_t *value = value_of(&table->columns[c], &table->rows[r], &table->rows[0]);
            CHECK(value);
            table->values[r * table->column_count + c] = value;
        }
}

// --- the order of rows

struct sorted_row {
    size_t at;
    json_t *value;
    bool descending;
};

// Numbers before texts, and whatever is neither last.
static int rank_of(const json_t *value)
{
    return json_is_number(value) ? 0 : json_is_string(value) ? 1 : 2;
}

static int compare_rows(const void *a, const void *b)
{
    const struct sorted_row *left = a, *right = b;
    int rank = rank_of(left->value), order = rank - rank_of(right->value);
    if (order)
        return order;
    double x = json_number_value(left->value), y = json_number_value(right->value);
    order = rank == 0   ? (x > y) - (x < y)
            : rank == 1 ? strcmp(json_string_value(left->value), json_string_value(right->value))
                        : 0;
    if (order)
        return left->descending ? -order : order;
    return (left->at > right->at) - (left->at < right->at);
}

static void order_rows(struct record_table *table, const struct record_column *by, bool descending)
{
    struct sorted_row *sorted = calloc(table->row_count + 1, sizeof *sorted);
    struct table_row *rows = calloc(table->row_count + 1, sizeof *rows);
    CHECK(sorted && rows);
    for (size_t i = 0; i < table->row_count; i++)
        sorted[i] = (struct sorted_row){i, value_of(by, &table->rows[i], &table->rows[0]), descending};
    qsort(sorted, table->row_count, sizeof *sorted, compare_rows);
    for (size_t i = 0; i < table->row_count; i++) {
        rows[i] = table->rows[sorted[i].at];
        json_decref(sorted[i].value);
    }
    free(sorted);
    free(table->rows);
    table->rows = rows;
}

static bool sort_rows(struct record_table *table, const char *sort, struct status *status)
{
    if (!sort)
        return true;
    char *name = strdup(sort), *order = name + strcspn(name, ":");
    bool given = *order == ':', descending = given && strcmp(order + 1, "desc") == 0;
    struct record_column by;
    CHECK(name);
    bool fine =
        !given || descending || strcmp(order + 1, "asc") == 0 ||
        status_set(status, STATUS_BAD_INPUT, "--sort: the order is asc or desc, found \"%.60s\"", order + 1);
    *order = 0;
    fine = fine && record_columns_find(&table->known, "--sort", name, &by, status);
    if (fine)
        order_rows(table, &by, descending);
    free(name);
    return fine;
}

static void name_row(struct record_table *table, size_t row, const struct trial_names *names, size_t at)
{
    struct trial_name name = trial_names_at(names, at);
    table->rows[row].name = interned_text(&table->words, name.text, strlen(name.text));
}

// Names the rows of the experiment that row `first` is of.
static void name_experiment(struct record_table *table, size_t first, bool *named)
{
    const char *experiment = table->rows[first].record->experiment;
    const struct record **records = calloc(table->row_count + 1, sizeof *records);
    size_t *rows = calloc(table->row_count + 1, sizeof *rows), count = 0;
    struct trial_names names;
    CHECK(records && rows);
    for (size_t i = first; i < table->row_count; i++) {
        if (named[i] || strcmp(table->rows[i].record->experiment, experiment) != 0)
            continue;
        named[i] = true;
        rows[count] = i;
        records[count++] = table->rows[i].record;
    }
    trial_names_open(&names, records, count, false);
    for (size_t i = 0; i < count; i++)
        name_row(table, rows[i], &names, i);
    trial_names_close(&names);
    free(rows);
    free(records);
}

static void name_rows(struct record_table *table, const struct results *results)
{
    struct trial_names names;
    trial_names_open(&names, results->records, results->count, false);
    for (size_t i = 0; i < results->count; i++)
        name_row(table, i, &names, i);
    trial_names_close(&names);
}

// A table that says the experiment of a row says in its setting no more than differs within the experiment.
static void take_rows(struct record_table *table, const struct results *results)
{
    bool apart = false, *named = calloc(results->count + 1, sizeof *named);
    table->rows = calloc(results->count + 1, sizeof *table->rows);
    CHECK(named && table->rows);
    table->row_count = results->count;
    for (size_t i = 0; i < results->count; i++)
        table->rows[i] = (struct table_row){results->records[i], ""};
    for (size_t c = 0; c < table->column_count; c++)
        apart |= strcmp(table->columns[c].name, "experiment") == 0;
    for (size_t i = 0; apart && i < results->count; i++)
        if (!named[i])
            name_experiment(table, i, named);
    if (!apart)
        name_rows(table, results);
    free(named);
}

// Columns and rows, without values.
static bool open_rows(struct record_table *table, const struct results *results, const char *columns,
                      const char *sort, struct status *status)
{
    *table = (struct record_table){.names = columns ? strdup(columns) : NULL};
    CHECK(table->names || !columns);
    record_columns_open(&table->known, results);
    bool fine = choose_columns(table, status);
    take_rows(table, results);
    return fine && sort_rows(table, sort, status);
}

bool record_table_open(struct record_table *table, const struct results *results, const char *columns,
                       const char *sort, struct status *status)
{
    bool fine = open_rows(table, results, columns, sort, status);
    if (fine)
        take_values(table);
    return fine;
}

void record_table_close(struct record_table *table)
{
    for (size_t i = 0; table->values && i < table->row_count * table->column_count; i++)
        json_decref(table->values[i]);
    free(table->values);
    free(table->rows);
    free(table->columns);
    free(table->names);
    interned_free(&table->words);
    record_columns_close(&table->known);
    *table = (struct record_table){0};
}

// --- for people

// "1240", "12.4", "0.124": so many digits, and none of a whole number cut off.
static void write_digits(double value, char *text, size_t bytes)
{
    int before = value != 0 ? (int)floor(log10(fabs(value))) + 1 : 1;
    if (before > 15 || before < -3)
        snprintf(text, bytes, "%.*g", DIGITS, value);
    else
        snprintf(text, bytes, "%.*f", before < DIGITS ? DIGITS - before : 0, value);
}

// To be freed.
static char *words_of(const struct record_column *column, const json_t *value)
{
    const char *unit = column->unit ? column->unit : "";
    char text[64];
    if (json_is_null(value))
        return strdup("-");
    if (json_is_string(value))
        return strdup(json_string_value(value));
    if (!json_is_number(value))
        return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    double number = json_number_value(value);
    if (strcmp(unit, "bytes") == 0 && number >= 0)
        size_text((size_t)number, text, sizeof text);
    else if (json_is_integer(value))
        snprintf(text, sizeof text, "%.0f", number);
    else
        write_digits(number, text, sizeof text);
    return strdup(text);
}

char *record_table_words(const struct record_table *table, size_t row, size_t column)
{
    char *words = words_of(&table->columns[column], record_table_value(table, row, column));
    CHECK(words);
    return words;
}

const char *record_table_title(const struct record_table *table, size_t column)
{
    const struct record_column *shown = &table->columns[column];
    return shown->figure ? shown->figure->title : shown->name;
}

bool record_table_is_silent(const struct record_table *table, size_t column)
{
    bool status = strcmp(table->columns[column].name, "status") == 0, silent = true;
    for (size_t r = 0; silent && r < table->row_count; r++) {
        const json_t *value = record_table_value(table, r, column);
        silent = status ? strcmp(json_string_value(value), "ok") == 0 : json_is_null(value);
    }
    return silent;
}

// --- writing

struct printer {
    const struct record_table_request *request;
    const struct record_table *table;
    FILE *stream;
};

static void add_words(const struct printer *printer, struct text_table *text, const bool *silent, size_t row)
{
    char **words = calloc(printer->table->column_count + 1, sizeof *words);
    size_t count = 0;
    CHECK(words);
    for (size_t c = 0; c < printer->table->column_count; c++)
        if (!silent[c])
            words[count++] = record_table_words(printer->table, row, c);
    text_table_row(text, (const char *const *)words);
    for (size_t i = 0; i < count; i++)
        free(words[i]);
    free(words);
}

static void add_titles(const struct printer *printer, struct text_table *text, const bool *silent)
{
    const char **titles = calloc(printer->table->column_count + 1, sizeof *titles);
    size_t count = 0;
    CHECK(titles);
    for (size_t c = 0; c < printer->table->column_count; c++)
        if (!silent[c])
            titles[count++] = record_table_title(printer->table, c);
    text_table_row(text, titles);
    free(titles);
}

// What all rows have in common, which their settings do not say.
static void write_common(const struct printer *printer, const struct results *results)
{
    char words[400];
    double context = results->records[0]->trial.context;
    json_t *common = setting_common(results->records, results->count);
    for (size_t i = 1; i < results->count; i++)
        context = results->records[i]->trial.context == context ? context : 0;
    setting_describe(common, context, words, sizeof words);
    if (*words)
        fprintf(printer->stream, "%s\n\n", words);
    json_decref(common);
}

static void write_planned(const struct printer *printer)
{
    size_t planned = 0;
    for (size_t i = 0; i < printer->table->row_count; i++)
        planned += trial_plans_on(text_or(printer->table->rows[i].record->trial.device, ""));
    if (planned)
        fprintf(printer->stream, "\n%zu of %zu rows are planned: bytes are exact, nothing was measured\n", planned,
                printer->table->row_count);
}

static void write_several(const struct results *results, FILE *stream)
{
    size_t rounds = results_of_rounds(results), several = results_of_several(results);
    if (rounds)
        fprintf(stream, "\n%zu of %zu rows have the samples of several rounds: `longbp report --all` shows each\n",
                rounds, results->count);
    if (several)
        fprintf(stream,
                "\n%zu of %zu rows are the last of several records of their trial, which other builds or machines "
                "measured:\n`longbp report --all` shows each, `longbp compare` and `longbp history` hold them "
                "against each other\n",
                several, results->count);
}

static void write_disturbed(const struct printer *printer)
{
    size_t disturbed = 0;
    double others = 0;
    for (size_t i = 0; i < printer->table->row_count; i++)
        if (record_disturbed(printer->table->rows[i].record)) {
            const struct record_load *load = &printer->table->rows[i].record->load;
            others += load->other_cores + load->stolen_cores;
            disturbed++;
        }
    if (disturbed)
        fprintf(
            printer->stream,
            "\nbeside %zu of %zu rows something else ran, on %.1f cores on average: their times are too long; take "
            "them again\non an idle machine with --fresh, or in --rounds (record fields load.*)\n",
            disturbed, printer->table->row_count, others / (double)disturbed);
}

static void write_perhaps_disturbed(const struct printer *printer)
{
    size_t rows = 0;
    double most = 0, cores = 0;
    for (size_t i = 0; i < printer->table->row_count; i++) {
        const struct record *record = printer->table->rows[i].record;
        if (record_perhaps_disturbed(record)) {
            most = fmax(most, record->load.before);
            cores = record->load.cores;
            rows++;
        }
    }
    if (rows)
        fprintf(
            printer->stream,
            "\n%zu of %zu rows are too short to tell whether something ran beside them, but the load before them "
            "was up to\n%.1f on %.0f cores: take them again on an idle machine, or with more samples\n",
            rows, printer->table->row_count, most, cores);
}

static void write_for_people(const struct printer *printer, const struct results *results)
{
    struct text_table table = {0};
    bool *silent = calloc(printer->table->column_count + 1, sizeof *silent), framed = !printer->request->columns;
    CHECK(silent);
    for (size_t c = 0; framed && c < printer->table->column_count; c++)
        silent[c] = record_table_is_silent(printer->table, c);
    add_titles(printer, &table, silent);
    for (size_t r = 0; r < printer->table->row_count; r++)
        add_words(printer, &table, silent, r);
    framed = framed && printer->request->format != TABLE_LATEX;
    if (framed)
        write_common(printer, results);
    text_table_print(&table, printer->request->format, printer->stream);
    if (framed) {
        write_planned(printer);
        write_several(results, printer->stream);
        write_disturbed(printer);
        write_perhaps_disturbed(printer);
    }
    text_table_free(&table);
    free(silent);
}

// --- for programs

static void write_quoted(const char *text, FILE *stream)
{
    bool plain = *text && !strpbrk(text, "\",\r\n");
    if (plain) {
        fputs(text, stream);
        return;
    }
    putc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', stream);
        putc(*text, stream);
    }
    putc('"', stream);
}

static void write_cell(const json_t *value, FILE *stream)
{
    if (json_is_null(value))
        return;
    char *text = json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    CHECK(text);
    write_quoted(text, stream);
    free(text);
}

static void write_csv(const struct printer *printer)
{
    for (size_t c = 0; c < printer->table->column_count; c++) {
        fputs(c ? "," : "", printer->stream);
        write_quoted(printer->table->columns[c].name, printer->stream);
    }
    fputs("\r\n", printer->stream);
    for (size_t r = 0; r < printer->table->row_count; r++) {
        for (size_t c = 0; c < printer->table->column_count; c++) {
            fputs(c ? "," : "", printer->stream);
            json_t *value = value_of(&printer->table->columns[c], &printer->table->rows[r], printer->table->rows);
            write_cell(value, printer->stream);
            json_decref(value);
        }
        fputs("\r\n", printer->stream);
    }
}

static void write_json(const struct printer *printer)
{
    fputs("[", printer->stream);
    for (size_t r = 0; r < printer->table->row_count; r++) {
        json_t *row = json_object();
        for (size_t c = 0; c < printer->table->column_count; c++)
            CHECK(json_object_set_new(
                      row, printer->table->columns[c].name,
                      value_of(&printer->table->columns[c], &printer->table->rows[r], printer->table->rows)) == 0);
        fputs(r ? ",\n" : "\n", printer->stream);
        json_dumpf(row, printer->stream, JSON_COMPACT);
        json_decref(row);
    }
    fputs("\n]\n", printer->stream);
}

bool record_table_write(const struct record_table_request *request, const struct results *results, FILE *stream,
                        struct status *status)
{
    static const char for_people[] =
        "setting,status,time_ms,spread_ms,estimate_ms,peak_bytes,host_peak_bytes,time_ratio,peak_ratio";
    struct record_table table;
    const struct printer printer = {request, &table, stream};
    bool people = request->format <= TABLE_LATEX;
    const char *columns = request->columns ? request->columns : people ? for_people : NULL;
    bool fine = people ? record_table_open(&table, results, columns, request->sort, status)
                       : open_rows(&table, results, columns, request->sort, status);
    if (fine && people && !results->count)
        fine = status_set(status, STATUS_BAD_INPUT,
                          "no records: there is nothing to sum up; `longbp run` writes them");
    else if (fine && people)
        write_for_people(&printer, results);
    else if (fine && request->format == TABLE_CSV)
        write_csv(&printer);
    else if (fine && request->format == TABLE_JSON)
        write_json(&printer);
    record_table_close(&table);
    return fine;
}
