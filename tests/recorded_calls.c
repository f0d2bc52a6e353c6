// Preloaded into longbp: tests/recorded_calls.h. With $STOP_AT=N the process stops (SIGSTOP) before the Nth of the
// calls, until somebody continues it.
#define _GNU_SOURCE // RTLD_NEXT
#include "tests/recorded_calls.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 1024
#define NEXT(name)  ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { OTHER, RELATIVE, FOLDER };
static char opened[DESCRIPTORS];
static int journal = -1;
static unsigned long stop_at, calls;

__attribute__((constructor)) static void begin(int argc, char **argv)
{
    const char *path = getenv("CALLS"), *stop = getenv("STOP_AT");
    if (path && argc > 1 && strcmp(argv[1], "run") == 0)
        journal = NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    stop_at = stop ? strtoul(stop, NULL, 10) : 0;
}

// Before the call.
static void count(void)
{
    if (journal >= 0 && ++calls == stop_at)
        raise(SIGSTOP);
}

// Behind it. What cannot be written is missed by who reads it.
static void note(struct recorded_call call, const char *path, const char *to, const void *data)
{
    snprintf(call.path, sizeof call.path, "%s", path);
    snprintf(call.to, sizeof call.to, "%s", to);
    if (journal < 0 || NEXT(write)(journal, &call, sizeof call) != sizeof call)
        return;
    if (data && NEXT(write)(journal, data, call.bytes) < 0)
        abort();
}

static unsigned long inode_of(int file)
{
    struct stat info;
    return fstat(file, &info) == 0 ? info.st_ino : 0;
}

static int kind_of(int file)
{
    return journal >= 0 && file >= 0 && file < DESCRIPTORS ? opened[file] : OTHER;
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list arguments;
    va_start(arguments, flags);
    if (flags & O_CREAT)
        mode = va_arg(arguments, mode_t);
    va_end(arguments);
    bool ours = journal >= 0 && path[0] != '/', makes = ours && flags & O_CREAT && access(path, F_OK) != 0;
    if (ours && flags & O_CREAT)
        count();
    int file = NEXT(open)(path, flags, mode);
    if (file >= 0 && file < DESCRIPTORS)
        opened[file] = ours ? flags & O_DIRECTORY ? FOLDER : RELATIVE : OTHER;
    if (makes && file >= 0)
        note((struct recorded_call){.call = CALL_CREATE, .file = inode_of(file)}, path, "", NULL);
    return file;
}

int close(int file)
{
    if (file >= 0 && file < DESCRIPTORS)
        opened[file] = OTHER;
    return NEXT(close)(file);
}

ssize_t write(int file, const void *data, size_t bytes)
{
    bool ours = kind_of(file) == RELATIVE;
    if (ours)
        count();
    ssize_t written = NEXT(write)(file, data, bytes);
    if (ours && written > 0)
        note((struct recorded_call){.call = CALL_WRITE, .file = inode_of(file), .bytes = (size_t)written}, "", "",
             data);
    return written;
}

int ftruncate(int file, off_t bytes)
{
    bool ours = kind_of(file) == RELATIVE;
    if (ours)
        count();
    int failed = NEXT(ftruncate)(file, bytes);
    if (ours && !failed)
        note((struct recorded_call){.call = CALL_TRUNCATE, .file = inode_of(file), .bytes = (size_t)bytes}, "", "",
             NULL);
    return failed;
}

int fsync(int file)
{
    int kind = kind_of(file);
    if (kind != OTHER)
        count();
    int failed = NEXT(fsync)(file);
    if (kind != OTHER && !failed)
        note((struct recorded_call){.call = CALL_SYNC, .file = kind == FOLDER ? 0 : inode_of(file)}, "", "", NULL);
    return failed;
}

int flock(int file, int operation)
{
    bool ours = kind_of(file) == RELATIVE;
    if (ours)
        count();
    int failed = NEXT(flock)(file, operation);
    if (ours && !failed)
        note((struct recorded_call){.call = CALL_LOCK, .file = inode_of(file)}, "", "", NULL);
    return failed;
}

int rename(const char *from, const char *to)
{
    count();
    int failed = NEXT(rename)(from, to);
    if (!failed)
        note((struct recorded_call){.call = CALL_RENAME}, from, to, NULL);
    return failed;
}

int mkdir(const char *path, mode_t mode)
{
    bool ours = path[0] != '/';
    if (ours)
        count();
    int failed = NEXT(mkdir)(path, mode);
    if (ours && !failed)
        note((struct recorded_call){.call = CALL_MAKE_FOLDER}, path, "", NULL);
    return failed;
}
