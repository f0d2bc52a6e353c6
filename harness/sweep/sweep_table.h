// Sweep table: the results of a sweep as the table that it ends with.
#pragma once
#include "harness/spec/spec.h"
#include <stdio.h>

// Writes a table of the spec's trials that have records in the result file, in the spec's order, with the last
// record of each. If it would be too long, names the command that shows it. Keeps only the shown records in memory.
// Returns false and a status if the file cannot be read.
bool sweep_table_write(const struct spec *spec, const char *path, FILE *stream, struct status *status);
