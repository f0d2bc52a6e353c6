// Dry run: lists the trials that a sweep would run, and what is known of each in advance.
#pragma once
#include "harness/spec/spec.h"
#include <stdio.h>

// Writes a line for each trial without a record in the result file `out` (with `retry`: without one that is ok):
// its exact peak, the largest over draws and data ranks, and an estimated step time if its profile allows one; then
// totals. Measures and writes nothing else. Returns false and a status if `out` is no result file.
bool dry_run_write(const struct spec *spec, const char *out, bool retry, FILE *stream, struct status *status);
