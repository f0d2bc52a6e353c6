// System calls: the library system_calls.so, which is preloaded into longbp, records them and makes them fail.
//
// It writes to the file that $CALLS names what a sweep does to files that a crash might lose, call by call: calls
// of the sweep's own process alone, on paths that are relative. With $STOP_AT=N the process stops (SIGSTOP) before
// the Nth of them, until somebody continues it.
//
// Faults are of calls that the program's own code makes, in each of its processes:
// $INTERRUPT=1    every call that a signal may interrupt fails with EINTR, and the next one of its kind does not
// $SHORTEN=1      a write takes half of its bytes
// $FAIL_READ=N    the Nth read, of a stream too, fails with EIO and makes the file failed-read
// $DISK_BYTES=N   posix_fallocate has room for N bytes in all, and then ENOSPC
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
