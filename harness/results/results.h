// Results: the records of several result files together; of a trial that is in several, the last one.
#pragma once
#include "harness/results/result_file.h"

struct results {
    size_t count;
    const struct record **records; // [count], in the order in which the files first have them
    const char **origins;          // [count], paths
    size_t file_count;
    struct result_file *files;
};

// False and a status if a file is wrong. Release with results_close, also after a failure.
bool results_open(struct results *results, const char *const *paths, size_t count, struct status *status);
void results_close(struct results *results);
