#include "harness/spec/method_decode.h"
#include "harness/text/text.h"
#include <math.h>
#include <string.h>

struct named_tables method_tables(void)
{
    struct named_tables tables = {
        .kind = "method", .example = "{\"name\": \"seco\", \"chunk\": 128}", .required = true};
    for (size_t i = 0; methods[i]; i++)
        named_tables_add(&tables, methods[i]->name, &methods[i]->options);
    named_tables_add(&tables, method_auto.name, &method_auto.options);
    return tables;
}

bool method_fields_read(struct method_fields *fields, struct json_field entry, struct status *status)
{
    struct named_tables tables = method_tables();
    *fields = (struct method_fields){0};
    if (!named_options_read(&fields->given, &tables, entry, status))
        return false;
    const struct method *method = methods[fields->given.index];
    fields->method = method ? method : &method_auto;
    return true;
}

json_t *method_json(const struct method *method, const void *options)
{
    return named_options_json(method->name, &method->options, options);
}

static bool is_share(const struct option *option, const json_t *value)
{
    const char *text = json_string_value(value);
    return option->share && text && *text && text[strlen(text) - 1] == '%';
}

double method_share_of(const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;
    if (!text || !*text)
        return 0;
    double share = strtod(text, &end) / 100;
    bool digits = strspn(text, "0123456789.") == strlen(text) - 1 && strcmp(end, "%") == 0;
    return digits && share > 0 && share <= 1 ? share : 0;
}

// Sets the count from a share, rounded, at least one.
static void set_share(const struct method *method, const struct option *option, const json_t *value, size_t context,
                      void *options)
{
    double count = floor(method_share_of(value) * (double)method->whole(options, context) + 0.5);
    *(size_t *)((char *)options + option->offset) = count < 1 ? 1 : (size_t)count;
}

void method_set_shares(const struct method *method, const json_t *given, size_t context, void *options)
{
    for (const struct option *option = method->options.rows; option && option->name; option++) {
        const json_t *value = json_object_get(given, option->name);
        if (is_share(option, value))
            set_share(method, option, value, context, options);
    }
}

const struct json_field *method_fields_share(const struct method_fields *fields)
{
    const struct option *rows = fields->method->options.rows;
    for (size_t i = 0; rows && rows[i].name; i++)
        if (is_share(&rows[i], fields->given.options[i].value))
            return &fields->given.options[i];
    return NULL;
}

char *method_fields_shares(const struct method_fields *fields)
{
    const struct option *rows = fields->method->options.rows;
    json_t *shares = json_object();
    for (size_t i = 0; rows && rows[i].name; i++)
        if (is_share(&rows[i], fields->given.options[i].value))
            CHECK(json_object_set(shares, rows[i].name, fields->given.options[i].value) == 0);
    char *text = json_object_size(shares) ? json_dumps(shares, JSON_COMPACT) : NULL;
    CHECK(text || json_object_size(shares) == 0);
    json_decref(shares);
    return text;
}

static bool set_shares(const struct method_fields *fields, size_t context, void *options, struct status *status)
{
    const struct method *method = fields->method;
    for (size_t i = 0; method->options.rows && method->options.rows[i].name; i++) {
        struct json_field field = fields->given.options[i];
        if (!is_share(&method->options.rows[i], field.value))
            continue;
        if (method_share_of(field.value) == 0)
            return json_field_expected(field, status, "a share above 0%% and up to 100%%, such as 25%%");
        set_share(method, &method->options.rows[i], field.value, context, options);
    }
    return true;
}

bool method_decode(const struct method_fields *fields, const struct config *config, size_t context, void *options,
                   char **unsupported, struct status *status)
{
    const struct method *method = fields->method;
    struct named_options counts = fields->given;
    for (size_t i = 0; method->options.rows && method->options.rows[i].name; i++)
        if (is_share(&method->options.rows[i], counts.options[i].value))
            counts.options[i].value = NULL;
    if (!named_options_set(&counts, &method->options, options, status) ||
        !set_shares(fields, context, options, status))
        return false;
    struct status why = {0};
    *unsupported = NULL;
    if (!method->check || method->check(options, config, context, &why))
        return true;
    *unsupported = text_new("method \"%s\" at context %zu: %s", method->name, context, why.message);
    if (why.code == STATUS_UNSUPPORTED)
        return true;
    json_field_fail(fields->given.entry, status, "%s", *unsupported);
    free(*unsupported);
    *unsupported = NULL;
    return false;
}
