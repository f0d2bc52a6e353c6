// File hash: XXH3 over the bytes of files, read as streams.
#pragma once
#include "kernels/base/status.h"
#include <xxhash.h>

// Returns false and sets a status if the file cannot be read.
bool file_hash_add(XXH3_state_t *state, const char *path, struct status *status);
