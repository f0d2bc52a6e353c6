#include "harness/json/named_options.h"
#include <string.h>

void named_tables_add(struct named_tables *tables, const char *name, const struct option_table *table)
{
    CHECK(tables->count < NAMED_MAX);
    tables->names[tables->count] = name;
    tables->tables[tables->count++] = table;
}

// Lists the names whose option offers the choice, as "seco, spaco"; choice NULL: that have the option.
static void list_offering(const struct named_tables *tables, const char *option, const char *choice, char *text,
                          size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < tables->count && used < bytes; i++) {
        const struct option *own = option_find(tables->tables[i], option);
        if (own && (!choice || option_offers(own, choice)))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", tables->names[i]);
    }
}

void named_tables_knowing(const struct named_tables *tables, const char *option, char *text, size_t bytes)
{
    list_offering(tables, option, NULL, text, bytes);
}

static bool unknown_option(struct json_field entry, const struct named_tables *tables, size_t index,
                           const char *key, struct status *status)
{
    const char *name = tables->names[index];
    struct json_path path = json_path_key(entry.path, key);
    char hint[640];
    named_tables_knowing(tables, key, hint, sizeof hint);
    if (*hint)
        return json_source_error(entry.source, path, JSON_KEY, status,
                                 "%s \"%s\" has no such option; %ss that have it: %s", tables->kind, name,
                                 tables->kind, hint);
    struct names known = {1, {"name"}};
    const struct option *rows = tables->tables[index]->rows;
    for (const struct option *option = rows; option && option->name; option++)
        names_add(&known, option->name);
    names_hint(&known, key, "known keys", hint, sizeof hint);
    return json_source_error(entry.source, path, JSON_KEY, status, "unknown key of %s \"%s\"; %s", tables->kind,
                             name, hint);
}

static bool read_name(struct named_options *given, const struct named_tables *tables, struct status *status)
{
    struct names known = {0};
    for (size_t i = 0; i < tables->count; i++)
        names_add(&known, tables->names[i]);
    bool object = json_is_object(given->entry.value);
    struct json_field name = object ? json_field_get(given->entry, "name") : given->entry;
    char hint[640], plural[64];
    if (!name.value && tables->required) {
        snprintf(plural, sizeof plural, "%ss", tables->kind);
        names_hint(&known, NULL, plural, hint, sizeof hint);
        return json_field_fail(name, status, "missing; %s", hint);
    }
    if (name.value && !object && !json_is_string(name.value))
        return json_field_expected(given->entry, status, "%s %s: %s, or its name",
                                   strchr("aeiou", tables->kind[0]) ? "an" : "a", tables->kind, tables->example);
    return json_field_choice(name, &known, tables->kind, &given->index, status);
}

// Refuses a choice that other names offer for the option and this one does not.
static bool is_own_choice(struct json_field field, const struct named_tables *tables, size_t index,
                          const struct option *option, struct status *status)
{
    const char *choice = json_string_value(field.value);
    char others[640], shown[64];
    if (!choice || option_offers(option, choice))
        return true;
    list_offering(tables, option->name, choice, others, sizeof others);
    if (!*others)
        return true; // no name offers it: reading the value lists the choices
    json_source_show(field.value, shown, sizeof shown);
    return json_field_fail(field, status, "%s \"%s\" has no %s %s; %ss that have it: %s", tables->kind,
                           tables->names[index], option->name, shown, tables->kind, others);
}

bool named_options_read(struct named_options *given, const struct named_tables *tables, struct json_field entry,
                        struct status *status)
{
    *given = (struct named_options){.entry = entry};
    if (!read_name(given, tables, status))
        return false;
    const struct option_table *table = tables->tables[given->index];
    const char *key;
    json_t *value;
    if (!json_is_object(entry.value))
        return true;
    json_object_foreach(entry.value, key, value)
    {
        if (strcmp(key, "name") && !option_find(table, key))
            return unknown_option(entry, tables, given->index, key, status);
    }
    for (size_t i = 0; table->rows && table->rows[i].name; i++) {
        CHECK(i < NAMED_OPTIONS_MAX);
        given->options[i] = json_field_get(entry, table->rows[i].name);
        if (!is_own_choice(given->options[i], tables, given->index, &table->rows[i], status))
            return false;
        for (size_t k = 0; k < json_array_size(given->options[i].value); k++)
            if (!is_own_choice(json_field_at(given->options[i], k), tables, given->index, &table->rows[i], status))
                return false;
    }
    return true;
}

bool named_options_set(const struct named_options *given, const struct option_table *table, void *options,
                       struct status *status)
{
    for (size_t i = 0; table->rows && table->rows[i].name; i++)
        if (!named_option_set(given->options[i], &table->rows[i], options, status))
            return false;
    return true;
}

static bool read_count(struct json_field field, const struct option *option, size_t *value, struct status *status)
{
    bool bounded = option->maximum > 0 && option->maximum < 0x1p53;
    size_t maximum = bounded ? (size_t)option->maximum : JSON_INTEGER_MAX;
    char unit[128];
    if (!field.value)
        return true;
    snprintf(unit, sizeof unit, " (%s)", option->help);
    return (option->tokens ? json_field_tokens : json_field_count)(field, (size_t)option->minimum, maximum, unit,
                                                                   value, status);
}

static bool read_list(struct json_field field, const struct option *option, struct index_list *list,
                      struct status *status)
{
    size_t minimum = (size_t)option->minimum, maximum = (size_t)option->maximum;
    if (!field.value)
        return true;
    if (!json_is_array(field.value))
        return json_field_expected(field, status, "a list of whole numbers");
    size_t count = json_array_size(field.value);
    if (count > maximum - minimum + 1) // a list has each value once
        return json_field_expected(field, status, "a list of at most %zu whole numbers", maximum - minimum + 1);
    index_list_resize(list, count);
    for (size_t i = 0; i < count; i++) {
        struct json_field item = json_field_at(field, i);
        size_t number = 0;
        if (!json_field_count(item, minimum, maximum, "", &number, status))
            return false;
        if (i > 0 && number <= list->items[i - 1])
            return json_field_expected(item, status, "a number above the one before it (%u), each once",
                                       list->items[i - 1]);
        list->items[i] = (uint32_t)number;
    }
    return true;
}

static bool read_words(struct json_field field, const struct option *option, unsigned *words, struct status *status)
{
    if (field.value && !json_is_array(field.value))
        return json_field_expected(field, status, "a list of words, such as [\"%s\"]", option->choices[0]);
    *words = field.value ? 0 : *words;
    for (size_t i = 0; i < json_array_size(field.value); i++) {
        struct json_field item = json_field_at(field, i);
        int word = 0;
        if (!json_field_enum(item, option->choices, option->name, &word, status))
            return false;
        if (*words >> word & 1)
            return json_field_expected(item, status, "each word once");
        *words |= 1U << word;
    }
    return true;
}

bool named_option_set(struct json_field field, const struct option *option, void *options, struct status *status)
{
    void *value = (char *)options + option->offset;
    switch (option->type) {
    case OPTION_COUNT:
        return read_count(field, option, value, status);
    case OPTION_NUMBER:
        return json_field_number(field, option->minimum, option->maximum, value, status);
    case OPTION_CHOICE:
        return json_field_enum(field, option->choices, option->name, value, status);
    case OPTION_LIST:
        return read_list(field, option, value, status);
    case OPTION_WORDS:
        return read_words(field, option, value, status);
    }
    return false;
}

static json_t *option_json(const struct option *option, const void *options)
{
    const void *value = (const char *)options + option->offset;
    const struct index_list *list = value;
    json_t *array;
    switch (option->type) {
    case OPTION_COUNT:
        return json_integer((json_int_t) * (const size_t *)value);
    case OPTION_NUMBER:
        return json_real(*(const double *)value);
    case OPTION_CHOICE:
        return json_string(option->choices[*(const int *)value]);
    case OPTION_LIST:
        array = json_array();
        for (size_t i = 0; i < list->count; i++)
            json_array_append_new(array, json_integer(list->items[i]));
        return array;
    case OPTION_WORDS:
        array = json_array();
        for (size_t i = 0; option->choices[i]; i++)
            if (*(const unsigned *)value >> i & 1)
                json_array_append_new(array, json_string(option->choices[i]));
        return array;
    }
    return NULL;
}

char *named_option_words(const json_t *value, size_t digits)
{
    if (json_is_string(value))
        return strdup(json_string_value(value));
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(digits)), *end = text;
    if (!json_is_string(json_array_get(value, 0)))
        return text;
    for (const char *c = text; *c; c++)
        if (!strchr("[]\"", *c))
            *end++ = *c;
    *end = 0;
    return text;
}

json_t *named_options_json(const char *name, const struct option_table *table, const void *options)
{
    json_t *json = json_object();
    void *defaults = options_new(table);
    json_object_set_new(json, "name", json_string(name));
    for (const struct option *option = table->rows; option && option->name; option++) {
        json_t *value = option_json(option, options ? options : defaults);
        json_t *unsaid = option->unsaid ? option_json(option, defaults) : NULL;
        if (!unsaid || !json_equal(value, unsaid))
            json_object_set(json, option->name, value);
        json_decref(unsaid);
        json_decref(value);
    }
    options_free(table, defaults);
    return json;
}
