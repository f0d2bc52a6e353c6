// Dry run: what a sweep would do: the trials that are left, and what is known of each before it runs.
#pragma once
#include "harness/spec/spec.h"
#include <stdio.h>

// Writes a line for each trial of which the result file `out` has no record, with `retry` none that is ok, with its
// peak, exact and of draws and data ranks the largest, and where its profile says so what a step would take; then
// their sum. Nothing is measured or written. False and a status if the file is none of results.
bool dry_run_write(const struct spec *spec, const char *out, bool retry, FILE *stream, struct status *status);
