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
    KEY_OWN,    // what `decode` says
    KEY_METHOD, // method_decode.h
};

// How a flag's text becomes JSON: "7" a number where it is one, always a text, "a=1,b=2" an object, "name,a=1" an
// object with a name; or a number, else the path of a batch file, which is the data.
enum key_spelling { SPELLED_VALUE, SPELLED_TEXT, SPELLED_OBJECT, SPELLED_NAMED, SPELLED_BATCH };

// How records hold a KEY_OWN.
enum key_holds { HOLDS_ANY, HOLDS_TEXT, HOLDS_OBJECT };

struct trial_key {
    const char *name;
    enum key_type type;
    enum key_holds holds;
    size_t offset;              // in struct trial, of all but KEY_OBJECT, KEY_OWN and KEY_METHOD
    double minimum, maximum;    // KEY_COUNT, KEY_NUMBER
    double initial;             // default; of KEY_CHOICE the index
    double card_rows;           // KEY_COUNT of tokens: as an option has it (kernels/base/options.h)
    const char *const *choices; // KEY_CHOICE: names in the order of the enum, ending in NULL
    const char *kind;           // KEY_CHOICE: what one is called
    bool required;
    const char *unit;     // NULL: none
    const char *meaning;  // a line
    const char *values;   // what may be given, where the type does not say it
    const char *standard; // KEY_OWN: the default, in words
    const char *null;     // what null, the default, means; NULL: null is refused
    const char *telling;  // of an object: the member that says most
    bool quiet;           // mostly of a whole sweep: a trial's line has it only where it varies
    bool first;           // of a flag: people use it first, and --help shows it
    const char *words;    // KEY_BOOL: what true is called where settings are described
    // Values, as flags have them, that a search over settings tries too where none is given (`longbp advise`);
    // NULL: none.
    const char *const *tried;
    bool rounds; // they change the gradient: they are tried only where the key is named for it
    // The flag: its argument, NULL: none but that of a KEY_BOOL; its name, NULL: the key's.
    const char *argument, *flag;
    enum key_spelling spelling;
    // KEY_COUNT: *value, as keys before it say it where this one is left out; they may say nothing. False and a
    // status if they should and cannot. NULL: they never do.
    bool (*told)(const struct trial *trial, size_t *value, struct status *status);
    // Reads the field, checks it against the keys before, sets the trial; the value with its defaults spelled out,
    // a new reference, or NULL and a status.
    json_t *(*decode)(struct trial *trial, struct json_field field, struct status *status);
    // KEY_OBJECT: leaves out what the trial cannot have. NULL: nothing.
    void (*settle)(struct trial *trial);
    const struct trial_key *members; // KEY_OBJECT: ending in a NULL name
};

#define TRIAL_KEYS_MAX 40
// In the order in which each can be checked against those before it, ending in a NULL name.
extern const struct trial_key trial_keys[];
size_t trial_key_count(void);
// Position of a key, or trial_key_count() if there is none of this name.
size_t trial_key_find(const char *name);
// NULL: there is none of this name.
const struct trial_key *trial_key_named(const char *name);
// A key of which a search tries values, and the object that it is a member of; NULL: the trial.
struct tried_key {
    const struct trial_key *key, *parent;
};
// In the table's order; their number.
size_t trial_keys_tried(struct tried_key tried[TRIAL_KEYS_MAX]);
// Its value in a trial's canonical JSON, borrowed.
json_t *tried_key_value(struct tried_key tried, const json_t *canonical);
// Adds all names of a table, which ends in a NULL name.
void trial_key_names(struct names *names, const struct trial_key *keys);
// " of tokens", or nothing.
void trial_key_unit(const struct trial_key *key, char *text, size_t bytes);
// "a whole number of tokens >= 1", "true or false".
void trial_key_values(const struct trial_key *key, char *text, size_t bytes);
// "1", "null: the next token", "must be given".
void trial_key_default(const struct trial_key *key, char *text, size_t bytes);
