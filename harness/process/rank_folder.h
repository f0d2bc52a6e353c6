// Rank folder: where the ranks of one launch keep files of their own while they live, under TMPDIR or /tmp.
#pragma once
#include "kernels/base/status.h"

struct rank_folder {
    char *path;
    int lock; // held while the one that made it lives; -1: none could be had
};

// Also removes those whose makers were killed. False and a status (I/O) if it cannot be made.
bool rank_folder_make(struct rank_folder *folder, struct status *status);
// With all that is in it: after the ranks have ended.
void rank_folder_remove(struct rank_folder *folder);
