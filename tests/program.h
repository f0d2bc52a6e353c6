// Program: the built longbp, run by a shell in a test's scratch folder. $LONGBP names it; else it is build/longbp.
#pragma once
#include "tests/golden.h"
#include "tests/scratch.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

static inline void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

// The program's absolute path.
static inline const char *program(void)
{
    const char *path = getenv("LONGBP");
    char *absolute = realpath(path && *path ? path : "build/longbp", NULL);
    if (!absolute)
        fail_msg("%s: %s", path ? path : "build/longbp", strerror(errno));
    return absolute;
}

// The absolute path of a library that tests preload; to be freed.
static inline char *preloaded(const char *name)
{
    const char *build = getenv("BUILD");
    char path[512];
    snprintf(path, sizeof path, "%s/tests/%s.so", build ? build : "build", name);
    char *absolute = realpath(path, NULL);
    if (!absolute)
        fail_msg("%s: %s", path, strerror(errno));
    return absolute;
}

// Starts a shell in the folder, in which $L is the program; stdout and stderr go to files `out` and `err`.
static inline pid_t start(const struct scratch *scratch, const char *command)
{
    const char *longbp = program();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("L", longbp, 1);
        if (chdir(scratch->folder) != 0 || !freopen("out", "w", stdout) || !freopen("err", "w", stderr))
            _exit(99);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(99);
    }
    free((char *)longbp);
    return pid;
}

// Exit code, or 128 + signal.
static inline int finish(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int run(const struct scratch *scratch, const char *command)
{
    return finish(start(scratch, command));
}

// A file of the folder; "" if there is none. Output that a running program has not completed is left out.
static inline char *text_of(const struct scratch *scratch, const char *name)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "r");
    long bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    char *text = calloc((size_t)bytes + 1, 1);
    assert_non_null(text);
    if (file) {
        rewind(file);
        assert_true(fread(text, 1, (size_t)bytes, file) <= (size_t)bytes && !ferror(file));
        fclose(file);
    }
    return text;
}

static inline void assert_says(const struct scratch *scratch, const char *name, const char *expected)
{
    char *text = text_of(scratch, name);
    if (!strstr(text, expected))
        fail_msg("%s: expected \"%s\" in: %s", name, expected, text);
    free(text);
}

// A command that is refused prints nothing, says what the suite's golden text has, and exits with 2. Each command
// of a suite has one answer.
static inline void assert_refused(const struct scratch *scratch, const char *command)
{
    assert_int_equal(run(scratch, command), 2);
    char *out = text_of(scratch, "out"), *err = text_of(scratch, "err");
    assert_string_equal(out, "");
    size_t length = strlen(err);
    assert_true(length > 0 && err[length - 1] == '\n');
    err[length - 1] = '\0';
    golden_has(command, err);
    free(out);
    free(err);
}

static inline size_t line_count(const struct scratch *scratch, const char *name)
{
    char *text = text_of(scratch, name);
    size_t lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    free(text);
    return lines;
}
