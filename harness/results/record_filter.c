#include "harness/results/record_filter.h"
#include "harness/files/word_list.h"
#include "harness/results/record_columns.h"
#include <string.h>

struct condition {
    struct record_column column;
    const char *values; // "1024,2048" or "[0,3],[1,2]"
    json_t *other;      // what records have that do not meet it: {"512": null}
};

enum { VALUES_TOLD = 12 };

// A list or an object as it is told: to be freed.
static char *json_words(const json_t *value)
{
    char *words = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    CHECK(words);
    return words;
}

// Whether they are told alike, however the word is spaced.
static bool is_told(const json_t *value, const char *word)
{
    json_t *asked = json_loads(word, 0, NULL);
    char *words = json_words(value), *other = asked ? json_words(asked) : NULL;
    bool same = other && strcmp(words, other) == 0;
    free(other);
    free(words);
    json_decref(asked);
    return same;
}

static bool is_word(const json_t *value, const char *word)
{
    char *end;
    double number = strtod(word, &end);
    if (json_is_object(value) && json_object_get(value, "name"))
        value = json_object_get(value, "name");
    if (json_is_string(value))
        return strcmp(json_string_value(value), word) == 0;
    if (json_is_number(value))
        return *word && !*end && json_number_value(value) == number;
    if (json_is_boolean(value))
        return strcmp(word, json_is_true(value) ? "true" : "false") == 0;
    if (json_is_array(value) || json_is_object(value))
        return is_told(value, word);
    return strcmp(word, "null") == 0;
}

// As it would be asked for.
static void note_value(json_t *noted, const json_t *value)
{
    if (json_object_size(noted) > VALUES_TOLD)
        return;
    if (json_is_object(value) && json_object_get(value, "name"))
        value = json_object_get(value, "name");
    char *text = !value                  ? strdup("null")
                 : json_is_string(value) ? strdup(json_string_value(value))
                                         : json_words(value);
    CHECK(text);
    json_object_set_new(noted, text, json_null());
    free(text);
}

// Of an option of the method what was asked for as a share, "25%"; else NULL.
static const json_t *share_in(const struct record_column *column, const struct record *record)
{
    const json_t *path = column->path;
    bool option = json_array_size(path) == 3 && is_word(json_array_get(path, 0), "trial") &&
                  is_word(json_array_get(path, 1), "method");
    return option ? json_object_get(record->shares, json_string_value(json_array_get(path, 2))) : NULL;
}

static bool holds(void *chooser, const struct record *record)
{
    const struct condition *condition = chooser;
    json_t *value = record_column_value(&condition->column, record);
    const json_t *share = share_in(&condition->column, record);
    bool found = false;
    for (const char *at = condition->values, *end; !found && at; at = *end ? end + 1 : NULL) {
        end = at + word_list_first(at);
        char *word = strndup(at, (size_t)(end - at));
        CHECK(word);
        found = is_word(value, word) || (share && is_word(share, word));
        free(word);
    }
    if (!found)
        note_value(condition->other, share ? share : value);
    json_decref(value);
    return found;
}

// The condition that left none of so many records.
static void tell_none(const char *text, const char *name, const struct condition *condition, size_t count,
                      struct status *status)
{
    char there[600] = "";
    const char *value;
    json_t *unused;
    size_t told = 0;
    json_object_foreach(condition->other, value, unused)
    {
        size_t used = strlen(there);
        if (told < VALUES_TOLD && used + 50 < sizeof there)
            snprintf(there + used, sizeof there - used, "%s%.40s", told++ ? ", " : "", value);
    }
    status_set(status, STATUS_BAD_INPUT, "--where %.100s: none of these %zu records; \"%.60s\" is %s%s there", text,
               count, name, there, told < json_object_size(condition->other) ? ", ..." : "");
}

// None: it is told where a condition leaves no record of those that there were.
static bool apply(struct results *results, const struct record_columns *columns, const char *condition, bool none,
                  struct status *status)
{
    size_t bytes = strcspn(condition, "=");
    char *name = strndup(condition, bytes);
    CHECK(name);
    struct condition chosen = {.values = condition + bytes + 1, .other = json_object()};
    size_t count = results->count;
    CHECK(chosen.other);
    bool fine = condition[bytes] == '=' ||
                status_set(status, STATUS_BAD_INPUT,
                           "--where: expected KEY=VALUE, such as method=seco, found \"%.60s\"", condition);
    fine = fine && record_columns_find(columns, "--where", name, &chosen.column, status);
    if (fine && chosen.column.figure)
        fine = status_set(status, STATUS_BAD_INPUT,
                          "--where: \"%.60s\" is of a table, not of a record; take a field", name);
    if (fine)
        results_keep(results, holds, &chosen);
    if (fine && none && count && !results->count) {
        tell_none(condition, name, &chosen, count, status);
        fine = false;
    }
    json_decref(chosen.other);
    free(name);
    return fine;
}

static bool filter(struct results *results, const char *const *conditions, size_t count, bool none,
                   struct status *status)
{
    if (count == 0)
        return true;
    struct record_columns columns;
    record_columns_open(&columns, results);
    bool fine = true;
    for (size_t i = 0; fine && i < count; i++)
        fine = apply(results, &columns, conditions[i], none, status);
    record_columns_close(&columns);
    return fine;
}

bool record_filter(struct results *results, const char *const *conditions, size_t count, struct status *status)
{
    return filter(results, conditions, count, false, status);
}

bool record_filter_some(struct results *results, const char *const *conditions, size_t count, struct status *status)
{
    return filter(results, conditions, count, true, status);
}
