#define _GNU_SOURCE // posix_spawn_file_actions_addchdir_np
#include "harness/plot/gnuplot.h"
#include "harness/files/io.h"
#include "harness/files/share.h"
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TABLE_DESCRIPTOR 3
#define TABLE_PATH       "/proc/self/fd/3"

static bool has_scripts(const char *folder)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/style.gp", folder) < (int)sizeof path && access(path, R_OK) == 0;
}

char *gnuplot_scripts(const char *given, struct status *status)
{
    const char *named = given ? given : getenv("LONGBP_PLOTS");
    if (named) {
        if (has_scripts(named))
            return strdup(named);
        status_set(status, STATUS_BAD_INPUT, "%s (from %s) holds no plot scripts: style.gp is not there", named,
                   given ? "--scripts" : "$LONGBP_PLOTS");
        return NULL;
    }
    char path[PATH_MAX];
    if (share_find("plots/style.gp", path)) {
        *strrchr(path, '/') = 0;
        return strdup(path);
    }
    status_set(
        status, STATUS_IO,
        "the plot scripts (plots/*.gp) were not found beside the program; name their folder with --scripts or "
        "$LONGBP_PLOTS");
    return NULL;
}

// NAME="value": letters and spaces unchanged, every other byte as an octal escape, so that no character of a value
// is special to gnuplot. Digits too: after an escape they would extend it.
static char *assignment(const struct gnuplot_variable *variable)
{
    char *text = malloc(strlen(variable->name) + 4 * strlen(variable->value) + 4);
    char *out = text + sprintf(text, "%s=\"", variable->name);
    for (const unsigned char *in = (const unsigned char *)variable->value; *in; in++) {
        bool letter = (*in >= 'a' && *in <= 'z') || (*in >= 'A' && *in <= 'Z');
        if (letter || *in <= ' ')
            *out++ = letter ? (char)*in : ' ';
        else
            out += sprintf(out, "\\%03o", *in);
    }
    *out++ = '"';
    *out = 0;
    return text;
}

static void close_file(int file)
{
    if (file >= 0)
        close(file);
}

// A file in memory with the text; -1 and a status on failure.
static int memory_file(const char *text, struct status *status)
{
    int file = io_memory_file("gnuplot");
    if (file >= 0 && io_write_at(file, text, strlen(text), 0))
        return file;
    status_set(status, STATUS_IO, "no file in memory for gnuplot: %s", strerror(errno));
    close_file(file);
    return -1;
}

// The file's contents with a 0 appended, to be freed; NULL and a status on failure.
static char *contents(int file, size_t *bytes, struct status *status)
{
    struct stat info = {0};
    bool known = fstat(file, &info) == 0;
    char *text = malloc((size_t)info.st_size + 1);
    ssize_t got = known ? io_read_at(file, text, (size_t)info.st_size, 0) : -1;
    if (got == info.st_size) {
        *bytes = (size_t)got;
        text[got] = 0;
        return text;
    }
    if (got < 0)
        status_set(status, STATUS_IO, "cannot read what gnuplot wrote: %s", strerror(errno));
    else
        status_set(status, STATUS_IO, "what gnuplot wrote ends after %zd bytes of %zd", got, (ssize_t)info.st_size);
    free(text);
    return NULL;
}

// Starts gnuplot in the scripts' folder. It gets no user-given path, because it would run one with a leading | or <
// as a command: the table is descriptor 3, the picture its stdout, the script a plain name.
static int start(pid_t *child, const char *folder, char **arguments, int table, int picture, int messages)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    unsetenv("GNUTERM"); // gnuplot would open that terminal first, which may be missing
    int error = posix_spawn_file_actions_addchdir_np(&actions, folder);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, picture, STDOUT_FILENO);
    // Last, because any of the others may be 3.
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, table, TABLE_DESCRIPTOR);
    error = error ? error : posix_spawnp(child, "gnuplot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Waits for it; shows its messages if it failed, otherwise only a script's "notice: ...".
static bool finish(pid_t child, int messages, struct status *status)
{
    static const char notice[] = "notice: ";
    int state;
    bool fine = io_wait(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
    size_t bytes;
    char *text = contents(messages, &bytes, status), *rest = text, *line;
    if (!text)
        return false;
    if (!fine)
        fputs(text, stderr);
    while (fine && (line = strsep(&rest, "\n")))
        if (strncmp(line, notice, strlen(notice)) == 0)
            fprintf(stderr, "%s\n", line + strlen(notice));
    free(text);
    return fine;
}

char *gnuplot_draw(const char *folder, const char *name, const struct gnuplot_variable *variables, size_t count,
                   const char *table, size_t *bytes, struct status *status)
{
    static const struct gnuplot_variable own[] = {{"data", TABLE_PATH}, {"scripts", "."}};
    enum { OWN = sizeof own / sizeof *own };
    char script[NAME_MAX], *picture = NULL;
    snprintf(script, sizeof script, "%s.gp", name);
    char **arguments = calloc(2 * (count + OWN) + 4, sizeof *arguments);
    size_t used = 0;
    arguments[used++] = "gnuplot";
    arguments[used++] = "--default-settings"; // ignores the user's gnuplot settings
    for (size_t i = 0; i < count + OWN; i++) {
        arguments[used++] = "-e";
        arguments[used++] = assignment(i < count ? &variables[i] : &own[i - count]);
    }
    arguments[used] = script;
    // Messages are buffered, because gnuplot warns of every empty series in a panel. So is the picture, because
    // gnuplot does not report write errors.
    int input = memory_file(table, status), output = memory_file("", status), messages = memory_file("", status);
    bool open = input >= 0 && output >= 0 && messages >= 0;
    pid_t child;
    int error = open ? start(&child, folder, arguments, input, output, messages) : EMFILE;
    if (error == ENOENT) {
        status_set(status, STATUS_UNSUPPORTED,
                   "gnuplot was not found; install it (Debian: apt install gnuplot-nox) or put it on the PATH");
    } else if (error) {
        status_set(status, STATUS_IO, "gnuplot could not be started: %s", strerror(error));
    } else if (finish(child, messages, status)) {
        picture = contents(output, bytes, status);
    } else if (status->code == STATUS_OK) {
        status_set(status, STATUS_FAILED, "gnuplot could not draw %.400s/%s: its messages are above", folder,
                   script);
    }
    close_file(messages);
    close_file(output);
    close_file(input);
    for (size_t i = 3; i < used; i += 2)
        free(arguments[i]);
    free(arguments);
    return picture;
}
