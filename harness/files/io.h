// I/O: system calls that start again when a signal interrupts them (EINTR), and that move as many bytes as were
// asked for, however few the kernel moves at a time. They may be called between fork and exec, and from a signal
// handler. The C library's streams write on after a short write themselves, and no handler of this program
// interrupts them: each ends the program or restarts the call (SA_RESTART).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

// As open(2); mode: of a file that it makes. -1 and errno if it fails.
int io_open(const char *path, int flags, mode_t mode);
// A new file in memory, which ends with its last descriptor and is closed on exec. -1 and errno if there is none.
int io_memory_file(const char *name);
// As flock(2). False and errno if the lock is not to be had.
bool io_lock(int file, int operation);
bool io_truncate(int file, off_t bytes);
// Waits until what was written is on the disk. What has nothing to sync, as devices and pipes, is done at once.
bool io_sync(int file);

// Reads once, at most `count` bytes; returns 0 at the end of the file. -1 and errno if it fails, also if no data
// is available yet.
ssize_t io_read(int file, void *bytes, size_t count);
// Up to `count` bytes from `at` on, fewer only where the file ends before. -1 and errno if it fails.
ssize_t io_read_at(int file, void *bytes, size_t count, off_t at);
// All of the bytes. False and errno if it fails; some may be written.
bool io_write(int file, const void *bytes, size_t count);
bool io_write_at(int file, const void *bytes, size_t count, off_t at);
// Writes out what a stream still holds. False and errno if that failed, or a write before it did: the descriptor
// then may get one byte more.
bool io_flush(FILE *stream);

// As waitpid(2): which child it is, 0 if WNOHANG is among the options and none has ended, -1 and errno if it fails.
pid_t io_wait(pid_t child, int *ended, int options);
