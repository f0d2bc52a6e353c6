// Longest records: what `longbp max-context --json` and `longbp max-batch --json` printed, as records: one of each
// method, of the longest context, or the largest batch, that it can hold. All are planned.
#pragma once
#include "harness/record/results.h"

// Opens files together: those whose name ends in .json are such outputs, all others result files. every: all
// records, also those of one trial. False and a status if one is neither. Release with results_close, also after a
// failure.
bool longest_results_open(struct results *results, const char *const *paths, size_t count, bool every,
                          struct status *status);
