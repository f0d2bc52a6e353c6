// Fuzzed file: the bytes of a fuzzer's input as a file in memory, for readers that take a path or a folder. Before
// it is included, _GNU_SOURCE is defined, for memfd_create.
#pragma once
#include "kernels/base/status.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct fuzzed_path {
    char text[300];
};

// One file, whose bytes are those of the last call.
static inline struct fuzzed_path fuzzed_file(const uint8_t *bytes, size_t count)
{
    static int memory = -1;
    struct fuzzed_path path;
    memory = memory < 0 ? memfd_create("fuzz", 0) : memory;
    CHECK(memory >= 0 && pwrite(memory, bytes, count, 0) == (ssize_t)count && ftruncate(memory, (off_t)count) == 0);
    snprintf(path.text, sizeof path.text, "/proc/self/fd/%d", memory);
    return path;
}

static inline void fuzzed_name(struct fuzzed_path folder, struct fuzzed_path file, const char *name)
{
    char link[400];
    snprintf(link, sizeof link, "%s/%s", folder.text, name);
    CHECK(symlink(file.text, link) == 0);
}

// A new folder under $TMPDIR in which that file has this name; made once, and left.
static inline struct fuzzed_path fuzzed_folder(struct fuzzed_path file, const char *name)
{
    const char *parent = getenv("TMPDIR");
    struct fuzzed_path folder;
    int length = snprintf(folder.text, sizeof folder.text, "%s/longbp-fuzz-XXXXXX", parent ? parent : "/tmp");
    CHECK(length < (int)sizeof folder.text && mkdtemp(folder.text));
    fuzzed_name(folder, file, name);
    return folder;
}

// A reader says what is wrong, and that something is, or neither.
static inline void fuzzed_check(bool ok, const struct status *status)
{
    CHECK(ok == (status->code == STATUS_OK) && ok == (status->message[0] == '\0'));
}
