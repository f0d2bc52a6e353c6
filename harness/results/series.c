#include "harness/results/series.h"
#include "kernels/base/status.h"
#include "methods/method.h"
#include <string.h>

static size_t method_rank(const char *name)
{
    size_t rank = 0;
    while (methods[rank] && strcmp(methods[rank]->name, name) != 0) {
        rank++;
    }
    return rank;
}

// The place of an option in a label: where the method with the most options that has it has it in its table; those
// that no method has come last.
static size_t key_rank(const char *key)
{
    size_t rank = SIZE_MAX, most = 0;
    for (size_t i = 0; methods[i]; i++) {
        const struct option *rows = methods[i]->options.rows, *own = option_find(&methods[i]->options, key);
        size_t count = 0;
        while (rows[count].name) {
            count++;
        }
        if (own && count > most) {
            most = count;
            rank = (size_t)(own - rows);
        }
    }
    return rank;
}

// Whether a label that begins with the method's name has the option even if it tells no series apart.
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

// The names of all options of all records but `omit` and the method's name, in the order of labels.
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
            for (size_t k = 0; omit[k]; k++) {
                known |= strcmp(omit[k], key) == 0;
            }
            for (size_t k = 0; k < found; k++) {
                known |= strcmp((*keys)[k], key) == 0;
            }
            if (known) {
                continue;
            }
            if (found == capacity) {
                capacity = capacity ? 2 * capacity : 16;
                *keys = realloc(*keys, capacity * sizeof **keys);
                CHECK(*keys);
            }
            (*keys)[found++] = key;
        }
    }
    if (found) {
        qsort(*keys, found, sizeof **keys, compare_keys);
    }
    return found;
}

static int compare_values(const json_t *a, const json_t *b)
{
    if (!a || !b) {
        return (a != NULL) - (b != NULL);
    }
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        return (x > y) - (x < y);
    }
    if (json_equal(a, b)) {
        return 0;
    }
    char *x = json_dumps(a, JSON_ENCODE_ANY | JSON_SORT_KEYS), *y = json_dumps(b, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    CHECK(x && y);
    int order = strcmp(x, y);
    free(x);
    free(y);
    return order;
}

static int compare_records(const struct record *a, const struct record *b, const char *const *keys,
                           size_t key_count)
{
    const char *left = record_method(a), *right = record_method(b);
    size_t i = method_rank(left), j = method_rank(right);
    if (i != j) {
        return i < j ? -1 : 1;
    }
    int order = strcmp(left, right);
    for (size_t k = 0; order == 0 && k < key_count; k++) {
        order = compare_values(record_option(a, keys[k]), record_option(b, keys[k]));
    }
    return order;
}

// Appends one option: "chunk 128", "sampler uniform".
static void append_option(struct series *series, const char *key, const json_t *value)
{
    size_t used = strlen(series->label);
    char *end = series->label + used;
    size_t room = sizeof series->label - used;
    const char *comma = used ? ", " : "";
    if (json_is_string(value)) {
        snprintf(end, room, "%s%s %s", comma, key, json_string_value(value));
    } else if (strcmp(key, "chunk") == 0 && json_integer_value(value) == 0) {
        snprintf(end, room, "%swhole context", comma);
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        CHECK(text);
        snprintf(end, room, "%s%s %s", comma, key, text);
        free(text);
    }
}

// Shows an option where the options before it do not yet tell the series from another one of its method.
static void label(struct series_table *table, struct series *series, const char *const *keys, size_t key_count,
                  bool prefixed)
{
    const struct record *own = series->records[0];
    if (prefixed) {
        snprintf(series->label, sizeof series->label, "%s", series->method);
    }
    for (size_t k = 0; k < key_count; k++) {
        const json_t *value = record_option(own, keys[k]);
        bool shown = prefixed && is_telling(keys[k]);
        for (size_t s = 0; value && !shown && s < table->count; s++) {
            const struct record *other = table->series[s].records[0];
            shown = strcmp(record_method(other), series->method) == 0 &&
                    compare_records(own, other, keys, k) == 0 &&
                    compare_values(value, record_option(other, keys[k])) != 0;
        }
        if (value && shown) {
            append_option(series, keys[k], value);
        }
    }
    if (!series->label[0]) {
        snprintf(series->label, sizeof series->label, "%s", series->method);
    }
}

void series_make(struct series_table *table, const struct record *const *records, size_t count,
                 const char *const *omit, bool prefixed)
{
    const char **keys;
    size_t key_count = collect_keys(records, count, omit, &keys);
    *table = (struct series_table){.series = calloc(count + 1, sizeof *table->series)};
    CHECK(table->series);
    for (size_t i = 0; i < count; i++) {
        // The place among the series found so far, which are sorted.
        size_t at = 0;
        int order = 1;
        while (at < table->count &&
               (order = compare_records(records[i], table->series[at].records[0], keys, key_count)) > 0) {
            at++;
        }
        if (at == table->count || order < 0) {
            memmove(table->series + at + 1, table->series + at, (table->count - at) * sizeof *table->series);
            table->series[at] = (struct series){.method = record_method(records[i])};
            table->count++;
        }
        struct series *series = &table->series[at];
        series->records = realloc(series->records, (series->record_count + 1) * sizeof *series->records);
        CHECK(series->records);
        series->records[series->record_count++] = records[i];
    }
    for (size_t s = 0; s < table->count; s++) {
        struct series *series = &table->series[s];
        bool again = s > 0 && strcmp(table->series[s - 1].method, series->method) == 0;
        series->rank = again ? table->series[s - 1].rank + 1 : 0;
        label(table, series, keys, key_count, prefixed);
    }
    free(keys);
}

void series_free(struct series_table *table)
{
    for (size_t s = 0; s < table->count; s++) {
        free(table->series[s].records);
    }
    free(table->series);
    *table = (struct series_table){0};
}
