// Method decode: a method's entry, {"name": "seco", "chunk": 128}, into the options of the method's walk, by the
// method's table alone: a new option or method needs nothing here.
#pragma once
#include "harness/files/method_json.h"

#define METHOD_OPTIONS_MAX 48 // of a method

// An entry taken apart: which method, and for each row of its table what was given (value NULL: nothing).
struct method_fields {
    const struct method *method;
    struct json_field entry;
    struct json_field options[METHOD_OPTIONS_MAX];
};

// Finds the method and refuses keys it does not know, saying which methods do. The entry may be just a name.
bool method_fields_read(struct method_fields *fields, struct json_field entry, struct status *status);
// The methods that know an option, as "seco, spaco".
void method_names_knowing(const char *option, char *text, size_t bytes);
// The entry that gives nothing but the name: every option with its default; a new reference.
json_t *method_defaults(const struct method *method);
// Decodes what was given into options, which hold the defaults, and checks them together, with the model and the
// context in tokens.
bool method_decode(const struct method_fields *fields, const struct config *config, size_t context, void *options,
                   struct status *status);
