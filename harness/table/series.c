#define _GNU_SOURCE // qsort_r
#include "harness/table/series.h"
#include "harness/spec/method_decode.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include "methods/method.h"
#include <string.h>

static size_t method_rank(const char *name)
{
    size_t rank = 0;
    while (methods[rank] && strcmp(methods[rank]->name, name) != 0)
        rank++;
    return rank;
}

// The position of an option in labels: that in the table of the method with the most options that has it; unknown
// options come last.
static size_t key_rank(const char *key)
{
    size_t rank = SIZE_MAX, max = 0;
    for (size_t i = 0; methods[i]; i++) {
        const struct option *rows = methods[i]->options.rows, *own = option_find(&methods[i]->options, key);
        size_t count = 0;
        while (rows[count].name)
            count++;
        if (own && count > max) {
            max = count;
            rank = (size_t)(own - rows);
        }
    }
    return rank;
}

// Tells whether labels that begin with the method's name always have the option.
static bool is_telling(const char *key)
{
    const struct option *option = methods_option_find(key);
    return option && option->telling;
}

static int compare_keys(const void *a, const void *b)
{
    const char *left = *(const char *const *)a, *right = *(const char *const *)b;
    size_t i = key_rank(left), j = key_rank(right);
    return i != j ? (i < j ? -1 : 1) : strcmp(left, right);
}

// The names of all options of all records except `omit` and the method's name, in label order.
static size_t collect_keys(const struct record *const *records, size_t count, const char *const *omit,
                           const char ***keys)
{
    size_t found = 0, capacity = 0;
    *keys = NULL;
    for (size_t i = 0; i < count; i++) {
        for (void *at = json_object_iter((json_t *)records[i]->trial.method); at;
             at = json_object_iter_next((json_t *)records[i]->trial.method, at)) {
            const char *key = json_object_iter_key(at);
            bool known = strcmp(key, "name") == 0;
            for (size_t k = 0; omit[k]; k++)
                known |= strcmp(omit[k], key) == 0;
            for (size_t k = 0; k < found; k++)
                known |= strcmp((*keys)[k], key) == 0;
            if (known)
                continue;
            if (found == capacity) {
                capacity = capacity ? 2 * capacity : 16;
                *keys = realloc(*keys, capacity * sizeof **keys);
            }
            (*keys)[found++] = key;
        }
    }
    if (found)
        qsort(*keys, found, sizeof **keys, compare_keys);
    return found;
}

struct sorting {
    const char **keys;
    size_t key_count;
    bool prefixed;
};

static int compare_values(const json_t *a, const json_t *b)
{
    if (a == b)
        return 0;
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        return (x > y) - (x < y);
    }
    if (json_equal(a, b))
        return 0;
    double left = method_share_of(a), right = method_share_of(b);
    if (left > 0 && right > 0 && left != right)
        return left < right ? -1 : 1;
    char *x = json_dumps(a, JSON_ENCODE_ANY | JSON_SORT_KEYS), *y = json_dumps(b, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    CHECK(x && y);
    int order = strcmp(x, y);
    free(x);
    free(y);
    return (order > 0) - (order < 0);
}

static int compare_records(const struct record *a, const struct record *b, const char *const *keys,
                           size_t key_count)
{
    const char *left = record_method(a), *right = record_method(b);
    if (a->trial.method == b->trial.method && a->shares == b->shares)
        return 0;
    size_t i = method_rank(left), j = method_rank(right);
    if (i != j)
        return i < j ? -1 : 1;
    int order = strcmp(left, right);
    for (size_t k = 0; order == 0 && k < key_count; k++)
        order = compare_values(record_option(a, keys[k]), record_option(b, keys[k]));
    return order;
}

// Appends an option: "chunk 128", "sampler uniform"; 0 chunks in words.
static void append_option(struct series *series, const char *key, const json_t *value)
{
    const char *comma = *series->label ? ", " : "";
    if (strcmp(key, "chunk") == 0 && json_is_integer(value) && json_integer_value(value) == 0) {
        text_append(series->label, sizeof series->label, "%swhole context", comma);
    } else if (strcmp(key, "budget") == 0 && json_integer_value(value) == 0 && json_is_integer(value)) {
        text_append(series->label, sizeof series->label, "%sfixed chunks", comma);
    } else {
        char *text = named_option_words(value, 6);
        text_append(series->label, sizeof series->label, "%s%s %s", comma, key, text);
        free(text);
    }
}

static const json_t *option_of(const struct series_table *table, size_t series, const char *key)
{
    return record_option(table->series[series].records[0], key);
}

// The first series from `low` on, or `high`, whose option sorts after the value by more than `beyond`: -1 also
// finds the value itself.
static size_t bound(const struct series_table *table, size_t low, size_t high, const char *key, const json_t *value,
                    int beyond)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_values(option_of(table, middle, key), value) > beyond)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// The series of one method, from `first` to before `last`.
struct siblings {
    size_t first, last;
    bool *differs;    // [keys]: some series differ in the option
    bool *named;      // [keys]: some label needs it
    json_t *defaults; // of the method's options; NULL: unknown
};

// Finds the options that distinguish the series from others of its method, given the options before. Series with
// equal earlier options are adjacent, from `first` to before `last`: if the ends have its value, all have.
static void find_told(const struct series_table *table, size_t own, const struct siblings *siblings,
                      const struct sorting *sorting, bool *tells)
{
    const char *const *keys = sorting->keys;
    size_t first = siblings->first, last = siblings->last;
    for (size_t k = 0; k < sorting->key_count; k++) {
        const json_t *value = option_of(table, own, keys[k]);
        bool told = compare_values(option_of(table, first, keys[k]), option_of(table, last - 1, keys[k])) != 0;
        first = told ? bound(table, first, own, keys[k], value, -1) : first;
        last = told ? bound(table, own + 1, last, keys[k], value, 0) : last;
        tells[k] = told;
    }
}

// Labels also include values that are not the default, of options in which series differ; a list, which is long,
// only if another series has one.
static void label(struct series_table *table, size_t own, const struct siblings *siblings,
                  const struct sorting *sorting, bool *told)
{
    struct series *series = &table->series[own];
    if (sorting->prefixed)
        snprintf(series->label, sizeof series->label, "%s", series->method);
    find_told(table, own, siblings, sorting, told);
    for (size_t k = 0; k < sorting->key_count; k++) {
        const char *key = sorting->keys[k];
        const json_t *value = option_of(table, own, key);
        bool other = (json_is_array(value) ? siblings->named[k] : siblings->differs[k]) &&
                     compare_values(value, json_object_get(siblings->defaults, key)) != 0;
        if (value && (told[k] || other || (sorting->prefixed && is_telling(key))))
            append_option(series, key, value);
    }
    if (!series->label[0])
        snprintf(series->label, sizeof series->label, "%s", series->method);
}

// Labels the series of one method from `first` on; returns the end.
static size_t label_siblings(struct series_table *table, size_t first, const struct sorting *sorting)
{
    const struct method *method = method_find(table->series[first].method);
    struct siblings siblings = {.first = first,
                                .last = first + 1,
                                .differs = calloc(sorting->key_count + 1, sizeof *siblings.differs),
                                .named = calloc(sorting->key_count + 1, sizeof *siblings.named),
                                .defaults = method ? method_json(method, NULL) : NULL};
    bool *told = calloc(sorting->key_count + 1, sizeof *told);
    CHECK(siblings.differs && siblings.named && told);
    while (siblings.last < table->count && table->series[siblings.last].rank > 0)
        siblings.last++;
    for (size_t s = first; s < siblings.last; s++) {
        find_told(table, s, &siblings, sorting, told);
        for (size_t k = 0; k < sorting->key_count; k++) {
            const char *key = sorting->keys[k];
            siblings.differs[k] |= compare_values(option_of(table, s, key), option_of(table, first, key)) != 0;
            siblings.named[k] |= told[k];
        }
    }
    for (size_t s = first; s < siblings.last; s++)
        label(table, s, &siblings, sorting, told);
    json_decref(siblings.defaults);
    free(siblings.differs);
    free(siblings.named);
    free(told);
    return siblings.last;
}

struct sorted {
    const struct record *record;
    size_t at;
};

static int compare_sorted(const void *a, const void *b, void *context)
{
    const struct sorted *left = a, *right = b;
    const struct sorting *sorting = context;
    int order = compare_records(left->record, right->record, sorting->keys, sorting->key_count);
    return order ? order : (left->at > right->at) - (left->at < right->at);
}

// Sorts the records by series, keeping their order within each.
static struct sorted *sort_records(const struct record *const *records, size_t count, struct sorting *sorting)
{
    struct sorted *sorted = calloc(count + 1, sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct sorted){records[i], i};
    qsort_r(sorted, count, sizeof *sorted, compare_sorted, sorting);
    return sorted;
}

// Adds the series of the first of these records; returns its number of records.
static size_t add_series(struct series_table *table, const struct sorted *sorted, size_t count,
                         const struct sorting *sorting)
{
    const struct record *first = sorted[0].record;
    struct series *series = &table->series[table->count];
    bool again = table->count > 0 && strcmp(series[-1].method, record_method(first)) == 0;
    *series = (struct series){.method = record_method(first), .rank = again ? series[-1].rank + 1 : 0};
    table->count++;
    while (series->record_count < count &&
           compare_records(sorted[series->record_count].record, first, sorting->keys, sorting->key_count) == 0)
        series->record_count++;
    series->records = calloc(series->record_count, sizeof(const struct record *));
    for (size_t i = 0; i < series->record_count; i++)
        series->records[i] = sorted[i].record;
    return series->record_count;
}

void series_make(struct series_table *table, const struct record *const *records, size_t count,
                 const char *const *omit, bool prefixed)
{
    struct sorting sorting = {.prefixed = prefixed};
    sorting.key_count = collect_keys(records, count, omit, &sorting.keys);
    struct sorted *sorted = sort_records(records, count, &sorting);
    *table = (struct series_table){.series = calloc(count + 1, sizeof *table->series)};
    CHECK(table->series);
    for (size_t i = 0; i < count;)
        i += add_series(table, sorted + i, count - i, &sorting);
    for (size_t s = 0; s < table->count;)
        s = label_siblings(table, s, &sorting);
    free(sorted);
    free(sorting.keys);
}

void series_free(struct series_table *table)
{
    for (size_t s = 0; s < table->count; s++)
        free(table->series[s].records);
    free(table->series);
    *table = (struct series_table){0};
}
