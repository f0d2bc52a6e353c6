// Method decode: a method's entry, {"name": "seco", "chunk": 128}, into the options of the method's walk, by the
// option table alone: a new option or method needs nothing here.
#pragma once
#include "harness/files/json_field.h"
#include "methods/method.h"

#define METHOD_OPTIONS_MAX 48 // at least as many as in method_option_table

// An entry taken apart: which method, and for each option of the table what was given (value NULL: nothing).
struct method_fields {
    const struct method *method;
    struct json_field entry;
    struct json_field options[METHOD_OPTIONS_MAX];
};

// Finds the method and refuses keys it does not know, saying which methods do. The entry may be just a name.
bool method_fields_read(struct method_fields *fields, struct json_field entry, struct status *status);
bool method_knows(const struct method *method, const char *option);
// The methods that know an option, as "seco, spaco".
void method_names_knowing(const char *option, char *text, size_t bytes);
// The entry that gives nothing but the name: every option the method knows with its default; a new reference.
json_t *method_defaults(const struct method *method);
// Decodes and checks the options; all others get their defaults. *canonical becomes a new reference: the name and
// every option the method knows. context: tokens.
bool method_decode(const struct method_fields *fields, size_t context, struct method_options *options,
                   json_t **canonical, struct status *status);
