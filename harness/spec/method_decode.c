#include "harness/spec/method_decode.h"
#include <string.h>

static void method_names(struct names *names)
{
    for (size_t i = 0; methods[i]; i++)
        names_add(names, methods[i]->name);
    names_add(names, method_auto.name);
}

void method_names_knowing(const char *option, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; methods[i] && used < bytes; i++) {
        if (option_find(&methods[i]->options, option))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", methods[i]->name);
    }
}

static bool unknown_option(struct json_field entry, const struct method *method, const char *key,
                           struct status *status)
{
    struct json_path path = json_path_key(entry.path, key);
    char hint[640];
    if (methods_option_find(key)) {
        method_names_knowing(key, hint, sizeof hint);
        return json_source_error(entry.source, path, JSON_KEY, status,
                                 "method \"%s\" has no such option; methods that have it: %s", method->name, hint);
    }
    struct names known = {1, {"name"}};
    for (const struct option *option = method->options.rows; option->name; option++)
        names_add(&known, option->name);
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
    fields->method = methods[index] ? methods[index] : &method_auto; // the name behind those that walk
    const char *key;
    json_t *value;
    if (!json_is_object(entry.value))
        return true;
    json_object_foreach(entry.value, key, value)
    {
        if (strcmp(key, "name") && !option_find(&fields->method->options, key))
            return unknown_option(entry, fields->method, key, status);
    }
    for (size_t i = 0; fields->method->options.rows[i].name; i++) {
        CHECK(i < METHOD_OPTIONS_MAX);
        fields->options[i] = json_field_get(entry, fields->method->options.rows[i].name);
    }
    return true;
}

json_t *method_defaults(const struct method *method)
{
    void *options = options_new(&method->options);
    json_t *json = method_json(method, options);
    options_free(&method->options, options);
    return json;
}

bool method_decode(const struct method_fields *fields, const struct config *config, size_t context, void *options,
                   struct status *status)
{
    const struct method *method = fields->method;
    for (size_t i = 0; method->options.rows[i].name; i++) {
        if (!method_json_read(fields->options[i], &method->options.rows[i], options, status))
            return false;
    }
    struct status why = {0};
    if (method->check && !method->check(options, config, context, &why))
        return json_field_fail(fields->entry, status, "method \"%s\" at context %zu: %s", method->name, context,
                               why.message);
    return true;
}
