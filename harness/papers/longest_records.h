// Longest records: outputs of `longbp max-context --json` and `longbp max-batch --json` as planned records: for
// each method the longest context, or the largest batch.
#pragma once
#include "harness/record/results.h"

// Opens several files: such outputs if the name ends in .json, otherwise result files. every: keeps all records,
// also several of one trial. Returns false and a status if a file is neither. Release with results_close, also
// after a failure.
bool longest_results_open(struct results *results, const char *const *paths, size_t count, bool every,
                          struct status *status);
