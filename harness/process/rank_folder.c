// The owner holds a lock on a file in its folder. Any end of the owner, also SIGKILL, releases it: a folder that
// can be locked has no owner.
#include "harness/process/rank_folder.h"
#include "harness/files/io.h"
#include "harness/text/text.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "longbp-ranks-";

static int open_lock(const char *folder, int flags)
{
    char *path = text_new("%s/lock", folder);
    int lock = io_open(path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    free(path);
    return lock;
}

static void remove_if_left(const char *path)
{
    struct stat information;
    int lock = open_lock(path, 0);
    if (lock < 0)
        return;
    if (fstat(lock, &information) == 0 && information.st_uid == geteuid() && io_lock(lock, LOCK_EX | LOCK_NB))
        io_remove_all(path);
    close(lock);
}

static void remove_those_left(const char *parent)
{
    DIR *entries = opendir(parent);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        char *path = text_new("%s/%s", parent, entry->d_name);
        remove_if_left(path);
        free(path);
    }
    if (entries)
        closedir(entries);
}

// Returns false if another process took it for an abandoned folder before it was locked.
static bool lock_it(struct rank_folder *folder)
{
    folder->lock = open_lock(folder->path, O_CREAT | O_EXCL);
    if (folder->lock < 0 || !io_lock(folder->lock, LOCK_EX))
        return true; // a file system without locks: abandoned folders stay
    return access(folder->path, F_OK) == 0;
}

bool rank_folder_make(struct rank_folder *folder, struct status *status)
{
    const char *parent = getenv("TMPDIR");
    parent = parent && *parent ? parent : "/tmp";
    remove_those_left(parent);
    for (;; rank_folder_remove(folder)) {
        *folder = (struct rank_folder){.lock = -1};
        folder->path = text_new("%s/%sXXXXXX", parent, prefix);
        if (!mkdtemp(folder->path)) {
            status_set(status, STATUS_IO, "cannot make a folder for the ranks, %s: %s", folder->path,
                       strerror(errno));
            rank_folder_remove(folder);
            return false;
        }
        if (lock_it(folder))
            return true;
    }
}

void rank_folder_remove(struct rank_folder *folder)
{
    if (!folder->path)
        return;
    io_remove_all(folder->path);
    if (folder->lock >= 0)
        close(folder->lock);
    free(folder->path);
    *folder = (struct rank_folder){.lock = -1};
}
