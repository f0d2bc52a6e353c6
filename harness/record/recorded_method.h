// Recorded method: the method of a record with its options, read back by its table, so that its hooks say what a
// record does not: nobody here knows a method's options but by name.
#pragma once
#include "harness/record/published.h"
#include <jansson.h>

// entry: what a record holds as its trial's method, {"name": "seco", "chunk": 128}; what it leaves out is the
// default. Whether the method leaves its chunks to chance; false also for a method that this program does not
// have.
bool recorded_method_draws(const json_t *entry);
// Whether what a paper's point says of method and options is what the entry says. context: tokens, of a point that
// may ask for more chunks than there are; 0: as it is said.
bool recorded_method_is(const json_t *entry, const struct published_point *point, size_t context);
