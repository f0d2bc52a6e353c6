#include "harness/files/input_files.h"
#include "kernels/base/status.h"
#include <stdlib.h>

struct input_file {
    dev_t device;
    ino_t number;
};

// At file scope, for it is of the process: who reads knows nothing of who writes.
static struct input_file *files;
static size_t count, capacity;
static bool watching;

void input_files_watch(void)
{
    watching = true;
}

bool input_files_have(const struct stat *file)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].device == file->st_dev && files[i].number == file->st_ino)
            return true;
    return false;
}

void input_files_note(int descriptor)
{
    struct stat info;
    if (!watching || descriptor < 0 || fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) ||
        input_files_have(&info))
        return;
    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 16;
        files = realloc(files, capacity * sizeof *files);
        CHECK(files);
    }
    files[count++] = (struct input_file){info.st_dev, info.st_ino};
}
