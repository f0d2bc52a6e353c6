#define _GNU_SOURCE // asprintf
#include "harness/results/result_log.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool io_failed(const struct result_log *log, const char *what, struct status *status)
{
    return status_set(status, STATUS_IO, "%s: cannot %s: %s", log->path, what, strerror(errno));
}

// Makes the folder of the file, should it be missing (one level), or syncs it, so that a new file stays.
static void with_folder(const char *path, bool create)
{
    char *copy = strdup(path);
    CHECK(copy);
    char *folder = dirname(copy);
    if (create) {
        mkdir(folder, 0777); // if this fails, opening the file will say why
    } else {
        int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (file >= 0) {
            fsync(file);
            close(file);
        }
    }
    free(copy);
}

// Whether the path still leads to the file we hold: another sweep may have moved it away before we had the lock.
static bool is_current(const struct result_log *log)
{
    struct stat ours, theirs;
    return fstat(log->file, &ours) == 0 && stat(log->path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
           ours.st_dev == theirs.st_dev;
}

static void close_file(struct result_log *log)
{
    if (log->file >= 0)
        close(log->file); // gives up the lock
    log->file = -1;
}

static bool open_locked(struct result_log *log, struct status *status)
{
    for (;;) {
        struct stat file;
        log->file = open(log->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (log->file < 0 || fstat(log->file, &file) != 0)
            return io_failed(log, "open it for writing", status);
        log->regular = S_ISREG(file.st_mode);
        if (!log->regular)
            return true;
        if (flock(log->file, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK)
                return io_failed(log, "lock it", status);
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: another sweep is writing to this file; wait for it, or choose another --out",
                              log->path);
        }
        log->end = file.st_size;
        if (is_current(log))
            return true;
        close_file(log);
    }
}

static bool move_away(struct result_log *log, struct status *status)
{
    char *backup;
    CHECK(asprintf(&backup, "%s.bak", log->path) > 0);
    bool moved = rename(log->path, backup) == 0 || io_failed(log, "move it to a .bak", status);
    free(backup);
    close_file(log);
    return moved && open_locked(log, status);
}

static bool cut(struct result_log *log)
{
    return ftruncate(log->file, log->end) == 0 && fsync(log->file) == 0;
}

bool result_log_open(struct result_log *log, const char *path, bool fresh, struct status *status)
{
    *log = (struct result_log){.path = path, .file = -1};
    with_folder(path, true);
    if (!open_locked(log, status))
        return false;
    if (fresh && log->regular && log->end > 0 && !move_away(log, status))
        return false;
    if (!log->regular)
        return true;
    if (!result_file_read(&log->existing, path, status))
        return false;
    result_file_warn(&log->existing);
    log->unterminated = log->existing.unterminated;
    bool torn = log->existing.intact_bytes < log->existing.bytes;
    log->end = (off_t)log->existing.intact_bytes;
    if (torn && !cut(log))
        return io_failed(log, "cut off its torn last line", status);
    with_folder(path, false);
    return true;
}

bool result_log_append(struct result_log *log, const char *line, struct status *status)
{
    char *text;
    int bytes = asprintf(&text, "%s%s\n", log->unterminated ? "\n" : "", line);
    CHECK(bytes > 0);
    int written = 0;
    errno = 0;
    while (written < bytes) {
        ssize_t more = write(log->file, text + written, (size_t)(bytes - written));
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            break;
        written += (int)more;
    }
    free(text);
    // Devices and pipes have nothing to sync.
    bool synced =
        written == bytes && (fsync(log->file) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS);
    if (synced) {
        log->end += bytes;
        log->unterminated = false;
        return true;
    }
    io_failed(log, "write a record", status);
    if (log->regular && !cut(log))
        fprintf(stderr, "%s: the last line may be torn: %s\n", log->path, strerror(errno));
    return false;
}

void result_log_close(struct result_log *log)
{
    close_file(log);
    result_file_close(&log->existing);
    *log = (struct result_log){.file = -1};
}
