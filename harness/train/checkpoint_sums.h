// Checkpoint sums: the XXH3 of each file of a checkpoint, in a file for `xxhsum -c`.
#pragma once
#include "kernels/base/status.h"

#define CHECKPOINT_SUMS "checksums.xxh3"

// Writes the sums of all files in the folder. Returns false and a status (io) on failure.
bool checkpoint_sums_write(const char *folder, struct status *status);
// Checks the listed files, except other ranks' states: names that begin with `others` and are not `own`. Returns
// false and a status (bad input) that names the first changed file. A folder of an earlier version has no sums:
// *known becomes false and nothing is checked.
bool checkpoint_sums_check(const char *folder, const char *others, const char *own, bool *known,
                           struct status *status);
