#include "harness/files/output_file.h"
#include "harness/files/input_files.h"
#include "harness/files/io.h"
#include "harness/files/unfinished.h"
#include "harness/text/text.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INTERCONNECT_LEVELS_MAX 40 // the kernel's own limit

// --- paths

static char *folder_of(const char *path)
{
    char *copy = strdup(path);
    char *folder = strdup(dirname(copy));
    free(copy);
    return folder;
}

char *output_file_target(const char *path)
{
    char *at = strdup(path), link[PATH_MAX];
    ssize_t bytes;
    for (int i = 0; i < INTERCONNECT_LEVELS_MAX && (bytes = readlink(at, link, sizeof link - 1)) >= 0; i++) {
        char *slash = strrchr(at, '/'), *next;
        link[bytes] = 0; // a relative target starts at the link's folder
        int folder = *link != '/' && slash ? (int)(slash + 1 - at) : 0;
        next = text_new("%.*s%s", folder, at, link);
        free(at);
        at = next;
    }
    return at;
}

bool output_file_rename(const char *from, const char *to)
{
    struct stat info;
    if (lstat(to, &info) == 0 && !S_ISREG(info.st_mode)) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EEXIST;
        return false;
    }
    return rename(from, to) == 0;
}

void output_file_sync_folder(const char *path)
{
    char *folder = folder_of(path);
    int descriptor = io_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (descriptor >= 0) {
        (void)!io_sync(descriptor);
        close(descriptor);
    }
    free(folder);
}

// --- before writing

static bool failed(const char *path, const char *what, struct status *status)
{
    return status_set(status, STATUS_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// Returns stdout or stderr if the path leads to that very file, as /dev/stdout does; else -1.
static int own_descriptor(const struct stat *info)
{
    struct stat own;
    for (int descriptor = STDOUT_FILENO; descriptor <= STDERR_FILENO; descriptor++)
        if (fstat(descriptor, &own) == 0 && same_file(info, &own))
            return descriptor;
    return -1;
}

// Tells whether the file at the path must not be replaced: it is no regular file, or it is reachable by more than
// its name, as behind /dev/stdout.
static bool stays_in_place(const struct stat *info, const char *target)
{
    struct stat named;
    return !S_ISREG(info->st_mode) || own_descriptor(info) >= 0 || stat(target, &named) != 0 ||
           !same_file(info, &named);
}

static bool check_target(const char *path, const char *target, const struct stat *info, struct status *status)
{
    if (info && S_ISDIR(info->st_mode)) {
        errno = EISDIR;
        return failed(path, "write to it", status);
    }
    if (info && access(path, W_OK) != 0)
        return failed(path, "write to it", status);
    if (info && input_files_have(path))
        return status_set(status, STATUS_BAD_INPUT, "%s: is an input of this command; choose another name", path);
    if (info && stays_in_place(info, target))
        return true;
    if (!*target || target[strlen(target) - 1] == '/') {
        errno = *target ? EISDIR : ENOENT;
        return failed(path, "write to it", status);
    }
    char *folder = folder_of(target);
    bool open =
        access(folder, W_OK | X_OK) == 0 ||
        status_set(status, STATUS_IO, "%s: cannot write to its folder %s: %s", path, folder, strerror(errno));
    free(folder);
    return open;
}

bool output_file_check(const char *path, struct status *status)
{
    struct stat info;
    bool there = stat(path, &info) == 0;
    if (!there && errno != ENOENT)
        return failed(path, "write to it", status);
    char *target = output_file_target(path);
    bool open = check_target(path, target, there ? &info : NULL, status);
    free(target);
    return open;
}

// --- writing

// Registers an unused name for removal by signals, then creates it.
static int open_temporary(struct output_file *file)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char *folder = folder_of(file->target);
    file->temporary = text_new("%s/longbp-%ld-%09ld.tmp", folder, (long)getpid(), now.tv_nsec);
    free(folder);
    unfinished_add(file->temporary);
    int descriptor = io_open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) { // another process owns it: do not remove it
        unfinished_drop(file->temporary);
        free(file->temporary);
        file->temporary = NULL;
    }
    return descriptor;
}

static int open_in_place(const char *path, const struct stat *info)
{
    int own = own_descriptor(info);
    return own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 3) : io_open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0);
}

bool output_file_open(struct output_file *file, const char *path, struct status *status)
{
    *file = (struct output_file){.path = strdup(path)};
    if (!output_file_check(path, status))
        return false;
    struct stat info;
    bool there = stat(path, &info) == 0;
    file->target = output_file_target(path);
    int descriptor;
    if (there && stays_in_place(&info, file->target)) {
        free(file->target);
        file->target = NULL;
        descriptor = open_in_place(path, &info);
    } else {
        descriptor = open_temporary(file);
        if (descriptor >= 0 && there) { // keep the owner and permissions of the file it replaces
            (void)!fchown(descriptor, info.st_uid, info.st_gid);
            (void)!fchmod(descriptor, info.st_mode & 0777);
        }
    }
    if (descriptor < 0)
        return failed(path, "open it for writing", status);
    file->stream = fdopen(descriptor, "wb");
    CHECK(file->stream);
    return true;
}

bool output_file_append(struct output_file *file, const void *bytes, size_t count, struct status *status)
{
    return fwrite(bytes, 1, count, file->stream) == count || failed(file->path, "write", status);
}

bool output_file_commit(struct output_file *file, struct status *status)
{
    if (!file->stream)
        return false;
    bool written = (io_flush(file->stream) && io_sync(fileno(file->stream))) || failed(file->path, "write", status);
    bool closed = fclose(file->stream) == 0 || failed(file->path, "write", status);
    file->stream = NULL;
    bool done = written && closed;
    if (done && file->temporary) {
        done = output_file_rename(file->temporary, file->target) ||
               failed(file->path, "give the finished file its name", status);
        if (done) {
            unfinished_drop(file->temporary);
            free(file->temporary);
            file->temporary = NULL;
            output_file_sync_folder(file->target);
        }
    }
    output_file_discard(file);
    return done;
}

void output_file_discard(struct output_file *file)
{
    if (file->stream)
        fclose(file->stream);
    if (file->temporary) {
        unlink(file->temporary);
        unfinished_drop(file->temporary);
    }
    free(file->temporary);
    free(file->target);
    free(file->path);
    *file = (struct output_file){0};
}

bool output_file_write(const char *path, const void *bytes, size_t count, struct status *status)
{
    struct output_file file;
    bool written = output_file_open(&file, path, status) && output_file_append(&file, bytes, count, status) &&
                   output_file_commit(&file, status);
    output_file_discard(&file);
    return written;
}
