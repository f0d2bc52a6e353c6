// Scratch: a temporary folder for one test, under $TMPDIR, and the small files tests put there.
#pragma once
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct scratch {
    char folder[256];
};

// A new folder within another.
static inline struct scratch scratch_within(const char *parent)
{
    struct scratch scratch;
    int length = snprintf(scratch.folder, sizeof scratch.folder, "%s/longbp-test-XXXXXX", parent);
    if (length >= (int)sizeof scratch.folder || !mkdtemp(scratch.folder)) {
        perror(scratch.folder);
        abort();
    }
    return scratch;
}

static inline struct scratch scratch_open(void)
{
    const char *parent = getenv("TMPDIR");
    return scratch_within(parent && *parent ? parent : "/tmp");
}

static inline int scratch_remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static inline void scratch_close(struct scratch *scratch)
{
    nftw(scratch->folder, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// For cmocka_unit_test_setup_teardown: *state is the test's folder, which goes away also when the test fails.
static inline int scratch_setup(void **state)
{
    struct scratch *scratch = malloc(sizeof *scratch);
    if (!scratch)
        abort();
    *scratch = scratch_open();
    *state = scratch;
    return 0;
}

static inline int scratch_teardown(void **state)
{
    scratch_close(*state);
    free(*state);
    return 0;
}

// The path of a name in the folder.
struct scratch_path {
    char text[512];
};
static inline struct scratch_path scratch_path(const struct scratch *scratch, const char *name)
{
    struct scratch_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", scratch->folder, name);
    return path;
}

static inline struct scratch_path scratch_file(const struct scratch *scratch, const char *name, const void *bytes,
                                               size_t count)
{
    struct scratch_path path = scratch_path(scratch, name);
    FILE *file = fopen(path.text, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path.text);
        abort();
    }
    return path;
}

// The same of a text.
static inline struct scratch_path scratch_text(const struct scratch *scratch, const char *name, const char *text)
{
    return scratch_file(scratch, name, text, strlen(text));
}

// How many entries the folder has.
static inline size_t scratch_entries(const struct scratch *scratch)
{
    DIR *entries = opendir(scratch->folder);
    size_t count = 0;
    while (entries && readdir(entries))
        count++;
    if (!entries)
        abort();
    closedir(entries);
    return count - 2; // "." and ".."
}
