// Method decode: decodes a method's entry, {"name": "seco", "chunk": 128}, into its options.
#pragma once
#include "harness/json/named_options.h"
#include "methods/method.h"

// A parsed entry.
struct method_fields {
    const struct method *method;
    struct named_options given;
};

// All methods, then auto.
struct named_tables method_tables(void);
bool method_fields_read(struct method_fields *fields, struct json_field entry, struct status *status);
// 0.25 for "25%"; 0: not a share above 0 % and up to 100 %.
double method_share_of(const json_t *value);
// An option given as a share; NULL: none.
const struct json_field *method_fields_share(const struct method_fields *fields);
// The options given as shares, as JSON, {"budget": "25%"}, to be freed; NULL: none.
char *method_fields_shares(const struct method_fields *fields);
// The name and every option: a new reference. Options NULL: the defaults.
json_t *method_json(const struct method *method, const void *options);
// Converts options given as shares, by name, to counts, using the current values of the other options.
void method_set_shares(const struct method *method, const json_t *given, size_t context, void *options);
// Decodes given values into options, which hold the defaults, and checks them together with the model and the
// context in tokens. *unsupported, to be freed: why they do not fit this model or context; NULL: they fit.
bool method_decode(const struct method_fields *fields, const struct config *config, size_t context, void *options,
                   char **unsupported, struct status *status);
