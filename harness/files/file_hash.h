// File hash: XXH3 of the bytes of files, which are read as streams.
#pragma once
#include "kernels/base/status.h"
#include <xxhash.h>

// False and a status if the file cannot be read.
bool file_hash_add(XXH3_state_t *state, const char *path, struct status *status);
