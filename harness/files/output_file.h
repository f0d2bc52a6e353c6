// Output file: what a command writes to a path that its user named. A regular file is written under another name
// beside it and takes its place when it is complete, so that it is whole or what it was. What is not regular (a
// device, a pipe, /dev/stdout) is written to where it is, and never replaced. Symbolic links are followed.
#pragma once
#include "kernels/base/status.h"

struct output_file {
    FILE *stream;
    char *path;               // as it was named
    char *target, *temporary; // the regular file it leads to, and its name until then; NULL: written in place
};

// Whether the path can be written to: asked before the work whose result goes there. False and a status (io) that
// names the folder or file in the way.
bool output_file_check(const char *path, struct status *status);
// Opens the path for writing; a pipe without a reader is waited for. False and a status (io) if it cannot be.
// Release with output_file_commit or output_file_discard, also after a failure.
bool output_file_open(struct output_file *file, const char *path, struct status *status);
// Writes the next bytes. False and a status (io) if that failed; the file is then to be discarded.
bool output_file_append(struct output_file *file, const void *bytes, size_t count, struct status *status);
// Waits until all is on the disk and gives a regular file its name. After a failure a status (io), and nothing is
// left behind.
bool output_file_commit(struct output_file *file, struct status *status);
// Closes and removes what is not complete. Nothing happens after a commit.
void output_file_discard(struct output_file *file);
// All of a file at once.
bool output_file_write(const char *path, const void *bytes, size_t count, struct status *status);

// What the path leads to, its symbolic links followed, whether it is there or not; to be freed.
char *output_file_target(const char *path);
// Renames onto a name that nothing or a regular file has. False and errno if something else has it.
bool output_file_rename(const char *from, const char *to);
// Makes the name of a new file durable, on file systems that can.
void output_file_sync_folder(const char *path);
