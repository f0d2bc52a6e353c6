// Named options: what is asked for by name and has options of its own - a method, an objective, an optimizer - as
// specs and records hold it, {"name": "seco", "chunk": 128}, by the tables alone: a new name or option needs
// nothing here.
#pragma once
#include "harness/json/json_field.h"
#include "kernels/base/options.h"

#define NAMED_MAX         64
#define NAMED_OPTIONS_MAX 48 // of a name

// The names that there are, and what each can be asked.
struct named_tables {
    const char *kind;    // "method"
    const char *example; // an entry, as JSON
    bool required;       // a name; else it may be left out, and is the first
    size_t count;
    const char *names[NAMED_MAX];
    const struct option_table *tables[NAMED_MAX];
};
void named_tables_add(struct named_tables *tables, const char *name, const struct option_table *table);
// The names that know an option, as "seco, spaco".
void named_tables_knowing(const struct named_tables *tables, const char *option, char *text, size_t bytes);

// An entry taken apart: which name, and for each row of its table what was given (value NULL: nothing).
struct named_options {
    size_t index;
    struct json_field entry, options[NAMED_OPTIONS_MAX];
};
// Finds the name and refuses options it does not know, saying which names do. The entry may be just a name.
bool named_options_read(struct named_options *given, const struct named_tables *tables, struct json_field entry,
                        struct status *status);
// Sets the options that were given; the others, which hold the defaults, stay. False and a status if one is of
// another type, or out of bounds.
bool named_options_set(const struct named_options *given, const struct option_table *table, void *options,
                       struct status *status);
// As named_options_set, of one option.
bool named_option_set(struct json_field field, const struct option *option, void *options, struct status *status);
// The name and every option but those that are unsaid at their default: a new reference. Options NULL: the
// defaults.
json_t *named_options_json(const char *name, const struct option_table *table, const void *options);
