#define _GNU_SOURCE // asprintf
#include "harness/table/record_filter.h"
#include "harness/table/record_columns.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include "harness/text/word_list.h"
#include "methods/method.h"
#include <string.h>

struct condition {
    const char *text; // "context=1024,2048"
    char *name;       // owned
    struct record_column column;
    char **values; // [value_count], owned: "1024", or "[0,3]"
    size_t value_count;
    json_t *other; // values of records that do not meet it: {"512": null}
};

enum { VALUES_TOLD = 12 };

// A list or an object as text, to be freed.
static char *json_words(const json_t *value)
{
    char *words = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    CHECK(words);
    return words;
}

// Tells whether the word is the value's text, ignoring spaces.
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

// Notes a value as users would write it.
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

// The method option of the column; NULL: another column.
static const struct option *option_of(const struct record_column *column)
{
    const char *const *keys = column->path.keys;
    bool option = keys[0] && keys[1] && keys[2] && !keys[3] && strcmp(keys[0], "trial") == 0 &&
                  strcmp(keys[1], "method") == 0;
    return option ? methods_option_find(keys[2]) : NULL;
}

// The share, "25%", given for the method option; NULL: none.
static const json_t *share_in(const struct record_column *column, const struct record *record)
{
    return option_of(column) ? json_object_get(record->shares, column->path.keys[2]) : NULL;
}

static bool is_value(const json_t *value, const json_t *share, const char *word)
{
    return is_word(value, word) || (share && is_word(share, word));
}

static bool holds(void *chooser, const struct record *record)
{
    const struct condition *condition = chooser;
    json_t *value = record_column_value(&condition->column, record);
    const json_t *share = share_in(&condition->column, record);
    bool found = false;
    for (size_t i = 0; !found && i < condition->value_count; i++)
        found = is_value(value, share, condition->values[i]);
    if (!found)
        note_value(condition->other, share ? share : value);
    json_decref(value);
    return found;
}

// --- messages

// "full, seco, ...": the records' values.
struct values_there {
    char text[600];
};

static struct values_there values_there(const json_t *values)
{
    struct values_there there = {.text = ""};
    const char *value;
    json_t *unused;
    size_t told = 0;
    json_object_foreach((json_t *)values, value, unused)
    {
        if (told < VALUES_TOLD && strlen(there.text) + 50 < sizeof there.text)
            text_append(there.text, sizeof there.text, "%s%.40s", told++ ? ", " : "", value);
    }
    if (told < json_object_size(values))
        text_append(there.text, sizeof there.text, ", ...");
    return there;
}

// Reports the condition that leaves none of `count` records.
static bool tell_none(const struct condition *condition, size_t count, struct status *status)
{
    return status_set(status, STATUS_BAD_INPUT, "--where %.100s: none of these %zu records; \"%.60s\" is %s there",
                      condition->text, count, condition->name, values_there(condition->other).text);
}

// Reports a value of a list that no record has.
static bool tell_unknown(const struct condition *condition, const char *value, const struct results *results,
                         struct status *status)
{
    json_t *values = json_object();
    for (size_t i = 0; i < results->count; i++) {
        const json_t *share = share_in(&condition->column, results->records[i]);
        json_t *own = record_column_value(&condition->column, results->records[i]);
        note_value(values, share ? share : own);
        json_decref(own);
    }
    status_set(status, STATUS_BAD_INPUT,
               "--where %.100s: none of these %zu records has \"%.60s\"; \"%.60s\" is %s there", condition->text,
               results->count, value, condition->name, values_there(values).text);
    json_decref(values);
    return false;
}

// Tells whether a value of a list is a condition itself, "chunk=512".
static bool is_condition(const struct record_columns *columns, const char *value)
{
    size_t bytes = strcspn(value, "=");
    char *name = value[bytes] ? strndup(value, bytes) : NULL;
    struct record_column column;
    struct status ignored = {0};
    bool found = name && record_columns_find(columns, "--where", name, &column, &ignored) && !column.figure;
    free(name);
    return found;
}

static bool tell_several(const struct condition *condition, const struct record_columns *columns,
                         struct status *status)
{
    char apart[400] = "";
    text_append(apart, sizeof apart, "--where %s=", condition->name);
    for (size_t i = 0; i < condition->value_count; i++) {
        bool own = i && is_condition(columns, condition->values[i]);
        text_append(apart, sizeof apart, "%s%s", own ? " --where " : i ? "," : "", condition->values[i]);
    }
    return status_set(status, STATUS_BAD_INPUT, "--where %.100s: each condition takes its own --where: `%s`",
                      condition->text, apart);
}

// --- conditions

static void read_values(struct condition *condition, const char *list)
{
    condition->values = calloc(strlen(list) + 1, sizeof *condition->values);
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = at + word_list_first(at);
        char *value = condition->values[condition->value_count++] = strndup(at, (size_t)(end - at));
        CHECK(value);
    }
}

static bool has_numbers(const struct record_column *column, const struct results *results)
{
    bool numbers = false;
    for (size_t i = 0; !numbers && i < results->count; i++) {
        json_t *value = record_column_value(column, results->records[i]);
        numbers = json_is_number(value);
        json_decref(value);
    }
    return numbers;
}

// Converts "32K" of tokens to records' "32768"; refused for other numbers.
static bool read_tokens(struct condition *condition, const struct results *results, struct status *status)
{
    const struct record_column *column = &condition->column;
    const struct option *option = option_of(column);
    bool tokens = option ? option->tokens : column->unit && strcmp(column->unit, "tokens") == 0;
    for (size_t i = 0; i < condition->value_count; i++) {
        size_t count;
        char **value = &condition->values[i];
        if (!size_parse_tokens(*value, &count))
            continue;
        if (!tokens && has_numbers(column, results))
            return status_set(status, STATUS_BAD_INPUT,
                              "--where %.100s: K and M count tokens, but \"%.60s\" does not; give the number",
                              condition->text, condition->name);
        if (!tokens)
            continue;
        free(*value);
        CHECK(asprintf(value, "%zu", count) > 0);
    }
    return true;
}

static bool read_condition(struct condition *condition, const struct record_columns *columns, const char *text,
                           const struct results *results, struct status *status)
{
    size_t bytes = strcspn(text, "=");
    *condition = (struct condition){.text = text, .name = strndup(text, bytes), .other = json_object()};
    CHECK(condition->name && condition->other);
    if (text[bytes] != '=')
        return status_set(status, STATUS_BAD_INPUT,
                          "--where: expected KEY=VALUE, such as method=seco, found \"%.60s\"", text);
    if (!record_columns_find(columns, "--where", condition->name, &condition->column, status))
        return false;
    if (condition->column.figure)
        return status_set(status, STATUS_BAD_INPUT,
                          "--where: \"%.60s\" is a column of tables, not a field of records; use a field",
                          condition->name);
    read_values(condition, text + bytes + 1);
    return read_tokens(condition, results, status);
}

static void free_condition(struct condition *condition)
{
    for (size_t i = 0; i < condition->value_count; i++)
        free(condition->values[i]);
    free(condition->values);
    free(condition->name);
    json_decref(condition->other);
}

// Marks the values of the list that some record has; returns their number.
static size_t find_values(const struct condition *condition, const struct results *results, bool *found)
{
    size_t count = 0;
    for (size_t r = 0; count < condition->value_count && r < results->count; r++) {
        json_t *value = record_column_value(&condition->column, results->records[r]);
        const json_t *share = share_in(&condition->column, results->records[r]);
        for (size_t i = 0; i < condition->value_count; i++)
            if (!found[i] && is_value(value, share, condition->values[i])) {
                found[i] = true;
                count++;
            }
        json_decref(value);
    }
    return count;
}

// A status that no trial has is accepted, because scripts query every kind of failure.
static bool is_status(const struct condition *condition, const char *value)
{
    return strcmp(condition->name, "status") == 0 && record_status_from_name(value) < RECORD_STATUS_COUNT;
}

// Checks that some record has each value of a list, whatever the other conditions; if none has any, the condition
// selects nothing. unknown: also reports a single value that is no other condition.
static bool check_list(const struct condition *condition, const struct results *results,
                       const struct record_columns *columns, bool unknown, struct status *status)
{
    if (condition->value_count < 2)
        return true;
    bool *found = calloc(condition->value_count, sizeof *found), fine = true;
    size_t count = find_values(condition, results, found);
    for (size_t i = 1; fine && i < condition->value_count; i++)
        if (!found[i] && is_condition(columns, condition->values[i]))
            fine = tell_several(condition, columns, status);
    for (size_t i = 0; fine && unknown && count && i < condition->value_count; i++)
        if (!found[i] && !is_status(condition, condition->values[i]))
            fine = tell_unknown(condition, condition->values[i], results, status);
    free(found);
    return fine;
}

// some: reports a condition that leaves no record.
static bool filter(struct results *results, const char *const *texts, size_t count, bool some,
                   struct status *status)
{
    if (count == 0)
        return true;
    struct record_columns columns;
    record_columns_open(&columns, results);
    struct condition *conditions = calloc(count, sizeof *conditions);
    bool fine = true;
    for (size_t i = 0; fine && i < count; i++)
        fine = read_condition(&conditions[i], &columns, texts[i], results, status) &&
               check_list(&conditions[i], results, &columns, some, status);
    for (size_t i = 0; fine && i < count; i++) {
        size_t before = results->count;
        results_keep(results, holds, &conditions[i]);
        if (some && before && !results->count)
            fine = tell_none(&conditions[i], before, status);
    }
    for (size_t i = 0; i < count; i++)
        free_condition(&conditions[i]);
    free(conditions);
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
