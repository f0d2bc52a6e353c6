// Recorded method: a record's method with its options, decoded by its table, so that its hooks are available; this
// code knows options only by name.
#pragma once
#include "harness/record/published.h"
#include <jansson.h>

// entry: a record's method, {"name": "seco", "chunk": 128}; absent options have their defaults. Tells whether the
// method draws chunks at random; false for unknown methods.
bool recorded_method_draws(const json_t *entry);
// Tells whether a paper's point has the entry's method and options. context: tokens, for points that may request
// more chunks than exist; 0: as given.
bool recorded_method_is(const json_t *entry, const struct published_point *point, size_t context);
