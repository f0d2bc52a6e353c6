// Results: the records of several result files together; of a trial that is in several, the last one.
#pragma once
#include "kernels/base/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct results {
    json_t *records; // id: record, in the order of the files
    json_t *origins; // id: path
};

// False and a status if a file is wrong. Release with results_close, also after a failure.
bool results_open(struct results *results, const char *const *paths, size_t count, struct status *status);
void results_close(struct results *results);
