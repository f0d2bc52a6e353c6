#include "harness/record/recorded_method.h"
#include "harness/spec/method_decode.h"
#include <string.h>

// NULL: unknown method.
static const struct method *method_of(const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    return name ? method_find(name) : NULL;
}

// The options, to be released with options_free; NULL if the method does not accept them.
static void *read_options(const json_t *entry, const struct method *method)
{
    struct json_source source;
    json_source_wrap(&source, "record", json_incref((json_t *)entry));
    void *options = options_new(&method->options);
    struct status status = {0};
    for (const struct option *option = method->options.rows; option->name && status.code == STATUS_OK; option++)
        named_option_set(json_field_get(json_field_root(&source), option->name), option, options, &status);
    json_source_close(&source);
    if (status.code == STATUS_OK)
        return options;
    options_free(&method->options, options);
    return NULL;
}

bool recorded_method_draws(const json_t *entry)
{
    const struct method *method = method_of(entry);
    void *options = method && method->draw ? read_options(entry, method) : NULL;
    if (!options)
        return false;
    bool draws = method->draw(options, 0);
    options_free(&method->options, options);
    return draws;
}

static bool same_options(const struct method *method, const void *a, const void *b)
{
    json_t *left = method_json(method, a), *right = method_json(method, b);
    bool same = json_equal(left, right);
    json_decref(right);
    json_decref(left);
    return same;
}

// Applies the point's values; returns false if the method lacks an option.
static bool apply(const struct published_point *point, const struct method *method, void *options)
{
    char chunk[24];
    snprintf(chunk, sizeof chunk, "%zu", point->chunk);
    bool has = !point->chunk || options_set(&method->options, options, "chunk", chunk);
    for (size_t i = 0; has && i < point->option_count; i++)
        has = options_set(&method->options, options, point->options[i].option->name, point->options[i].value);
    return has;
}

bool recorded_method_is(const json_t *entry, const struct published_point *point, size_t context)
{
    const struct method *method = method_of(entry);
    void *options = method && strcmp(point->method, method->name) == 0 ? read_options(entry, method) : NULL;
    if (!options)
        return false;
    void *asked = options_copy(&method->options, options);
    bool same = apply(point, method, asked);
    if (context && method->fit)
        method->fit(asked, context);
    same = same && same_options(method, options, asked);
    options_free(&method->options, asked);
    options_free(&method->options, options);
    return same;
}
