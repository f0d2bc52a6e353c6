#include "harness/files/input_files.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

// The system may reuse a removed file's inode number, so the creation time tells them apart, or the time of the
// last change on file systems without creation times.
struct input_file {
    unsigned major, minor;
    unsigned long long number;
    long long seconds;
    unsigned nanoseconds;
};

// At file scope because readers and writers do not know each other.
static struct {
    bool watched;
    size_t count, capacity;
    struct input_file *items; // [count]
} files;

void input_files_watch(void)
{
    files.watched = true;
}

// Returns false if it is no regular file.
static bool identify(int descriptor, const char *path, struct input_file *file)
{
    struct statx info;
    if (statx(descriptor, path, AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &info) != 0 ||
        !S_ISREG(info.stx_mode))
        return false;
    struct statx_timestamp time = info.stx_mask & STATX_BTIME ? info.stx_btime : info.stx_mtime;
    *file = (struct input_file){info.stx_dev_major, info.stx_dev_minor, info.stx_ino, time.tv_sec, time.tv_nsec};
    return true;
}

static bool have(const struct input_file *file)
{
    for (size_t i = 0; i < files.count; i++) {
        const struct input_file *read = &files.items[i];
        if (read->major == file->major && read->minor == file->minor && read->number == file->number &&
            read->seconds == file->seconds && read->nanoseconds == file->nanoseconds)
            return true;
    }
    return false;
}

bool input_files_have(const char *path)
{
    struct input_file file;
    return files.count > 0 && identify(AT_FDCWD, path, &file) && have(&file);
}

static void note(int descriptor, const char *path)
{
    struct input_file file;
    if (!files.watched || !identify(descriptor, path, &file) || have(&file))
        return;
    if (files.count == files.capacity) {
        files.capacity = files.capacity ? 2 * files.capacity : 16;
        files.items = realloc(files.items, files.capacity * sizeof *files.items);
    }
    files.items[files.count++] = file;
}

void input_files_note(int descriptor)
{
    if (descriptor >= 0)
        note(descriptor, "");
}

void input_files_name(const char *path)
{
    note(AT_FDCWD, path);
}
