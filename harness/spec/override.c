#include "harness/spec/override.h"
#include <string.h>

// The end of the value that starts here: a comma outside of quotes, brackets and braces.
static const char *value_end(const char *at)
{
    size_t depth = 0;
    bool quoted = false;
    for (; *at; at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (quoted)
            continue;
        else if (*at == '[' || *at == '{')
            depth++;
        else if ((*at == ']' || *at == '}') && depth > 0)
            depth--;
        else if (*at == ',' && depth == 0)
            break;
    }
    return at;
}

// A list [...] or object {...} that is not valid JSON is a slip, not a name.
static json_t *read_value(const char *text, size_t bytes, json_error_t *error)
{
    json_t *value = json_loadb(text, bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, error);
    if (value || text[0] == '[' || text[0] == '{')
        return value;
    return json_stringn(text, bytes);
}

static bool read_values(json_t *list, const char *shown, const char *at, struct status *status)
{
    for (;;) {
        const char *end = value_end(at);
        if (end == at)
            return status_set(status, STATUS_BAD_INPUT, "%s: a value is empty; expected VALUE or VALUE,VALUE",
                              shown);
        json_error_t error = {0};
        json_t *value = read_value(at, (size_t)(end - at), &error);
        if (!value)
            return status_set(status, STATUS_BAD_INPUT, "%s: a value is not valid JSON: %s", shown, error.text);
        json_array_append_new(list, value);
        if (*end == '\0')
            return true;
        at = end + 1;
    }
}

bool override_parse(struct override *override, const char *shown, const char *text, struct status *status)
{
    *override = (struct override){0};
    json_source_wrap(&override->values, shown, json_array());
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: expected NAME=VALUE or NAME=VALUE,VALUE, such as context=1024",
                          override->values.name);
    override->name = strndup(text, (size_t)(equals - text));
    CHECK(override->name);
    return read_values(override->values.root, override->values.name, equals + 1, status);
}

void override_close(struct override *override)
{
    json_source_close(&override->values);
    free(override->name);
    *override = (struct override){0};
}
