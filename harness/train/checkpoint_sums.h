// Checkpoint sums: the XXH3 of each file of a checkpoint, in a file of the form that `xxhsum -c` reads.
#pragma once
#include "kernels/base/status.h"

#define CHECKPOINT_SUMS "checksums.xxh3"

// Writes the sums of all files in the folder. False and a status (io).
bool checkpoint_sums_write(const char *folder, struct status *status);
// Reads the files that it lists, but those of other ranks' states: which begin with `others` and are not `own`.
// False and a status (bad input) that names the first that is not as it was written. A folder without sums is of an
// earlier version: *known is false, and nothing is held against anything.
bool checkpoint_sums_check(const char *folder, const char *others, const char *own, bool *known,
                           struct status *status);
