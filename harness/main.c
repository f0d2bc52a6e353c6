// longbp: runs the command that its first argument names.
#include "harness/files/input_files.h"
#include "harness/files/io.h"
#include "harness/machine/environment.h"
#include "harness/machine/provenance.h"
#include "harness/options/argument_words.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "kernels/base/status.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int print_version(void)
{
    struct provenance provenance;
    provenance_take(&provenance);
    printf("longbp %s (%s%s)\n", provenance.version, provenance.revision, provenance.dirty == 1 ? ", changed" : "");
    return EXIT_FINE;
}

static int print_commands(void) // for the man pages
{
    for (const struct command *command = commands; command->name; command++)
        if (command->summary)
            puts(command->name);
    return EXIT_FINE;
}

// `longbp --complete WORD...`: prints completions of the last word, for a shell.
static int complete(int argc, char **argv)
{
    const struct command *command = argc > 2 ? command_find(argv[1]) : NULL;
    if (argc == 2)
        argument_words_write((struct typed_word){argv[1], 0}, "COMMAND", stdout);
    if (!command || !command->summary)
        return EXIT_FINE;
    argv[0] = argv[1];
    argv[1] = ARGUMENTS_COMPLETE;
    return command_start(command, argc, argv);
}

static int start(int argc, char **argv)
{
    if (!environment_settle(argv))
        return EXIT_BAD_INPUT;
    argp_err_exit_status = EXIT_BAD_INPUT;
    const char *name = argc < 2 ? "" : argv[1];
    if (argc < 2) {
        fprintf(stderr, "longbp: name a command; `longbp help` lists them\n");
        return EXIT_BAD_INPUT;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        return print_version();
    if (strcmp(name, "--commands") == 0)
        return print_commands();
    if (strcmp(name, ARGUMENTS_COMPLETE) == 0)
        return complete(argc - 1, argv + 1);
    const struct command *command = command_find(name);
    return command ? command_start(command, argc - 1, argv + 1) : command_unknown(name);
}

// Reports a result that did not reach stdout, even if argp ends the program after --help.
static void check_stdout(void)
{
    if (!io_flush(stdout)) {
        fprintf(stderr, "longbp: writing to stdout: %s\n", strerror(errno));
        _exit(EXIT_BAD_INPUT);
    }
}

int main(int argc, char **argv)
{
    prctl(PR_SET_NAME, "longbp"); // "exe" after a restart through /proc/self/exe
    environment_open_streams();
    json_set_alloc_funcs(malloc, free); // versions that never fail (kernels/base/host_memory.h)
    input_files_watch();
    signal(SIGXFSZ, SIG_IGN); // a file size limit becomes a write error, which is reported
    CHECK(atexit(check_stdout) == 0);
    return environment_leave(start(argc, argv));
}
