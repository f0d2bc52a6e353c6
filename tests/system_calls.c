// Preloaded into longbp: tests/system_calls.h.
#define _GNU_SOURCE // RTLD_NEXT, dl_iterate_phdr
#include "tests/system_calls.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS 1024
#define NEXT(name)  ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// --- faults: of calls that the program's own code makes

static bool interrupts, shortens;
static unsigned long failing_read, disk_bytes;
static uintptr_t program_first, program_end;

// The first module is the program.
static int find_program(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            program_first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            program_end = program_first + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static unsigned long number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoul(text, NULL, 10) : 0;
}

static void begin_faults(void)
{
    if (strcmp(program_invocation_short_name, "longbp") != 0) // gnuplot, git, a shell
        return;
    dl_iterate_phdr(find_program, NULL);
    interrupts = number_of("INTERRUPT");
    shortens = number_of("SHORTEN");
    failing_read = number_of("FAIL_READ");
    disk_bytes = number_of("DISK_BYTES");
}

static bool is_own(void *caller)
{
    return (uintptr_t)caller >= program_first && (uintptr_t)caller < program_end;
}

// Whether a call is interrupted: under INTERRUPT, every second call that the program makes to a function, from the
// first on.
#define INTERRUPTED()                                                                                              \
    ({                                                                                                             \
        static atomic_uint calls;                                                                                  \
        bool now = interrupts && is_own(__builtin_return_address(0)) && calls++ % 2 == 0;                          \
        errno = now ? EINTR : errno;                                                                               \
        now;                                                                                                       \
    })

static size_t shortened(size_t bytes, void *caller)
{
    return shortens && bytes > 1 && is_own(caller) ? bytes / 2 : bytes;
}

static bool fails_to_read(void *caller)
{
    static atomic_ulong reads;
    if (!failing_read || !is_own(caller) || ++reads != failing_read)
        return false;
    close(NEXT(open)("failed-read", O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    return true;
}

// A stream reads what is never there, the beginning of the process's memory, until it is mended.
static int break_stream(FILE *stream)
{
    int kept = dup(fileno(stream)), nothing = NEXT(open)("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (kept >= 0 && nothing >= 0)
        dup2(nothing, fileno(stream));
    close(nothing);
    return kept;
}

static void mend_stream(FILE *stream, int kept)
{
    int error = errno;
    dup3(kept, fileno(stream), O_CLOEXEC);
    close(kept);
    errno = error;
}

// Bytes that the stream has read already.
static size_t buffered(const FILE *stream)
{
    return (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
}

FILE *fopen(const char *path, const char *mode)
{
    return INTERRUPTED() ? NULL : NEXT(fopen)(path, mode);
}

size_t fread(void *bytes, size_t size, size_t count, FILE *stream)
{
    if (buffered(stream) >= size * count || !fails_to_read(__builtin_return_address(0)))
        return NEXT(fread)(bytes, size, count, stream);
    int kept = break_stream(stream);
    size_t got = NEXT(fread)(bytes, size, count, stream);
    mend_stream(stream, kept);
    return got;
}

ssize_t getdelim(char **line, size_t *room, int delimiter, FILE *stream)
{
    if (memchr(stream->_IO_read_ptr, delimiter, buffered(stream)) || !fails_to_read(__builtin_return_address(0)))
        return NEXT(getdelim)(line, room, delimiter, stream);
    int kept = break_stream(stream);
    ssize_t got = NEXT(getdelim)(line, room, delimiter, stream);
    mend_stream(stream, kept);
    return got;
}

ssize_t read(int file, void *bytes, size_t count)
{
    if (INTERRUPTED())
        return -1;
    if (!fails_to_read(__builtin_return_address(0)))
        return NEXT(read)(file, bytes, count);
    errno = EIO;
    return -1;
}

ssize_t pread(int file, void *bytes, size_t count, off_t at)
{
    if (INTERRUPTED())
        return -1;
    if (!fails_to_read(__builtin_return_address(0)))
        return NEXT(pread)(file, bytes, count, at);
    errno = EIO;
    return -1;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at)
{
    return INTERRUPTED() ? -1 : NEXT(pwrite)(file, bytes, shortened(count, __builtin_return_address(0)), at);
}

int memfd_create(const char *name, unsigned flags)
{
    return INTERRUPTED() ? -1 : NEXT(memfd_create)(name, flags);
}

int mkostemp(char *path, int flags)
{
    return INTERRUPTED() ? -1 : NEXT(mkostemp)(path, flags);
}

int posix_fallocate(int file, off_t at, off_t bytes)
{
    static atomic_ulong taken;
    if (INTERRUPTED())
        return EINTR;
    if (disk_bytes && (taken += (unsigned long)bytes) > disk_bytes)
        return ENOSPC;
    return NEXT(posix_fallocate)(file, at, bytes);
}

pid_t waitpid(pid_t child, int *ended, int options)
{
    return INTERRUPTED() ? -1 : NEXT(waitpid)(child, ended, options);
}

int poll(struct pollfd *files, nfds_t count, int ms)
{
    return INTERRUPTED() ? -1 : NEXT(poll)(files, count, ms);
}

// --- the record of calls

enum { OTHER, RELATIVE, FOLDER };
static char opened[DESCRIPTORS];
static int journal = -1;
static unsigned long stop_at, calls;

__attribute__((constructor)) static void begin(int argc, char **argv)
{
    const char *path = getenv("CALLS");
    if (path && argc > 1 && strcmp(argv[1], "run") == 0)
        journal = NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    stop_at = number_of("STOP_AT");
    begin_faults();
}

// Before the call.
static void count(void)
{
    if (journal >= 0 && ++calls == stop_at)
        raise(SIGSTOP);
}

// Notes a call after it happened. A failed write leaves out the note.
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
    if (INTERRUPTED())
        return -1;
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
    if (INTERRUPTED())
        return -1;
    bool ours = kind_of(file) == RELATIVE;
    if (ours)
        count();
    ssize_t written = NEXT(write)(file, data, shortened(bytes, __builtin_return_address(0)));
    if (ours && written > 0)
        note((struct recorded_call){.call = CALL_WRITE, .file = inode_of(file), .bytes = (size_t)written}, "", "",
             data);
    return written;
}

int ftruncate(int file, off_t bytes)
{
    if (INTERRUPTED())
        return -1;
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
    if (INTERRUPTED())
        return -1;
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
    if (INTERRUPTED())
        return -1;
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
