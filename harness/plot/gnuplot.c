#include "harness/plot/gnuplot.h"
#include "harness/files/share.h"
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool has_scripts(const char *folder)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/style.gp", folder) < (int)sizeof path && access(path, R_OK) == 0;
}

char *gnuplot_scripts(const char *given, struct status *status)
{
    const char *named = given ? given : getenv("LONGBP_PLOTS");
    if (named) {
        if (has_scripts(named)) {
            return strdup(named);
        }
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

// NAME='value': in single quotes gnuplot takes everything as it is, and a quote is written twice.
static char *assignment(const struct gnuplot_variable *variable)
{
    char *text = malloc(strlen(variable->name) + 2 * strlen(variable->value) + 4);
    CHECK(text);
    char *out = text + sprintf(text, "%s='", variable->name);
    for (const char *in = variable->value; *in; in++) {
        if (*in == '\'') {
            *out++ = '\'';
        }
        *out++ = (unsigned char)*in < ' ' ? ' ' : *in;
    }
    *out++ = '\'';
    *out = 0;
    return text;
}

static void show(FILE *messages)
{
    rewind(messages);
    for (int c; (c = getc(messages)) != EOF;) {
        putc(c, stderr);
    }
}

bool gnuplot_run(const char *folder, const char *name, const struct gnuplot_variable *variables, size_t count,
                 struct status *status)
{
    char script[PATH_MAX];
    snprintf(script, sizeof script, "%s/%s.gp", folder, name);
    struct gnuplot_variable scripts = {"scripts", folder};
    char **arguments = calloc(2 * count + 5, sizeof *arguments);
    CHECK(arguments);
    size_t used = 0;
    arguments[used++] = "gnuplot";
    for (size_t i = 0; i <= count; i++) {
        arguments[used++] = "-e";
        arguments[used++] = assignment(i < count ? &variables[i] : &scripts);
    }
    arguments[used] = script;
    // Its messages are kept back: it warns of every series that has nothing to show in a panel.
    FILE *messages = tmpfile();
    CHECK(messages);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(messages), STDERR_FILENO);
    pid_t child;
    int error = posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, environ), state = 0;
    posix_spawn_file_actions_destroy(&actions);
    bool fine = true;
    if (error == ENOENT) {
        fine =
            status_set(status, STATUS_UNSUPPORTED,
                       "gnuplot was not found; install it (Debian: apt install gnuplot-nox) or put it on the PATH");
    } else if (error) {
        fine = status_set(status, STATUS_IO, "gnuplot could not be started: %s", strerror(error));
    } else if (waitpid(child, &state, 0) != child || !WIFEXITED(state) || WEXITSTATUS(state) != 0) {
        show(messages);
        fine = status_set(status, STATUS_FAILED, "gnuplot could not draw %.500s: its messages are above", script);
    }
    fclose(messages);
    for (size_t i = 2; i < used; i += 2) {
        free(arguments[i]);
    }
    free(arguments);
    return fine;
}
