#define _GNU_SOURCE // asprintf
#include "harness/results/record_table.h"
#include "harness/files/size.h"
#include "harness/results/record_columns.h"
#include "harness/results/trial_names.h"
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
static json_t *value_of(const struct record_table *table, const struct record_column *column, size_t row)
{
    const struct table_row *shown = &table->rows[row];
    return column->figure ? column->figure->value(shown) : record_column_value(column, shown->record);
}

json_t *record_table_compute(const struct record_table *table, size_t row, size_t column)
{
    json_t *value = value_of(table, &table->columns[column], row);
    CHECK(value);
    return value;
}

static void take_values(struct record_table *table)
{
    table->values = calloc(table->row_count * table->column_count + 1, sizeof *table->values);
    CHECK(table->values);
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++)
            table->values[r * table->column_count + c] = record_table_compute(table, r, c);
}

// --- what ratios are over

struct row_place {
    const struct record_trial *trial;
    size_t at;
};

static int by_tokens(const struct row_place *a, const struct row_place *b)
{
    const struct record_trial *x = a->trial, *y = b->trial;
    if (x->context != y->context)
        return x->context < y->context ? -1 : 1;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

// Rows of one context and batch together, in their order.
static int by_place(const void *a, const void *b)
{
    const struct row_place *left = a, *right = b;
    int order = by_tokens(left, right);
    return order ? order : (left->at > right->at) - (left->at < right->at);
}

// "cpu" of plan-cpu, "cuda" of cuda:1 and plan-cuda.
static bool same_kind(const char *a, const char *b)
{
    static const char plan[] = "plan-";
    a += strncmp(a, plan, strlen(plan)) == 0 ? strlen(plan) : 0;
    b += strncmp(b, plan, strlen(plan)) == 0 ? strlen(plan) : 0;
    size_t length = strcspn(a, ":");
    return length == strcspn(b, ":") && strncmp(a, b, length) == 0;
}

static bool same_step(const struct record *first, const struct record *second)
{
    const struct record_trial *a = &first->trial, *b = &second->trial;
    return a->context == b->context && a->batch == b->batch &&
           (a->model == b->model || json_equal(a->model, b->model)) &&
           same_kind(text_or(a->device, ""), text_or(b->device, ""));
}

static bool same_timed_step(const struct record *first, const struct record *second)
{
    char a[RECORD_MACHINE_BYTES], b[RECORD_MACHINE_BYTES];
    if (!same_step(first, second))
        return false;
    record_machine(first, a, sizeof a);
    record_machine(second, b, sizeof b);
    return strcmp(a, b) == 0;
}

// firsts: of each row the first record that it is the same as. places: the rows by context and batch.
static void find_firsts(const struct record_table *table, const struct row_place *places,
                        bool (*same)(const struct record *, const struct record *), const struct record **firsts)
{
    for (size_t i = 0; i < table->row_count; i++) {
        const struct record *own = table->rows[places[i].at].record, *first = NULL;
        for (size_t j = i; !first && j-- > 0 && by_tokens(&places[j], &places[i]) == 0;)
            if (same(firsts[places[j].at], own))
                first = firsts[places[j].at];
        firsts[places[i].at] = first ? first : own;
    }
}

// Of each row what its memory and its time are told as a share of: those of other models, contexts, batches and
// devices, and times of other machines, are no measure.
static void find_bases(struct record_table *table)
{
    struct row_place *places = calloc(table->row_count + 1, sizeof *places);
    const struct record **firsts = calloc(table->row_count + 1, sizeof *firsts);
    CHECK(places && firsts);
    for (size_t i = 0; i < table->row_count; i++)
        places[i] = (struct row_place){&table->rows[i].record->trial, i};
    qsort(places, table->row_count, sizeof *places, by_place);
    find_firsts(table, places, same_step, firsts);
    for (size_t i = 0; i < table->row_count; i++)
        table->rows[i].first = firsts[i];
    find_firsts(table, places, same_timed_step, firsts);
    for (size_t i = 0; i < table->row_count; i++) {
        struct table_row *row = &table->rows[i];
        row->first_timed = row->record->samples_ms.count ? firsts[i] : row->first;
    }
    free(firsts);
    free(places);
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
        sorted[i] = (struct sorted_row){i, value_of(table, by, i), descending};
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
        table->rows[i] = (struct table_row){.record = results->records[i], .name = ""};
    for (size_t c = 0; c < table->column_count; c++)
        apart |= strcmp(table->columns[c].name, "experiment") == 0;
    for (size_t i = 0; apart && i < results->count; i++)
        if (!named[i])
            name_experiment(table, i, named);
    if (!apart)
        name_rows(table, results);
    free(named);
}

bool record_table_open_rows(struct record_table *table, const struct results *results, const char *columns,
                            const char *sort, struct status *status)
{
    *table = (struct record_table){.names = columns ? strdup(columns) : NULL};
    CHECK(table->names || !columns);
    record_columns_open(&table->known, results);
    bool fine = choose_columns(table, status);
    take_rows(table, results);
    find_bases(table); // before rows are sorted: an order changes no ratio
    return fine && sort_rows(table, sort, status);
}

bool record_table_open(struct record_table *table, const struct results *results, const char *columns,
                       const char *sort, struct status *status)
{
    bool fine = record_table_open_rows(table, results, columns, sort, status);
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
    const struct record_column *shown = &table->columns[column];
    const json_t *value = record_table_value(table, row, column);
    char *words = words_of(shown, value), *more;
    CHECK(words);
    const struct record *record = table->rows[row].record;
    if (record->status != RECORD_OOM || strcmp(shown->name, "peak_bytes") != 0 || json_is_null(value))
        return words;
    // A step that ran out of memory would have taken more than it had, and than the limit if that was in its way.
    double limit = record->trial.limits.memory;
    char most[64];
    if (strstr(text_or(record->reason, ""), "(limits.memory)") && limit > record->peak_bytes) {
        size_text((size_t)limit, most, sizeof most);
        CHECK(asprintf(&more, "> %s", most) >= 0);
    } else {
        CHECK(asprintf(&more, "> %s", words) >= 0);
    }
    free(words);
    return more;
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
