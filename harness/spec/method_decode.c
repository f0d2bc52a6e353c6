#include "harness/spec/method_decode.h"

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

bool method_decode(const struct method_fields *fields, const struct config *config, size_t context, void *options,
                   struct status *status)
{
    const struct method *method = fields->method;
    if (!named_options_set(&fields->given, &method->options, options, status))
        return false;
    struct status why = {0};
    if (method->check && !method->check(options, config, context, &why))
        return json_field_fail(fields->given.entry, status, "method \"%s\" at context %zu: %s", method->name,
                               context, why.message);
    return true;
}
