// File stamp: what tells that a file which is read over a long time is being written to.
#pragma once
#include "kernels/base/status.h"
#include <sys/types.h>
#include <time.h>

struct file_stamp {
    dev_t device;
    ino_t number;
    off_t bytes;
    struct timespec modified;
};

// Takes the stamp of an open file. False if its system does not say.
bool file_stamp_take(struct file_stamp *stamp, int descriptor);
// Held against the file as it is: the open one, or below 0 what now has the path, unless that is another file.
// Asked after a read, it vouches for what was read. False and a status (bad input) if size or time differ.
bool file_stamp_check(const struct file_stamp *stamp, int descriptor, const char *path, struct status *status);
