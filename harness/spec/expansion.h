// Expansion: a spec taken apart into axes and method entries, and the product of them, whose trials are numbered.
#pragma once
#include "harness/spec/trial_decode.h"

#define ENTRY_KEYS           NAMED_OPTIONS_MAX
#define EXPANSION_TRIALS_MAX 100000

// One `--axis NAME=VALUE,VALUE` of the command line.
struct override {
    char *name;                // the axis or option
    struct json_source values; // a list, named as it was typed
    bool used;                 // for an option: by some method entry
};

// Takes "context=1024,2048" apart. A value is JSON (`null`, `{"rank": 8}`, `[0, 2]`), or else the text itself
// (`f64`). shown: how messages name it, such as "--axis context=1024,2048". Release with override_close, also after
// a failure.
bool override_parse(struct override *override, const char *shown, const char *text, struct status *status);
void override_close(struct override *override);

// The values of one key, or of one option of a method entry: a list, or just one.
struct axis {
    size_t key; // of trial_keys; in an entry the row of its method's options, or ENTRY_KEYS + that of trial_keys
    struct json_field field;
    bool list;
};
struct json_field axis_value(const struct axis *axis, size_t i);
size_t axis_size(const struct axis *axis);

// An entry of axes.method, with the options that are axes of its own, and the keys of a trial that it gives itself.
struct entry {
    json_t *method; // without those keys
    struct method_fields fields;
    size_t axis_count;
    struct axis axes[ENTRY_KEYS + TRIAL_KEYS_MAX];
    size_t variants; // product of the axes
};

// The file and what the command line changed: what the trials are picked from.
struct expansion {
    struct json_source source;
    struct override *overrides;
    size_t override_count;
    struct json_field constants[TRIAL_KEYS_MAX];
    size_t axis_count; // the method's among them: its values are the variants of the entries
    struct axis axes[TRIAL_KEYS_MAX];
    size_t sizes[TRIAL_KEYS_MAX]; // values of each axis
    size_t entry_count;
    struct entry *entries;
    struct trial_defaults defaults;
};

// a * b, or more than a spec may have.
size_t expansion_product(size_t a, size_t b);
// Sets the sizes; how many trials the axes multiply to, at most one more than a spec may have.
size_t expansion_count(struct expansion *e);
// Trial number n of the product; the last axis is the fastest. What the method's entry gives itself counts.
void expansion_pick(const struct expansion *e, size_t n, struct trial_fields *fields);
// Whether a key of a trial has an axis of several values, or is given by an entry itself.
bool expansion_varies(const struct expansion *e, size_t key);
void expansion_free(struct expansion *e);
