// Expansion: splits a spec into axes and method entries, and numbers the trials of their product.
#pragma once
#include "harness/spec/trial_decode.h"

#define ENTRY_KEYS           NAMED_OPTIONS_MAX
#define EXPANSION_TRIALS_MAX 100000

// One `--axis NAME=VALUE,VALUE` of the command line.
struct override {
    char *name;                // the axis or option
    struct json_source values; // a list; messages name it as typed
    bool used;                 // for an option: some method entry has it
};

// Parses "context=1024,2048". A value is JSON (`null`, `{"rank": 8}`, `[0, 2]`), or else the text itself (`f64`).
// shown: its name in messages, such as "--axis context=1024,2048". Release with override_close, also after a
// failure.
bool override_parse(struct override *override, const char *shown, const char *text, struct status *status);
void override_close(struct override *override);

// The values of a key, or of an option of a method entry: a list or a single value.
struct axis {
    size_t key; // index in trial_keys; in an entry the row of its method's options, or ENTRY_KEYS + the key's index
    struct json_field field;
    bool list;
};
struct json_field axis_value(const struct axis *axis, size_t i);
size_t axis_size(const struct axis *axis);

// An entry of axes.method, with its options that are axes, and trial keys that it sets itself.
struct entry {
    json_t *method; // without those keys
    struct method_fields fields;
    size_t axis_count;
    struct axis axes[ENTRY_KEYS + TRIAL_KEYS_MAX];
    size_t variants; // product of its axes
};

// The file and the changes of the command line, from which trials are picked.
struct expansion {
    struct json_source source;
    struct override *overrides;
    size_t override_count;
    struct json_field constants[TRIAL_KEYS_MAX];
    size_t axis_count; // includes the method's axis, whose values are the entries' variants
    struct axis axes[TRIAL_KEYS_MAX];
    size_t sizes[TRIAL_KEYS_MAX]; // number of values per axis
    size_t entry_count;
    struct entry *entries;
    struct trial_defaults defaults;
};

// a * b, limited to just above the maximum of a spec.
size_t expansion_product(size_t a, size_t b);
// Sets the sizes and returns the number of trials, limited to one more than a spec may have.
size_t expansion_count(struct expansion *e);
// Picks trial n of the product; the last axis is fastest. Keys set by the method's entry take precedence.
void expansion_pick(const struct expansion *e, size_t n, struct trial_fields *fields);
// Tells whether a trial's key has an axis of several values or is set by an entry.
bool expansion_varies(const struct expansion *e, size_t key);
void expansion_free(struct expansion *e);
