// Spec: an experiment file, and the trials its axes multiply to. Everything is checked before anything runs. Of the
// trials the spec then keeps the ids alone and decodes one again when it is asked for: there may be many.
#pragma once
#include "harness/spec/trial.h"

struct spec_trial {
    char id[TRIAL_ID_BYTES];
    uint32_t place; // in the product of the axes
};

struct spec {
    char *experiment, *question; // question may be NULL
    size_t trial_count;
    struct spec_trial *trials;   // in the order written, the last axis fastest; no two with the same id
    struct expansion *expansion; // what they are decoded from
};

// What the command line changes.
struct spec_changes {
    const char *const *axes; // of --axis: "context=1024,2048", "method=seco,full" (of the entries there are, those
                             // with these names), "chunk=64,128" (in the entries whose method knows the option)
    size_t axis_count;
    const char *device; // of --device: as the axis "device=NAME"; NULL: no change
};

// Loads a spec: "experiment" (letters, digits, "-", "_", "."), "question", any key of a trial (trial_keys.h) with
// one value, and "axes", with a list of values for any key of a trial; "context" and "method" must be there. An
// entry of axes.method is a name, or an object in which an option may be a list: then it is an axis of the entry
// (for an option that is a list, a list of lists is). An entry may also give keys of a trial itself ("context",
// ...), again one value or a list: they count for that entry in place of the spec's. A trial whose method does not
// go with its model or context (a budget above the number of columns) is one that says so itself
// (trial.unsupported), unless no trial is possible. Returns false and a status that names file, line and column if
// anything is wrong anywhere. Release with spec_free, also after a failure. changes may be NULL. path, and those of
// data and labels within: as share_resolve takes them.
bool spec_load(struct spec *spec, const char *path, const struct spec_changes *changes, struct status *status);
// The same from memory; name takes the path's place in messages.
bool spec_parse(struct spec *spec, const char *name, const char *text, size_t bytes,
                const struct spec_changes *changes, struct status *status);
// Decodes a trial; a profile's file or a model's folder is read again. False and a status if one of those was
// changed since. Release with trial_free, also after a failure.
bool spec_trial(const struct spec *spec, size_t index, struct trial *trial, struct status *status);
// Whether the trials may differ in this key (of trial_keys): an axis of several values, or a method entry's own.
bool spec_varies(const struct spec *spec, size_t key);
void spec_free(struct spec *spec);
