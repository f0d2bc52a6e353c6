#include "harness/results/record_filter.h"
#include "harness/results/record_columns.h"
#include <string.h>

struct condition {
    struct record_column column;
    const char *values; // "1024,2048"
};

static bool is_word(const json_t *value, const char *word)
{
    char *end;
    double number = strtod(word, &end);
    if (json_is_object(value))
        value = json_object_get(value, "name");
    if (json_is_string(value))
        return strcmp(json_string_value(value), word) == 0;
    if (json_is_number(value))
        return *word && !*end && json_number_value(value) == number;
    if (json_is_boolean(value))
        return strcmp(word, json_is_true(value) ? "true" : "false") == 0;
    return (!value || json_is_null(value)) && strcmp(word, "null") == 0;
}

static bool holds(void *chooser, const struct record *record)
{
    const struct condition *condition = chooser;
    json_t *value = record_column_value(&condition->column, record);
    char *copy = strdup(condition->values), *rest = copy, *word;
    bool found = false;
    CHECK(copy);
    while (!found && (word = strsep(&rest, ",")))
        found = is_word(value, word);
    free(copy);
    json_decref(value);
    return found;
}

static bool apply(struct results *results, const struct record_columns *columns, const char *condition,
                  struct status *status)
{
    size_t bytes = strcspn(condition, "=");
    char *name = strndup(condition, bytes);
    CHECK(name);
    struct condition chosen = {.values = condition + bytes + 1};
    bool fine = condition[bytes] == '=' ||
                status_set(status, STATUS_BAD_INPUT,
                           "--where: expected KEY=VALUE, such as method=seco, found \"%.60s\"", condition);
    fine = fine && record_columns_find(columns, "--where", name, &chosen.column, status);
    if (fine && chosen.column.figure)
        fine = status_set(status, STATUS_BAD_INPUT,
                          "--where: \"%.60s\" is of a table, not of a record; take a field", name);
    if (fine)
        results_keep(results, holds, &chosen);
    free(name);
    return fine;
}

bool record_filter(struct results *results, const char *const *conditions, size_t count, struct status *status)
{
    if (count == 0)
        return true;
    struct record_columns columns;
    record_columns_open(&columns, results);
    bool fine = true;
    for (size_t i = 0; fine && i < count; i++)
        fine = apply(results, &columns, conditions[i], status);
    record_columns_close(&columns);
    return fine;
}
