// Trial keys: what a trial can be asked, as one table. Decoding, ids, what records hold, axes, flags of the command
// line and `longbp list keys` are made from it, or held against it.
#pragma once
#include "harness/json/json_field.h"
#include "harness/spec/trial.h"

enum key_type {
    KEY_BOOL,   // bool
    KEY_COUNT,  // size_t
    KEY_NUMBER, // double
    KEY_CHOICE, // an enum
    KEY_TEXT,   // char *, or NULL
    KEY_SIZE,   // size_t of bytes; 0: null
    KEY_OBJECT, // of members
    KEY_OWN,    // as `decode` reads it
    KEY_METHOD, // method_decode.h
};

// How a flag's text becomes JSON: VALUE: "7" is a number, otherwise a text; TEXT: always a text; OBJECT: "a=1,b=2";
// NAMED: "name,a=1" is an object with a name; BATCH: a number, or else the path of a batch file, which becomes the
// data.
enum key_spelling { SPELLED_VALUE, SPELLED_TEXT, SPELLED_OBJECT, SPELLED_NAMED, SPELLED_BATCH };

// Type of a KEY_OWN in records.
enum key_holds { HOLDS_ANY, HOLDS_TEXT, HOLDS_OBJECT };

struct trial_key {
    const char *name;
    enum key_type type;
    enum key_holds holds;
    size_t offset;              // in struct trial, except for KEY_OBJECT, KEY_OWN and KEY_METHOD
    double minimum, maximum;    // KEY_COUNT, KEY_NUMBER
    double initial;             // default; for KEY_CHOICE the index
    double card_rows;           // KEY_COUNT of tokens: see kernels/base/options.h
    const char *const *choices; // KEY_CHOICE: names in the order of the enum, ending in NULL
    const char *kind;           // KEY_CHOICE: the kind of its values
    bool required;
    const char *unit;     // NULL: none
    const char *meaning;  // one line
    const char *values;   // allowed values, if the type does not determine them
    const char *standard; // KEY_OWN: the default, in words
    const char *null;     // meaning of null, the default; NULL: null is refused
    const char *telling;  // for an object: its main member
    bool quiet;           // usually equal in a whole sweep: a trial's line has it only if it varies
    bool first;           // a main flag, shown by --help
    const char *words;    // KEY_BOOL: the name of true in descriptions of settings
    // Further values, as in flags, which change the gradient: a search over settings (`longbp advise`) tries them
    // if it is to and none is given. NULL: none.
    const char *const *tried;
    // The flag: its argument, NULL: only a KEY_BOOL has a flag; its name, NULL: the key's.
    const char *argument, *flag;
    enum key_spelling spelling;
    // KEY_COUNT: derives the value from earlier keys if this one is absent; may leave it unset. Returns false and a
    // status on failure. NULL: never derived.
    bool (*told)(const struct trial *trial, size_t *value, struct status *status);
    // Reads the field, checks it against earlier keys and sets the trial. Returns the value with its defaults, a
    // new reference, or NULL and a status.
    json_t *(*decode)(struct trial *trial, struct json_field field, struct status *status);
    // KEY_OBJECT: drops members that do not apply to the trial. NULL: none.
    void (*settle)(struct trial *trial);
    const struct trial_key *members; // KEY_OBJECT: ending in a NULL name
};

#define TRIAL_KEYS_MAX 48
// Ordered so that each key can be checked against earlier ones; ending in a NULL name.
extern const struct trial_key trial_keys[];
size_t trial_key_count(void);
// Index of a key, or trial_key_count() if unknown.
size_t trial_key_find(const char *name);
// NULL: unknown name.
const struct trial_key *trial_key_named(const char *name);
// Lists the keys with values that a search tries, in the table's order; returns their number.
size_t trial_keys_tried(const struct trial_key *tried[TRIAL_KEYS_MAX]);
// Adds all names of a table that ends in a NULL name.
void trial_key_names(struct names *names, const struct trial_key *keys);
// " of tokens", or nothing.
void trial_key_unit(const struct trial_key *key, char *text, size_t bytes);
// "a whole number of tokens >= 1", "true or false".
void trial_key_values(const struct trial_key *key, char *text, size_t bytes);
// "1", "null: the next token", "must be given".
void trial_key_default(const struct trial_key *key, char *text, size_t bytes);
