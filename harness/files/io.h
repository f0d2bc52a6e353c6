// I/O: system calls that restart after a signal (EINTR) and transfer all bytes, however few the kernel moves at a
// time. They are safe between fork and exec and in signal handlers. Streams of the C library finish short writes
// themselves, and no handler of this program interrupts them: each ends the program or restarts the call
// (SA_RESTART).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

// open(2); mode: of a file that it creates. Returns -1 and errno on failure.
int io_open(const char *path, int flags, mode_t mode);
// Creates a file in memory, which ends with its last descriptor and is closed on exec. Returns -1 and errno on
// failure.
int io_memory_file(const char *name);
// flock(2). Returns false and errno if the lock is taken.
bool io_lock(int file, int operation);
bool io_truncate(int file, off_t bytes);
// Waits until written data is on the disk. Devices and pipes have nothing to sync and succeed at once.
bool io_sync(int file);

// Reads once, at most `count` bytes. Returns 0 at the end of the file; -1 and errno on failure, also if no data is
// available yet.
ssize_t io_read(int file, void *bytes, size_t count);
// Reads up to `count` bytes from `at` on, fewer only at the end of the file. Returns -1 and errno on failure.
ssize_t io_read_at(int file, void *bytes, size_t count, off_t at);
// Writes all bytes. Returns false and errno on failure; some may have been written.
bool io_write(int file, const void *bytes, size_t count);
bool io_write_at(int file, const void *bytes, size_t count, off_t at);
// Flushes a stream. Returns false and errno if this or an earlier write failed: the descriptor may then get one
// byte more.
bool io_flush(FILE *stream);

// waitpid(2). Returns the child, 0 if WNOHANG is set and none has ended, -1 and errno on failure.
pid_t io_wait(pid_t child, int *ended, int options);

// Removes a folder with all in it, as far as it can; follows no links. Not for signal handlers.
void io_remove_all(const char *folder);
