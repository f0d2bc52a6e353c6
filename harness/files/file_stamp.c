#include "harness/files/file_stamp.h"
#include <fcntl.h>
#include <sys/stat.h>

static bool stamp_of(struct file_stamp *stamp, int descriptor, const char *path)
{
    struct stat info;
    bool open = descriptor >= 0;
    if (fstatat(open ? descriptor : AT_FDCWD, open ? "" : path, &info, AT_EMPTY_PATH) != 0)
        return false;
    *stamp = (struct file_stamp){info.st_dev, info.st_ino, info.st_size, info.st_mtim};
    return true;
}

bool file_stamp_take(struct file_stamp *stamp, int descriptor)
{
    return stamp_of(stamp, descriptor, "");
}

bool file_stamp_check(const struct file_stamp *stamp, int descriptor, const char *path, struct status *status)
{
    struct file_stamp now;
    if (!stamp_of(&now, descriptor, path) || now.device != stamp->device || now.number != stamp->number)
        return true; // the opened file still exists, without its name
    return (now.bytes == stamp->bytes && now.modified.tv_sec == stamp->modified.tv_sec &&
            now.modified.tv_nsec == stamp->modified.tv_nsec) ||
           status_set(
               status, STATUS_BAD_INPUT,
               "%s: changed while it was read; with the old file --resume continues after the last checkpoint",
               path);
}
