#include "kernels/base/options.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>

const struct option *option_find(const struct option_table *table, const char *name)
{
    for (const struct option *option = table->rows; option && option->name; option++)
        if (strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

const struct option *option_draws(const struct option_table *table)
{
    const struct option *option = table->rows;
    while (option && option->name && !option->draws)
        option++;
    return option && option->name ? option : NULL;
}

static void *value_of(const struct option *option, void *options)
{
    return (char *)options + option->offset;
}

void *options_new(const struct option_table *table)
{
    void *options = calloc(1, table->bytes);
    CHECK(options);
    for (const struct option *option = table->rows; option && option->name; option++) {
        void *value = value_of(option, options);
        switch (option->type) {
        case OPTION_COUNT:
            *(size_t *)value = (size_t)option->initial;
            break;
        case OPTION_NUMBER:
            *(double *)value = option->initial;
            break;
        case OPTION_CHOICE:
            *(int *)value = (int)option->initial;
            break;
        case OPTION_LIST:
        case OPTION_WORDS:
            break; // empty
        }
    }
    return options;
}

size_t option_on_card(double card_rows, size_t initial, size_t batch)
{
    size_t tokens = 1;
    while ((double)(2 * tokens * batch) <= card_rows)
        tokens *= 2;
    return tokens > initial ? tokens : initial;
}

void options_suit_card(const struct option_table *table, void *options, size_t batch)
{
    for (const struct option *option = table->rows; option && option->name; option++) {
        if (option->card_rows > 0) {
            *(size_t *)value_of(option, options) =
                option_on_card(option->card_rows, (size_t)option->initial, batch);
        }
    }
}

void *options_copy(const struct option_table *table, const void *options)
{
    void *copy = malloc(table->bytes);
    CHECK(copy);
    memcpy(copy, options, table->bytes);
    for (const struct option *option = table->rows; option && option->name; option++) {
        if (option->type == OPTION_LIST) {
            struct index_list *list = value_of(option, copy);
            *list = index_list_copy(list);
        }
    }
    return copy;
}

void options_free(const struct option_table *table, void *options)
{
    for (const struct option *option = table->rows; options && option && option->name; option++)
        if (option->type == OPTION_LIST)
            index_list_free(value_of(option, options));
    free(options);
}

size_t options_count(const struct option_table *table, const void *options, const char *name, size_t otherwise)
{
    const struct option *option = option_find(table, name);
    bool count = option && option->type == OPTION_COUNT;
    return count ? *(const size_t *)((const char *)options + option->offset) : otherwise;
}

double options_number(const struct option_table *table, const void *options, const char *name, double otherwise)
{
    const struct option *option = option_find(table, name);
    const void *value = option ? (const char *)options + option->offset : NULL;
    return option && option->type == OPTION_NUMBER ? *(const double *)value : otherwise;
}

int options_choice(const struct option_table *table, const void *options, const char *name, int otherwise)
{
    const struct option *option = option_find(table, name);
    bool choice = option && option->type == OPTION_CHOICE;
    return choice ? *(const int *)((const char *)options + option->offset) : otherwise;
}

unsigned options_words(const struct option_table *table, const void *options, const char *name)
{
    const struct option *option = option_find(table, name);
    bool words = option && option->type == OPTION_WORDS;
    return words ? *(const unsigned *)((const char *)options + option->offset) : 0;
}

// The number of the choices if none is the word.
static size_t choice_find(const struct option *option, const char *word, size_t bytes)
{
    size_t i = 0;
    while (option->choices[i] && (strncmp(option->choices[i], word, bytes) || option->choices[i][bytes]))
        i++;
    return i;
}

bool option_offers(const struct option *option, const char *word)
{
    return option && option->choices && option->choices[choice_find(option, word, strlen(word))];
}

static bool is_within(const struct option *option, double value)
{
    return value >= option->minimum && value <= option->maximum;
}

static bool set_list(const struct option *option, struct index_list *list, const char *value)
{
    index_list_resize(list, 0);
    while (*value) {
        char *end;
        unsigned long long item = strtoull(value, &end, 10);
        if (end == value || (*end && *end != ',') || !is_within(option, (double)item))
            return false;
        index_list_resize(list, list->count + 1);
        list->items[list->count - 1] = (uint32_t)item;
        value = *end ? end + 1 : end;
    }
    return true;
}

static bool set_words(const struct option *option, unsigned *words, const char *value)
{
    *words = 0;
    for (bool more = strcmp(value, "none") != 0; more;) {
        size_t bytes = strcspn(value, ","), i = choice_find(option, value, bytes);
        if (!option->choices[i] || *words >> i & 1)
            return false;
        *words |= 1U << i;
        more = value[bytes] == ',';
        value += bytes + more;
    }
    return true;
}

bool options_set(const struct option_table *table, void *options, const char *name, const char *value)
{
    const struct option *option = option_find(table, name);
    char *end = NULL;
    if (!option)
        return false;
    void *place = value_of(option, options);
    switch (option->type) {
    case OPTION_COUNT:
        *(size_t *)place = strtoull(value, &end, 10);
        return *value && !*end && is_within(option, (double)*(size_t *)place);
    case OPTION_NUMBER:
        *(double *)place = strtod(value, &end);
        return *value && !*end && is_within(option, *(double *)place);
    case OPTION_CHOICE:
        *(int *)place = (int)choice_find(option, value, strlen(value));
        return option->choices[*(int *)place];
    case OPTION_LIST:
        return set_list(option, place, value);
    case OPTION_WORDS:
        return set_words(option, place, value);
    }
    return false;
}
