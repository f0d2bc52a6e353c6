// Named options: methods, objectives and optimizers as specs and records write them, {"name": "seco", "chunk":
// 128}. The tables alone define them: a new name or option needs nothing here.
#pragma once
#include "harness/json/json_field.h"
#include "kernels/base/options.h"

#define NAMED_MAX         64
#define NAMED_OPTIONS_MAX 48 // of a name

// The known names and the options of each.
struct named_tables {
    const char *kind;    // "method"
    const char *example; // an entry, as JSON
    bool required;       // the name is required; otherwise it defaults to the first
    size_t count;
    const char *names[NAMED_MAX];
    const struct option_table *tables[NAMED_MAX];
};
void named_tables_add(struct named_tables *tables, const char *name, const struct option_table *table);
// Lists the names that have an option, as "seco, spaco".
void named_tables_knowing(const struct named_tables *tables, const char *option, char *text, size_t bytes);

// A parsed entry: the index of its name and, for each row of its table, the given value (NULL: not given).
struct named_options {
    size_t index;
    struct json_field entry, options[NAMED_OPTIONS_MAX];
};
// Finds the name and refuses options that it does not have, listing the names that do. The entry may be just a
// name.
bool named_options_read(struct named_options *given, const struct named_tables *tables, struct json_field entry,
                        struct status *status);
// Sets the given options and leaves the others at their defaults. Returns false and a status for a wrong type or a
// value out of bounds.
bool named_options_set(const struct named_options *given, const struct option_table *table, void *options,
                       struct status *status);
// The same for one option.
bool named_option_set(struct json_field field, const struct option *option, void *options, struct status *status);
// A value in words, to be freed: "paper", "0.5", "weights,kv", "[0,3]". digits: of a real number; 0: all.
char *named_option_words(const json_t *value, size_t digits);
// The name and every option except those omitted at their default: a new reference. Options NULL: the defaults.
json_t *named_options_json(const char *name, const struct option_table *table, const void *options);
