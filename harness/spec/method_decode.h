// Method decode: a method's entry, {"name": "seco", "chunk": 128}, into the options of the method's walk.
#pragma once
#include "harness/json/named_options.h"
#include "methods/method.h"

// An entry taken apart.
struct method_fields {
    const struct method *method;
    struct named_options given;
};

// All methods, and auto after them.
struct named_tables method_tables(void);
bool method_fields_read(struct method_fields *fields, struct json_field entry, struct status *status);
// Of "25%": 0.25; 0: it is no share above 0 % and up to 100 %.
double method_share_of(const json_t *value);
// An option that is given as a share of what there is; NULL: none is.
const struct json_field *method_fields_share(const struct method_fields *fields);
// Those that are: JSON, {"budget": "25%"}, to be freed; NULL: none is.
char *method_fields_shares(const struct method_fields *fields);
// The name and every option: a new reference. Options NULL: the defaults.
json_t *method_json(const struct method *method, const void *options);
// Options that were given as shares, by name, become counts: of what there is with the other options as they are
// now.
void method_set_shares(const struct method *method, const json_t *given, size_t context, void *options);
// Decodes what was given into options, which hold the defaults, and checks them together, with the model and the
// context in tokens. *unsupported, to be freed: why this model or this context does not go with them; NULL: it
// does.
bool method_decode(const struct method_fields *fields, const struct config *config, size_t context, void *options,
                   char **unsupported, struct status *status);
