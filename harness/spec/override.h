// Override: one `--axis NAME=VALUE,VALUE` of the command line.
#pragma once
#include "harness/json/json_field.h"

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
