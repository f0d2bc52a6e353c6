// Spec: an experiment file and the trials of its axes' product. Everything is checked before any trial runs. The
// spec keeps only the trials' ids and decodes a trial again on request, because there may be many.
#pragma once
#include "harness/spec/trial.h"

struct spec_trial {
    char id[TRIAL_ID_BYTES];
    uint32_t place; // index in the product of the axes
};

struct spec {
    char *experiment, *question; // question may be NULL
    size_t trial_count;
    size_t left_out;             // method entries of another framework's step under a --device of this program's
    struct spec_trial *trials;   // in written order, the last axis fastest; ids are unique
    struct expansion *expansion; // source of the trials
};

// Changes from the command line.
struct spec_changes {
    const char *const *axes; // of --axis: "context=1024,2048"; "method=seco,full" (selects entries); "chunk=64,128"
                             // (for entries whose method has the option)
    size_t axis_count;
    const char *device; // of --device: as the axis "device=NAME"; NULL: no change
};

// Loads a spec: "experiment" (letters, digits, "-", "_", "."), "question", any trial key (trial_keys.h) with one
// value, and "axes" with a list of values for any trial key; "context" and "method" are required. An entry of
// axes.method is a name, or an object in which a list of option values is an axis of the entry (for a list option,
// a list of lists). An entry may also set trial keys ("context", ...), as a value or a list, in place of the
// spec's; one that sets "framework" is left out where the command line asks for other devices. A trial whose method
// does not fit its model or context (a budget above the number of chunks) is marked by trial.unsupported, unless no
// trial is possible. Returns false and a status with file, line and column for any error. Release with spec_free,
// also after a failure. changes may be NULL. path, data and labels: see share_resolve.
bool spec_load(struct spec *spec, const char *path, const struct spec_changes *changes, struct status *status);
// The same from memory; messages use name as the path.
bool spec_parse(struct spec *spec, const char *name, const char *text, size_t bytes,
                const struct spec_changes *changes, struct status *status);
// Decodes a trial, reading a profile's file or a model's folder again. Returns false and a status if one of those
// has changed. Release with trial_free, also after a failure.
bool spec_trial(const struct spec *spec, size_t index, struct trial *trial, struct status *status);
// Tells whether trials may differ in this key (of trial_keys): an axis of several values, or set by a method entry.
bool spec_varies(const struct spec *spec, size_t key);
void spec_free(struct spec *spec);
