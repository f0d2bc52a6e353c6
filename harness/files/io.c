#include "harness/files/io.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNINTERRUPTED(result, call)                                                                                \
    do                                                                                                             \
        (result) = (call);                                                                                         \
    while ((result) < 0 && errno == EINTR)

int io_open(const char *path, int flags, mode_t mode)
{
    int file;
    UNINTERRUPTED(file, open(path, flags, mode));
    return file;
}

int io_memory_file(const char *name)
{
    int file;
    UNINTERRUPTED(file, memfd_create(name, MFD_CLOEXEC));
    return file;
}

bool io_lock(int file, int operation)
{
    int failed;
    UNINTERRUPTED(failed, flock(file, operation));
    return !failed;
}

bool io_truncate(int file, off_t bytes)
{
    int failed;
    UNINTERRUPTED(failed, ftruncate(file, bytes));
    return !failed;
}

bool io_sync(int file)
{
    int failed;
    UNINTERRUPTED(failed, fsync(file));
    return !failed || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

ssize_t io_read(int file, void *bytes, size_t count)
{
    ssize_t got;
    UNINTERRUPTED(got, read(file, bytes, count));
    return got;
}

ssize_t io_read_at(int file, void *bytes, size_t count, off_t at)
{
    size_t done = 0;
    ssize_t got = 1;
    while (done < count && got > 0) {
        UNINTERRUPTED(got, pread(file, (char *)bytes + done, count - done, at + (off_t)done));
        done += got > 0 ? (size_t)got : 0;
    }
    return got < 0 ? -1 : (ssize_t)done;
}

// at: -1 writes at the file's position.
static bool write_all(int file, const char *bytes, size_t count, off_t at)
{
    for (size_t done = 0; done < count;) {
        ssize_t written;
        UNINTERRUPTED(written, at < 0 ? write(file, bytes + done, count - done)
                                      : pwrite(file, bytes + done, count - done, at + (off_t)done));
        if (written <= 0) {
            errno = written < 0 ? errno : EIO;
            return false;
        }
        done += (size_t)written;
    }
    return true;
}

bool io_write(int file, const void *bytes, size_t count)
{
    return write_all(file, bytes, count, -1);
}

bool io_write_at(int file, const void *bytes, size_t count, off_t at)
{
    return write_all(file, bytes, count, at);
}

bool io_flush(FILE *stream)
{
    bool written = fflush(stream) == 0;
    if (!written || !ferror(stream))
        return written;
    if (io_write(fileno(stream), "\n", 1)) // otherwise errno is still that of the earlier failure
        errno = EIO;
    return false;
}

pid_t io_wait(pid_t child, int *ended, int options)
{
    pid_t waited;
    UNINTERRUPTED(waited, waitpid(child, ended, options));
    return waited;
}

static int remove_one(const char *path, const struct stat *information, int kind, struct FTW *where)
{
    (void)information, (void)kind, (void)where;
    remove(path); // another process may have removed it too
    return 0;
}

void io_remove_all(const char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
