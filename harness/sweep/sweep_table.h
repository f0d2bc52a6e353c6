// Sweep table: what a sweep's trials came to, as the table that it ends with.
#pragma once
#include "harness/spec/spec.h"
#include <stdio.h>

// Writes the table of the trials of a spec that a result file has records of, in the spec's order; of each the last
// record. Of a sweep that is too long to be read it names the command that shows it. In memory is what it shows.
// False and a status if the file cannot be read.
bool sweep_table_write(const struct spec *spec, const char *path, FILE *stream, struct status *status);
