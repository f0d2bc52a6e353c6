// Cell decode: a cell from its keys, each with the place it was written at: one JSON object, or what a spec's axes
// picked.
#pragma once
#include "harness/spec/cell.h"
#include "harness/spec/method_decode.h"

// The keys of a cell, in the order in which each can be checked against those before it.
enum cell_key {
    CELL_MODEL,
    CELL_DTYPE,
    CELL_DEVICE,
    CELL_PROFILE,
    CELL_BATCH,
    CELL_CONTEXT,
    CELL_SEED,
    CELL_DATA,
    CELL_LABELS,
    CELL_LORA,
    CELL_OPTIMIZER,
    CELL_KV_GRADIENT_DTYPE,
    CELL_GRADIENT_DTYPE,
    CELL_DETERMINISTIC,
    CELL_TF32,
    CELL_WHOLE_ATTENTION,
    CELL_METHOD,
    CELL_MEASURE,
    CELL_LIMITS,
    CELL_KEYS
};
extern const char *const cell_key_names[CELL_KEYS + 1]; // ending in NULL

// What was given for each key; value NULL: left out. A key that was left out has the path it is missed at.
struct cell_fields {
    struct json_field keys[CELL_KEYS]; // all but CELL_METHOD, which is taken apart:
    struct method_fields method;
};

// As cell_decode, on fields. Release with cell_free, also after a failure.
bool cell_decode_fields(struct cell *cell, const struct cell_fields *fields, struct status *status);
