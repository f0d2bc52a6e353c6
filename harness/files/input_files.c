#include "harness/files/input_files.h"
#include "kernels/base/status.h"
#include <stdlib.h>

struct input_file {
    dev_t device;
    ino_t number;
};

// At file scope, for it is of the process: who reads knows nothing of who writes.
static struct {
    bool watched;
    size_t count, capacity;
    struct input_file *items; // [count]
} files;

void input_files_watch(void)
{
    files.watched = true;
}

bool input_files_have(const struct stat *file)
{
    for (size_t i = 0; i < files.count; i++)
        if (files.items[i].device == file->st_dev && files.items[i].number == file->st_ino)
            return true;
    return false;
}

static void note(const struct stat *info)
{
    if (!files.watched || !S_ISREG(info->st_mode) || input_files_have(info))
        return;
    if (files.count == files.capacity) {
        files.capacity = files.capacity ? 2 * files.capacity : 16;
        files.items = realloc(files.items, files.capacity * sizeof *files.items);
        CHECK(files.items);
    }
    files.items[files.count++] = (struct input_file){info->st_dev, info->st_ino};
}

void input_files_note(int descriptor)
{
    struct stat info;
    if (descriptor >= 0 && fstat(descriptor, &info) == 0)
        note(&info);
}

void input_files_name(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0)
        note(&info);
}
