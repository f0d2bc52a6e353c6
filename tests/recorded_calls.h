// Recorded calls: what a sweep does to files that a crash might lose, system call by system call, as the library
// recorded_calls.so, which is preloaded into longbp, writes it to the file that $CALLS names. Calls of the sweep's
// own process alone, on paths that are relative.
#pragma once
#include <stddef.h>

enum call { CALL_CREATE, CALL_LOCK, CALL_WRITE, CALL_TRUNCATE, CALL_SYNC, CALL_RENAME, CALL_MAKE_FOLDER };

#define CALL_PATH_BYTES 64

struct recorded_call {
    enum call call;
    unsigned long file; // its inode; of a sync 0: a folder
    size_t bytes;       // written, and then follow; of a truncate the file's length
    char path[CALL_PATH_BYTES], to[CALL_PATH_BYTES];
};
