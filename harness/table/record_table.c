#define _GNU_SOURCE // asprintf
#include "harness/table/record_table.h"
#include "harness/spec/device_kind.h"
#include "harness/table/record_columns.h"
#include "harness/table/series.h"
#include "harness/table/trial_names.h"
#include "harness/text/size.h"
#include <math.h>
#include <string.h>

#define DIGITS          4 // of a time, and of other numbers that are not whole
#define INTERVAL_DIGITS 3 // of an interval's ends

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

// Splits the names "a,b,c", which must stay in memory.
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
    for (size_t r = 0; r < table->row_count; r++)
        for (size_t c = 0; c < table->column_count; c++)
            table->values[r * table->column_count + c] = record_table_compute(table, r, c);
}

// --- baselines of ratios

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

// Groups rows by context and batch, in their order.
static int by_place(const void *a, const void *b)
{
    const struct row_place *left = a, *right = b;
    int order = by_tokens(left, right);
    return order ? order : (left->at > right->at) - (left->at < right->at);
}

static bool same_step(const struct record *first, const struct record *second)
{
    const struct record_trial *a = &first->trial, *b = &second->trial;
    return a->context == b->context && a->batch == b->batch &&
           (a->model == b->model || json_equal(a->model, b->model)) &&
           device_kind_of(text_or(a->device, "")) == device_kind_of(text_or(b->device, ""));
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

// The rows by context and batch, and which of them have the baseline's method.
struct bases {
    struct row_place *places; // [row_count]
    bool *of_method;          // [row_count]
    // A trial with several rows (one per record) is a baseline round by round, from the last row: the row of the
    // same trial before each row, and the number after it. SIZE_MAX: none.
    size_t *before, *behind; // [row_count]
};

static char *trial_key_of(const struct record *record)
{
    char *key;
    CHECK(asprintf(&key, "%s %s", record->id, record->experiment) >= 0);
    return key;
}

static void find_rounds(const struct record_table *table, struct bases *bases)
{
    json_t *seen = json_object(); // {trial: its previous row}
    for (size_t i = 0; i < table->row_count; i++) {
        char *key = trial_key_of(table->rows[i].record);
        const json_t *before = json_object_get(seen, key);
        bases->before[i] = before ? (size_t)json_integer_value(before) : SIZE_MAX;
        CHECK(json_object_set_new(seen, key, json_integer((json_int_t)i)) == 0);
        free(key);
    }
    for (size_t i = table->row_count; i-- > 0;)
        if (bases->before[i] != SIZE_MAX)
            bases->behind[bases->before[i]] = bases->behind[i] + 1;
    json_decref(seen);
}

static int by_address(const void *a, const void *b)
{
    const struct record *left = *(const struct record *const *)a, *right = *(const struct record *const *)b;
    return (left > right) - (left < right);
}

// Marks the rows of the first row's method with its options; returns its name among all methods.
static const char *find_method(struct record_table *table, struct bases *bases)
{
    static const char *const none[] = {NULL};
    const struct record **records = calloc(table->row_count + 1, sizeof *records);
    struct series_table all;
    const char *name = "";
    for (size_t i = 0; i < table->row_count; i++)
        records[i] = table->rows[i].record;
    series_make(&all, records, table->row_count, none, true);
    for (size_t s = 0; s < all.count && !*name; s++) {
        const struct series *series = &all.series[s];
        qsort(series->records, series->record_count, sizeof *records, by_address);
        for (size_t i = 0; i < table->row_count; i++)
            bases->of_method[i] =
                bsearch(&records[i], series->records, series->record_count, sizeof *records, by_address);
        if (bases->of_method[0])
            name = interned_text(&table->words, series->label, strlen(series->label));
    }
    series_free(&all);
    free(records);
    return name;
}

// The row of a baseline's trial from the same round; SIZE_MAX: none.
static size_t same_round(const struct bases *bases, size_t head, size_t row)
{
    size_t behind = bases->behind[row];
    while (head != SIZE_MAX && bases->behind[head] < behind)
        head = bases->before[head];
    return head != SIZE_MAX && bases->behind[head] == behind ? head : SIZE_MAX;
}

typedef bool same_rows(const struct record *first, const struct record *second);

// Finds the baselines among rows from `from` to before `to`, of one context and batch: the first of equal rows, or
// the last of its trial. Returns their number.
static size_t find_heads(const struct record_table *table, const struct bases *bases, size_t from, size_t to,
                         same_rows *same, size_t *heads)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++) {
        size_t row = bases->places[i].at, h = 0;
        if (!bases->of_method[row])
            continue;
        while (h < count && !same(table->rows[heads[h]].record, table->rows[row].record))
            h++;
        if (h == count)
            heads[count++] = row;
        else if (bases->before[row] == heads[h])
            heads[h] = row;
    }
    return count;
}

// found: the baseline of each row; NULL: none.
static void find_same(const struct record_table *table, const struct bases *bases, same_rows *same,
                      const struct record **found)
{
    size_t *heads = calloc(table->row_count + 1, sizeof *heads);
    for (size_t from = 0, to; from < table->row_count; from = to) {
        for (to = from; to < table->row_count && by_tokens(&bases->places[from], &bases->places[to]) == 0;)
            to++;
        size_t count = find_heads(table, bases, from, to, same, heads);
        for (size_t i = from; i < to; i++) {
            size_t row = bases->places[i].at, h = 0, base;
            const struct record *own = table->rows[row].record;
            while (h < count && !same(table->rows[heads[h]].record, own))
                h++;
            base = h < count ? same_round(bases, heads[h], row) : SIZE_MAX;
            found[row] = base != SIZE_MAX && same(table->rows[base].record, own) ? table->rows[base].record : NULL;
        }
    }
    free(heads);
}

static bool same_device(const struct record *a, const struct record *b)
{
    return strcmp(text_or(a->trial.device, ""), text_or(b->trial.device, "")) == 0 && same_timed_step(a, b);
}

// Distinguishes baselines from others of their method with the same step, ", f32"; "" if nothing does. A new
// string.
static char *base_suffix(const struct record_table *table, const struct bases *bases)
{
    const struct record **records = calloc(table->row_count + 1, sizeof *records);
    struct trial_names names;
    size_t count = 0;
    // Considers steps that have a baseline of their method.
    for (size_t i = 0; i < table->row_count; i++) {
        const struct table_row *row = &table->rows[bases->places[i].at];
        if (!bases->of_method[bases->places[i].at] || !row->base)
            continue;
        if (count && row->base != records[0])
            continue;
        if (!count)
            records[count++] = row->base;
        if (row->record != row->base && same_device(row->record, row->base))
            records[count++] = row->record;
    }
    trial_names_open(&names, records, count, false);
    char *suffix =
        strdup(count ? trial_names_at(&names, 0).text + strlen(names.table.series[names.series[0]].label) : "");
    trial_names_close(&names);
    free(records);
    return suffix;
}

// Finds each row's baseline for memory and time: the first row's method with its options, at the row's model,
// context, batch and kind of device, for times also the row's machine.
static void find_bases(struct record_table *table)
{
    size_t count = table->row_count;
    struct bases bases = {calloc(count + 1, sizeof *bases.places), calloc(count + 1, sizeof *bases.of_method),
                          calloc(count + 1, sizeof *bases.before), calloc(count + 1, sizeof *bases.behind)};
    const struct record **found = calloc(count + 1, sizeof *found);
    CHECK(bases.places && bases.of_method && bases.before && bases.behind && found);
    for (size_t i = 0; i < count; i++)
        bases.places[i] = (struct row_place){&table->rows[i].record->trial, i};
    qsort(bases.places, count, sizeof *bases.places, by_place);
    const char *method = find_method(table, &bases);
    find_rounds(table, &bases);
    find_same(table, &bases, same_step, found);
    for (size_t i = 0; i < count; i++)
        table->rows[i].base = found[i];
    find_same(table, &bases, same_timed_step, found);
    for (size_t i = 0; i < count; i++)
        table->rows[i].base_timed = table->rows[i].record->samples_ms.count ? found[i] : table->rows[i].base;
    char *suffix = base_suffix(table, &bases), *name;
    CHECK(asprintf(&name, "%s%s", method, suffix) >= 0);
    table->base_name = interned_text(&table->words, name, strlen(name));
    free(name);
    free(suffix);
    free(found);
    free(bases.places);
    free(bases.of_method);
    free(bases.before);
    free(bases.behind);
}

// --- the order of rows

struct sorted_row {
    size_t at;
    json_t *value;
    bool descending;
};

// Numbers before texts, other values last.
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

// Names the rows of the experiment of row `first`.
static void name_experiment(struct record_table *table, size_t first, bool *named)
{
    const char *experiment = table->rows[first].record->experiment;
    const struct record **records = calloc(table->row_count + 1, sizeof *records);
    size_t *rows = calloc(table->row_count + 1, sizeof *rows), count = 0;
    struct trial_names names;
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

// With an experiment column, names only contain differences within the experiment.
static void take_rows(struct record_table *table, const struct results *results)
{
    bool apart = false, *named = calloc(results->count + 1, sizeof *named);
    table->rows = calloc(results->count + 1, sizeof *table->rows);
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

// A ratio's title ends in its baseline's name.
static void take_titles(struct record_table *table)
{
    table->titles = calloc(table->column_count + 1, sizeof *table->titles);
    for (size_t c = 0; c < table->column_count; c++) {
        const struct record_figure *figure = table->columns[c].figure;
        const char *title = figure ? figure->title : table->columns[c].name, *over = strstr(title, " / ");
        char *whole;
        CHECK(asprintf(&whole, "%s%s", title, figure && over ? table->base_name : "") >= 0);
        table->titles[c] = interned_text(&table->words, whole, strlen(whole));
        free(whole);
    }
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
    if (fine)
        take_titles(table);
    return fine;
}

void record_table_close(struct record_table *table)
{
    for (size_t i = 0; table->values && i < table->row_count * table->column_count; i++)
        json_decref(table->values[i]);
    free(table->values);
    free(table->titles);
    free(table->rows);
    free(table->columns);
    free(table->names);
    interned_free(&table->words);
    record_columns_close(&table->known);
    *table = (struct record_table){0};
}

// --- printed words

// "1240", "12.4", "0.124": with `digits` digits, and all digits of whole parts.
static void write_digits(double value, int digits, char *text, size_t bytes)
{
    int before = value != 0 ? (int)floor(log10(fabs(value))) + 1 : 1;
    if (before > 15 || before < -3)
        snprintf(text, bytes, "%.*g", digits, value);
    else
        snprintf(text, bytes, "%.*f", before < digits ? digits - before : 0, value);
}

// "504.3 TFLOP/s". To be freed.
static char *scaled_words(double value, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t prefix = 0;
    char *words;
    for (; fabs(value) >= 1000 && prefix + 1 < sizeof prefixes / sizeof *prefixes; prefix++)
        value /= 1000;
    CHECK(asprintf(&words, "%#.4g %s%s", value, prefixes[prefix], unit) >= 0);
    return words;
}

// "1.190 (1.11 to 1.27)"; for one round without interval. To be freed.
static char *ratio_words(const struct table_row *row)
{
    struct shift ratio = table_row_time_ratio(row);
    char value[64], low[64], high[64], *words;
    if (!isfinite(ratio.estimate))
        return strdup("-");
    write_digits(ratio.estimate, DIGITS, value, sizeof value);
    if (!isfinite(ratio.high) || ratio.low == ratio.high)
        return strdup(value);
    write_digits(ratio.low, INTERVAL_DIGITS, low, sizeof low);
    write_digits(ratio.high, INTERVAL_DIGITS, high, sizeof high);
    CHECK(asprintf(&words, "%s (%s to %s)", value, low, high) >= 0);
    return words;
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
    if (strncmp(unit, "FLOP", strlen("FLOP")) == 0)
        return scaled_words(number, unit);
    if (strcmp(unit, "bytes/s") == 0)
        return scaled_words(number, "B/s");
    if (strcmp(unit, "bytes") == 0 && number >= 0)
        size_text((size_t)number, text, sizeof text);
    else if (json_is_integer(value))
        snprintf(text, sizeof text, "%.0f", number);
    else
        write_digits(number, DIGITS, text, sizeof text);
    return strdup(text);
}

// For a step that ran out of memory: it needs more than it had, and than the limit if that was reached. Frees the
// words and returns new ones.
static char *more_than(const struct record *record, char *words)
{
    double limit = record->trial.limits->memory;
    char max[64], *more;
    bool limited = strstr(text_or(record->reason, ""), "(limits.memory)") && limit > record->peak_bytes;
    if (limited)
        size_text((size_t)limit, max, sizeof max);
    CHECK(asprintf(&more, "> %s", limited ? max : words) >= 0);
    free(words);
    return more;
}

const char *record_table_mark(const struct record *record)
{
    return record_disturbed(record) ? "*" : record_perhaps_disturbed(record) ? "?" : "";
}

// Adds a mark to a time, or a ratio of times, that other programs lengthened. Frees the words and returns new ones.
static char *marked(const struct table_row *row, bool ratio, char *words)
{
    const char *mark = record_table_mark(row->record);
    char *more;
    if (ratio && row->base_timed && *mark != '*' && *record_table_mark(row->base_timed))
        mark = record_table_mark(row->base_timed);
    if ((ratio && row->base_timed == row->record) || strcmp(words, "-") == 0)
        mark = "";
    CHECK(asprintf(&more, "%s%s", words, mark) >= 0);
    free(words);
    return more;
}

char *record_table_words(const struct record_table *table, size_t row, size_t column)
{
    const struct record_column *shown = &table->columns[column];
    const struct table_row *of = &table->rows[row];
    const json_t *value = record_table_value(table, row, column);
    bool ratio = strcmp(shown->name, "time_ratio") == 0;
    char *words = ratio ? ratio_words(of) : words_of(shown, value);
    CHECK(words);
    if (ratio || strcmp(shown->name, "time_ms") == 0)
        return marked(of, ratio, words);
    bool beyond = of->record->status == RECORD_OOM && strcmp(shown->name, "peak_bytes") == 0;
    return beyond && !json_is_null(value) ? more_than(of->record, words) : words;
}

const char *record_table_title(const struct record_table *table, size_t column)
{
    return table->titles[column];
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
