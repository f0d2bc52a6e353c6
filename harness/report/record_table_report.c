#define _GNU_SOURCE // asprintf
#include "harness/report/record_table_report.h"
#include "harness/record/step_time.h"
#include "harness/table/setting.h"
#include <math.h>
#include <string.h>

struct printer {
    const struct record_table_request *request;
    const struct record_table *table;
    FILE *stream;
};

static void add_words(const struct printer *printer, struct text_table *text, const bool *silent, size_t row)
{
    char **words = calloc(printer->table->column_count + 1, sizeof *words);
    size_t count = 0;
    for (size_t c = 0; c < printer->table->column_count; c++)
        if (!silent[c])
            words[count++] = record_table_words(printer->table, row, c);
    text_table_row(text, (const char *const *)words);
    for (size_t i = 0; i < count; i++)
        free(words[i]);
    free(words);
}

// Longer names of baselines would widen number columns: the title then has only the method, and a note explains it.
#define BASE_NAME_MAX 16

static bool has_long_base(const struct record_table *table)
{
    return strlen(table->base_name) > BASE_NAME_MAX && strchr(table->base_name, ',');
}

static void add_titles(const struct printer *printer, struct text_table *text, const bool *silent)
{
    const struct record_table *table = printer->table;
    const char **titles = calloc(table->column_count + 1, sizeof *titles);
    struct interned words = {0};
    size_t count = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        if (silent[c])
            continue;
        const char *title = record_table_title(table, c), *base = strstr(title, table->base_name);
        if (base && !printer->request->columns && has_long_base(table))
            title = interned_text(&words, title, (size_t)(base - title) + strcspn(base, ","));
        titles[count++] = title;
    }
    text_table_row(text, titles);
    interned_free(&words);
    free(titles);
}

// The card of all records; "" on the CPU, or if there are several.
static void common_card(const struct results *results, char *card, size_t size)
{
    char other[160];
    record_card(results->records[0], card, size);
    for (size_t i = 1; *card && i < results->count; i++) {
        record_card(results->records[i], other, sizeof other);
        if (strcmp(other, card) != 0)
            *card = 0;
    }
}

// Writes the common values of all rows that their settings omit.
static void write_common(const struct printer *printer, const struct results *results)
{
    char words[400], card[160];
    double context = results->records[0]->trial.context;
    json_t *common = setting_common(results->records, results->count);
    for (size_t i = 1; i < results->count; i++)
        context = results->records[i]->trial.context == context ? context : 0;
    setting_describe(common, context, words, sizeof words);
    common_card(results, card, sizeof card);
    if (*words)
        fprintf(printer->stream, "%s%s%s\n\n", words, *card ? ", " : "", card);
    json_decref(common);
}

static void write_planned(const struct printer *printer)
{
    size_t planned = 0, of_no_card = 0;
    for (size_t i = 0; i < printer->table->row_count; i++) {
        const struct record *record = printer->table->rows[i].record;
        planned += record_is_planned(record);
        of_no_card += record_is_of_no_card(record);
    }
    if (planned)
        fprintf(printer->stream, "\n%zu of %zu rows are planned: bytes are exact, times estimates\n", planned,
                printer->table->row_count);
    if (of_no_card)
        fprintf(printer->stream,
                "%zu of %zu rows are planned for no card in particular: bytes and launches follow from a card's\n"
                "number of multiprocessors; plan with --profile NAME\n",
                of_no_card, printer->table->row_count);
}

static void write_drawn(const struct printer *printer)
{
    size_t drawn = 0;
    bool timed = false;
    for (size_t i = 0; i < printer->table->row_count; i++) {
        const struct record *record = printer->table->rows[i].record;
        drawn += step_time_is_drawn(record);
        timed |= isfinite(step_time_of(record).ms);
    }
    if (drawn && timed)
        fprintf(
            printer->stream,
            "\n%zu of %zu rows draw their chunks: times are means over draws, all else describes the first draw\n",
            drawn, printer->table->row_count);
}

static void write_undecided(const struct printer *printer)
{
    size_t undecided = 0;
    double bound = 0;
    for (size_t i = 0; i < printer->table->row_count; i++) {
        const struct record *record = printer->table->rows[i].record;
        bool vain = record_gradient_undecided(record);
        undecided += vain;
        bound = vain ? fmax(bound, record->gradient.bound) : bound;
    }
    if (undecided)
        fprintf(
            printer->stream,
            "\nthe gradients of %zu of %zu rows are not judged: rounding in their dtype explains errors of up to "
            "%.2g\nof the gradient itself (gradient.bound); check these models in f32, too\n",
            undecided, printer->table->row_count, bound);
}

// before: start of each note.
static void write_several(const struct results *results, const char *before, FILE *stream)
{
    size_t rounds = results_of_rounds(results), several = results_of_several(results);
    if (rounds)
        fprintf(stream, "%s%zu of %zu rows have the samples of several rounds: `longbp report --all` shows each\n",
                before, rounds, results->count);
    if (several)
        fprintf(stream,
                "%s%zu of %zu rows are the last of several records of their trial by other builds or "
                "machines:\n`longbp report --all` shows each, `longbp compare` and `longbp history` compare them\n",
                before, several, results->count);
}

// before: start of each note.
static void write_disturbed(const struct record_table *table, const char *before, FILE *stream)
{
    size_t disturbed = 0, perhaps = 0;
    double taken = 0;
    for (size_t i = 0; i < table->row_count; i++) {
        const struct record *record = table->rows[i].record;
        bool surely = record_disturbed(record);
        disturbed += surely;
        taken += surely ? record_cores_taken(record) : 0;
        perhaps += !surely && record_perhaps_disturbed(record);
    }
    if (disturbed)
        fprintf(
            stream,
            "%s* beside %zu of %zu rows something else ran, on %.1f cores on average: their times are too long; "
            "take them again\non an idle machine with --fresh, or in --rounds (record fields load.*)\n",
            before, disturbed, table->row_count, taken / (double)disturbed);
    if (perhaps)
        fprintf(stream,
                "%s? %zu of %zu rows are too short to tell whether something ran beside them, but the machine was "
                "busy:\ntake them again on an idle machine, or with more samples\n",
                before, perhaps, table->row_count);
}

// Notes ratios of times without an interval; every: each row is a separate round.
static void write_one_round(const struct record_table *table, bool every, FILE *stream)
{
    size_t alone = 0;
    for (size_t i = 0; i < table->row_count; i++)
        alone += isinf(table_row_time_ratio(&table->rows[i]).high);
    if (alone && !every)
        fprintf(stream,
                "\n%zu of %zu ratios of times come from one round and have no interval: `longbp run --rounds 3` "
                "gives one\n",
                alone, table->row_count);
}

static bool shows(const struct record_table *table, const char *name)
{
    bool shown = false;
    for (size_t c = 0; c < table->column_count; c++)
        shown |= strcmp(table->columns[c].name, name) == 0;
    return shown;
}

static void write_base(const struct record_table *table, FILE *stream)
{
    bool any = false;
    for (size_t i = 0; i < table->row_count; i++)
        any |= isfinite(table_row_time_ratio(&table->rows[i]).estimate) ||
               (table->rows[i].base && table->rows[i].base->peak_bytes > 0);
    if (any && has_long_base(table))
        fprintf(stream, "\nratios are over %s\n", table->base_name);
}

static void write_for_people(const struct printer *printer, const struct results *results)
{
    struct text_table table = {0};
    bool *silent = calloc(printer->table->column_count + 1, sizeof *silent), framed = !printer->request->columns;
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
        write_base(printer->table, printer->stream);
        write_planned(printer);
        write_drawn(printer);
        write_undecided(printer);
        write_several(results, "\n", printer->stream);
        write_disturbed(printer->table, "\n", printer->stream);
        write_one_round(printer->table, !results->places, printer->stream);
    } else if (shows(printer->table, "time_ms") || shows(printer->table, "time_ratio")) {
        write_disturbed(printer->table, "longbp: ", stderr);
    }
    text_table_free(&table);
    free(silent);
}

// --- csv and json

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

// To be freed.
static char *json_text(const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    CHECK(text);
    return text;
}

static void write_cell(const json_t *value, FILE *stream)
{
    if (json_is_null(value))
        return;
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_text(value);
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
            json_t *value = record_table_compute(printer->table, r, c);
            write_cell(value, printer->stream);
            json_decref(value);
        }
        fputs("\r\n", printer->stream);
    }
}

// The text before a column's value, {"name": or ,"name": to be freed.
static char *json_lead(const struct record_table *table, size_t column)
{
    json_t *name = json_string(table->columns[column].name);
    char *quoted = json_text(name), *lead;
    CHECK(asprintf(&lead, "%s%s:", column ? "," : "{", quoted) > 0);
    free(quoted);
    json_decref(name);
    return lead;
}

// Writes directly, because an object per row would look up and escape its names again.
static void write_json(const struct printer *printer)
{
    const struct record_table *table = printer->table;
    char **leads = calloc(table->column_count + 1, sizeof *leads);
    for (size_t c = 0; c < table->column_count; c++)
        leads[c] = json_lead(table, c);
    fputs("[", printer->stream);
    for (size_t r = 0; r < table->row_count; r++) {
        fputs(r ? ",\n" : "\n", printer->stream);
        for (size_t c = 0; c < table->column_count; c++) {
            json_t *value = record_table_compute(table, r, c);
            char *text = json_is_null(value) ? NULL : json_text(value);
            fputs(leads[c], printer->stream);
            fputs(text ? text : "null", printer->stream);
            free(text);
            json_decref(value);
        }
        fputs("}", printer->stream);
    }
    fputs("\n]\n", printer->stream);
    for (size_t c = 0; c < table->column_count; c++)
        free(leads[c]);
    free(leads);
}

bool record_table_report(const struct record_table_request *request, const struct results *results, FILE *stream,
                         struct status *status)
{
    static const char for_people[] =
        "setting,status,gradient.relative_l2,last_loss,held_out_loss"
        ",time_ms,spread_ms,estimate_ms,peak_bytes,host_peak_bytes,time_ratio,peak_ratio";
    struct record_table table;
    const struct printer printer = {request, &table, stream};
    bool people = request->format <= TABLE_LATEX;
    const char *columns = request->columns ? request->columns : people ? for_people : NULL;
    bool fine = people ? record_table_open(&table, results, columns, request->sort, status)
                       : record_table_open_rows(&table, results, columns, request->sort, status);
    if (fine && !results->count)
        fine = status_set(status, STATUS_BAD_INPUT, "no records; `longbp run` writes them");
    else if (fine && people)
        write_for_people(&printer, results);
    else if (fine && request->format == TABLE_CSV)
        write_csv(&printer);
    else if (fine && request->format == TABLE_JSON)
        write_json(&printer);
    if (fine && !people)
        write_several(results, "longbp: ", stderr);
    record_table_close(&table);
    return fine;
}
