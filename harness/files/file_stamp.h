// File stamp: detects that a file was written to while it was being read.
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

// Takes the stamp of an open file. Returns false if the system does not provide one.
bool file_stamp_take(struct file_stamp *stamp, int descriptor);
// Compares the stamp with the open file or, with a descriptor below 0, with the file that has the path now, unless
// that is another file. Called after a read, it vouches for the bytes read. Returns false and a status (bad input)
// if size or time differ.
bool file_stamp_check(const struct file_stamp *stamp, int descriptor, const char *path, struct status *status);
