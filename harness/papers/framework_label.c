#include "harness/papers/framework_label.h"
#include "harness/json/named_options.h"
#include "harness/text/text.h"
#include "kernels/framework/framework.h"
#include <string.h>

static const char whole[] = "whole"; // what papers' baselines have

// Tells whether the label says it.
static bool is_told(const char *key)
{
    static const char *const told[] = {"version", "loss", "inferred"};
    size_t i = 0;
    while (i < sizeof told / sizeof *told && strcmp(told[i], key) != 0)
        i++;
    return i < sizeof told / sizeof *told;
}

void framework_label(const struct record_framework *framework, const json_t *keys, char *text, size_t bytes)
{
    const json_t *inferred = json_object_get(keys, "inferred"), *key;
    const char *loss = text_or(json_string_value(json_object_get(keys, "loss")), whole);
    size_t i;
    text_append(text, bytes, ", %s %s", text_or(framework->name, ""), text_or(framework->version, ""));
    if (strcmp(loss, whole) != 0)
        text_append(text, bytes, ", loss %s", loss);
    json_array_foreach((json_t *)inferred, i, key)
    {
        text_append(text, bytes, ", %s", text_or(json_string_value(key), ""));
    }
    if (json_array_size(inferred))
        text_append(text, bytes, " inferred");
}

void framework_details(const json_t *keys, char *text, size_t bytes)
{
    struct framework *standard = options_new(&framework_options);
    framework_resolve(standard);
    json_t *defaults = named_options_json(FRAMEWORK_NAME, &framework_options, standard);
    for (const struct option *option = framework_options.rows; option->name; option++) {
        const json_t *value = json_object_get(keys, option->name);
        if (is_told(option->name) || !value || json_equal(value, json_object_get(defaults, option->name)))
            continue;
        char *words = named_option_words(value, 0);
        text_append(text, bytes, "%s%s %s", *text ? ", " : "", option->name, words);
        free(words);
    }
    json_decref(defaults);
    options_free(&framework_options, standard);
}
