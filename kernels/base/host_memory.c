#define _GNU_SOURCE // fopencookie, vasprintf
#include "kernels/base/host_memory.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <regex.h>
#include <search.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *program;
    int exit_code;
    void (*clean_up)(void);
} ending = {"longbp", 2, NULL};

void host_memory_settle(const char *program, int exit_code, void (*clean_up)(void))
{
    ending.program = program;
    ending.exit_code = exit_code;
    ending.clean_up = clean_up;
}

// Calls _exit, because this may be any thread and exit handlers may need memory too.
void host_memory_exhausted(const char *what)
{
    fprintf(stderr, "%s: out of host memory while %s\n", ending.program, what);
    if (ending.clean_up)
        ending.clean_up();
    fflush(stdout);
    _exit(ending.exit_code);
}

// --- replacements: the linker calls __wrap_FUNCTION for FUNCTION, whose original is __real_FUNCTION

#define REPLACE(type, function, ...)                                                                               \
    type __real_##function(__VA_ARGS__);                                                                           \
    type __wrap_##function(__VA_ARGS__);                                                                           \
    type __wrap_##function(__VA_ARGS__)

static void *checked(void *pointer, size_t bytes)
{
    if (!pointer) {
        char what[64];
        snprintf(what, sizeof what, "%zu bytes were requested", bytes);
        host_memory_exhausted(what);
    }
    return pointer;
}

// Ends the program if a call failed for lack of memory rather than for another reason; errno was 0 before it.
static void check_failure(bool failed, const char *what)
{
    if (failed && errno == ENOMEM)
        host_memory_exhausted(what);
}

static void *sound(void *result, const char *what)
{
    check_failure(!result, what);
    return result;
}

REPLACE(void *, malloc, size_t bytes)
{
    return checked(__real_malloc(bytes), bytes);
}

REPLACE(void *, calloc, size_t count, size_t bytes)
{
    return checked(__real_calloc(count, bytes), count * bytes);
}

REPLACE(void *, realloc, void *pointer, size_t bytes)
{
    void *moved = __real_realloc(pointer, bytes);
    return bytes ? checked(moved, bytes) : moved; // bytes 0 freed the block
}

REPLACE(int, posix_memalign, void **pointer, size_t alignment, size_t bytes)
{
    int error = __real_posix_memalign(pointer, alignment, bytes);
    checked(error == ENOMEM ? NULL : pointer, bytes);
    return error;
}

REPLACE(char *, strdup, const char *text)
{
    return checked(__real_strdup(text), strlen(text) + 1);
}

REPLACE(char *, strndup, const char *text, size_t max)
{
    return checked(__real_strndup(text, max), strnlen(text, max) + 1);
}

REPLACE(int, vasprintf, char **text, const char *format, va_list arguments)
{
    int bytes = __real_vasprintf(text, format, arguments);
    if (bytes < 0)
        host_memory_exhausted("a text was written");
    return bytes;
}

// asprintf, and its name in glibc's fortified headers.
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int bytes = __wrap_vasprintf(text, format, arguments);
    va_end(arguments);
    return bytes;
}

int __wrap___asprintf_chk(char **text, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...)
{
    (void)flag;
    va_list arguments;
    va_start(arguments, format);
    int bytes = __wrap_vasprintf(text, format, arguments);
    va_end(arguments);
    return bytes;
}

// After a failure getdelim may return part of a line, or -1 as at the end of the file; ferror tells them apart.
REPLACE(ssize_t, getdelim, char **line, size_t *room, int delimiter, FILE *stream)
{
    errno = 0;
    ssize_t bytes = __real_getdelim(line, room, delimiter, stream);
    bytes = ferror(stream) ? -1 : bytes;
    check_failure(bytes < 0, "a line was read");
    return bytes;
}

// glibc's headers inline getline to this function.
ssize_t __wrap___getdelim(char **line, size_t *room, int delimiter, FILE *stream);
ssize_t __wrap___getdelim(char **line, size_t *room, int delimiter, FILE *stream)
{
    return __wrap_getdelim(line, room, delimiter, stream);
}

ssize_t __wrap_getline(char **line, size_t *room, FILE *stream);
ssize_t __wrap_getline(char **line, size_t *room, FILE *stream)
{
    return __wrap_getdelim(line, room, '\n', stream);
}

// Retries if a signal interrupts it.
REPLACE(FILE *, fopen, const char *path, const char *mode)
{
    FILE *stream;
    do {
        errno = 0;
        stream = __real_fopen(path, mode);
    } while (!stream && errno == EINTR);
    return sound(stream, "a file was opened");
}

REPLACE(FILE *, fdopen, int descriptor, const char *mode)
{
    errno = 0;
    return sound(__real_fdopen(descriptor, mode), "a file was opened");
}

REPLACE(DIR *, opendir, const char *path)
{
    errno = 0;
    return sound(__real_opendir(path), "a folder was read");
}

REPLACE(DIR *, fdopendir, int descriptor)
{
    errno = 0;
    return sound(__real_fdopendir(descriptor), "a folder was read");
}

REPLACE(int, scandir, const char *path, struct dirent ***entries, int (*filter)(const struct dirent *),
        int (*compare)(const struct dirent **, const struct dirent **))
{
    errno = 0;
    int count = __real_scandir(path, entries, filter, compare);
    check_failure(count < 0, "a folder was read");
    return count;
}

REPLACE(char *, realpath, const char *path, char *resolved)
{
    errno = 0;
    return sound(__real_realpath(path, resolved), "a path was resolved");
}

REPLACE(int, setenv, const char *name, const char *value, int overwrite)
{
    errno = 0;
    int failed = __real_setenv(name, value, overwrite);
    check_failure(failed, "the environment was set");
    return failed;
}

REPLACE(void *, dlopen, const char *path, int flags)
{
    errno = 0;
    return sound(__real_dlopen(path, flags), "a library was loaded");
}

REPLACE(void *, tsearch, const void *key, void **root, int (*compare)(const void *, const void *))
{
    return checked(__real_tsearch(key, root, compare), sizeof(void *));
}

REPLACE(int, regcomp, regex_t *regex, const char *text, int flags)
{
    int error = __real_regcomp(regex, text, flags);
    if (error == REG_ESPACE)
        host_memory_exhausted("compiling a regular expression");
    return error;
}

// --- a growing text stream; the C library's would lose text for which it has no memory

struct growing {
    char **text;
    size_t *bytes, room;
};

static ssize_t grow(void *cookie, const char *added, size_t count)
{
    struct growing *growing = cookie;
    size_t needed = *growing->bytes + count + 1;
    if (growing->room < needed) {
        growing->room = needed < 2 * growing->room ? 2 * growing->room : needed;
        *growing->text = realloc(*growing->text, growing->room);
    }
    memcpy(*growing->text + *growing->bytes, added, count);
    *growing->bytes += count;
    (*growing->text)[*growing->bytes] = 0;
    return (ssize_t)count;
}

static int end_growing(void *cookie)
{
    free(cookie);
    return 0;
}

FILE *__wrap_open_memstream(char **text, size_t *bytes);
FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
    struct growing *growing = malloc(sizeof *growing);
    *growing = (struct growing){text, bytes, 1};
    *text = calloc(1, 1);
    *bytes = 0;
    return checked(fopencookie(growing, "w", (cookie_io_functions_t){.write = grow, .close = end_growing}),
                   sizeof(FILE));
}

void *host_memory_try(size_t count, size_t bytes)
{
    return __real_calloc(count ? count : 1, bytes ? bytes : 1);
}
