#include "harness/spec/method_decode.h"
#include <string.h>

static void method_names(struct names *names)
{
    for (size_t i = 0; methods[i]; i++)
        names_add(names, methods[i]->name);
}

bool method_knows(const struct method *method, const char *option)
{
    for (size_t i = 0; method->options && method->options[i]; i++) {
        if (!strcmp(method->options[i], option))
            return true;
    }
    return false;
}

void method_names_knowing(const char *option, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; methods[i] && used < bytes; i++) {
        if (method_knows(methods[i], option))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", methods[i]->name);
    }
}

static bool unknown_option(struct json_field entry, const struct method *method, const char *key,
                           struct status *status)
{
    struct json_path path = json_path_key(entry.path, key);
    char hint[640];
    if (option_find(key)) {
        method_names_knowing(key, hint, sizeof hint);
        return json_source_error(entry.source, path, JSON_KEY, status,
                                 "method \"%s\" has no such option; methods that have it: %s", method->name, hint);
    }
    struct names known = {1, {"name"}};
    if (method->options)
        names_add_all(&known, method->options);
    names_hint(&known, key, "known keys", hint, sizeof hint);
    return json_source_error(entry.source, path, JSON_KEY, status, "unknown key of method \"%s\"; %s", method->name,
                             hint);
}

bool method_fields_read(struct method_fields *fields, struct json_field entry, struct status *status)
{
    *fields = (struct method_fields){.entry = entry};
    struct names known = {0};
    method_names(&known);
    struct json_field name = json_is_object(entry.value) ? json_field_get(entry, "name") : entry;
    char hint[640];
    if (!name.value) {
        names_hint(&known, NULL, "methods", hint, sizeof hint);
        return json_field_fail(name, status, "missing; %s", hint);
    }
    if (!json_is_object(entry.value) && !json_is_string(entry.value))
        return json_field_expected(entry, status, "a method: {\"name\": \"seco\", \"chunk\": 128}, or its name");
    size_t index = 0;
    if (!json_field_choice(name, &known, "method", &index, status))
        return false;
    fields->method = methods[index];
    const char *key;
    json_t *value;
    if (!json_is_object(entry.value))
        return true;
    json_object_foreach(entry.value, key, value)
    {
        if (strcmp(key, "name") && !method_knows(fields->method, key))
            return unknown_option(entry, fields->method, key, status);
    }
    for (size_t i = 0; method_option_table[i].name; i++) {
        CHECK(i < METHOD_OPTIONS_MAX);
        if (method_knows(fields->method, method_option_table[i].name))
            fields->options[i] = json_field_get(entry, method_option_table[i].name);
    }
    return true;
}

static bool read_count(struct json_field field, const struct option *option, size_t *value, struct status *status)
{
    bool bounded = option->maximum > 0 && option->maximum < 0x1p53;
    size_t maximum = bounded ? (size_t)option->maximum : JSON_INTEGER_MAX;
    char unit[128];
    snprintf(unit, sizeof unit, " (%s)", option->help);
    return json_field_count(field, (size_t)option->minimum, maximum, unit, value, status);
}

static bool read_choice(struct json_field field, const struct option *option, int *value, struct status *status)
{
    struct names choices = {0};
    names_add_all(&choices, option->choices);
    size_t index = (size_t)*value;
    if (!json_field_choice(field, &choices, option->name, &index, status))
        return false;
    *value = (int)index;
    return true;
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
    if (count > maximum - minimum + 1) // for each is there once
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

static bool read_option(struct json_field field, const struct option *option, struct method_options *options,
                        struct status *status)
{
    void *value = (char *)options + option->offset;
    switch (option->type) {
    case OPTION_COUNT:
        return read_count(field, option, value, status);
    case OPTION_NUMBER:
        return json_field_number(field, option->minimum, option->maximum, value, status);
    case OPTION_CHOICE:
        return read_choice(field, option, value, status);
    case OPTION_LIST:
        return read_list(field, option, value, status);
    }
    return false;
}

static json_t *option_json(const struct option *option, const struct method_options *options)
{
    const void *value = (const char *)options + option->offset;
    const struct index_list *list = value;
    json_t *numbers;
    switch (option->type) {
    case OPTION_COUNT:
        return json_integer((json_int_t) * (const size_t *)value);
    case OPTION_NUMBER:
        return json_real(*(const double *)value);
    case OPTION_CHOICE:
        return json_string(option->choices[*(const int *)value]);
    case OPTION_LIST:
        numbers = json_array();
        for (size_t i = 0; i < list->count; i++)
            json_array_append_new(numbers, json_integer(list->items[i]));
        return numbers;
    }
    return NULL;
}

static json_t *entry_json(const struct method *method, const struct method_options *options)
{
    json_t *json = json_object();
    json_object_set_new(json, "name", json_string(method->name));
    for (size_t i = 0; method_option_table[i].name; i++) {
        if (method_knows(method, method_option_table[i].name))
            json_object_set_new(json, method_option_table[i].name, option_json(&method_option_table[i], options));
    }
    return json;
}

json_t *method_defaults(const struct method *method)
{
    struct method_options options;
    options_init(&options);
    return entry_json(method, &options);
}

bool method_decode(const struct method_fields *fields, size_t context, struct method_options *options,
                   json_t **canonical, struct status *status)
{
    const struct method *method = fields->method;
    options_init(options);
    for (size_t i = 0; method_option_table[i].name; i++) {
        if (!read_option(fields->options[i], &method_option_table[i], options, status))
            return false;
    }
    struct status why = {0};
    if (method->check && !method->check(options, context, &why))
        return json_field_fail(fields->entry, status, "method \"%s\" at context %zu: %s", method->name, context,
                               why.message);
    *canonical = entry_json(method, options);
    return true;
}
