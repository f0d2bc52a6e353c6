// Output file: the output of a command at a path that its user named. A regular file is written under a temporary
// name beside it and renamed when complete, so readers see the old file or the new one. Devices, pipes and
// /dev/stdout are written in place and never replaced. Symbolic links are followed.
#pragma once
#include "kernels/base/status.h"

struct output_file {
    FILE *stream;
    char *path;               // as it was named
    char *target, *temporary; // the regular file it leads to, and its temporary name; NULL: written in place
};

// Tells whether the path can be written to; called before the work that produces the output. Returns false and a
// status (io) that names the folder or file in the way.
bool output_file_check(const char *path, struct status *status);
// Opens the path for writing; waits for the reader of a pipe. Returns false and a status (io) on failure. Release
// with output_file_commit or output_file_discard, also after a failure.
bool output_file_open(struct output_file *file, const char *path, struct status *status);
// Writes the next bytes. Returns false and a status (io) on failure; discard the file then.
bool output_file_append(struct output_file *file, const void *bytes, size_t count, struct status *status);
// Syncs to disk and renames a regular file into place. On failure returns a status (io) and leaves nothing behind.
bool output_file_commit(struct output_file *file, struct status *status);
// Closes and removes an incomplete file. Does nothing after a commit.
void output_file_discard(struct output_file *file);
// Writes a whole file at once.
bool output_file_write(const char *path, const void *bytes, size_t count, struct status *status);

// The path with symbolic links followed, whether the file exists or not; to be freed.
char *output_file_target(const char *path);
// Renames onto an unused name or a regular file. Returns false and errno for any other target.
bool output_file_rename(const char *from, const char *to);
// Makes a new file's name durable, on file systems that support it.
void output_file_sync_folder(const char *path);
