// Rank folder: temporary files of the ranks of one launch, under TMPDIR or /tmp.
#pragma once
#include "kernels/base/status.h"

struct rank_folder {
    char *path;
    int lock; // held during the owner's life; -1: no lock available
};

// Creates the folder and removes those of killed owners. Returns false and a status (I/O) on failure.
bool rank_folder_make(struct rank_folder *folder, struct status *status);
// Removes the folder and its contents, after the ranks have ended.
void rank_folder_remove(struct rank_folder *folder);
