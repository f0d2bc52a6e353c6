// longbp: the commands by name.
#include "harness/command/arguments.h"
#include "harness/command/command.h"
#include "harness/files/names.h"
#include "harness/run/environment.h"
#include "harness/run/provenance.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *summary; // NULL: hidden
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"run", "measure every trial of an experiment", command_run},
    {"verify", "hold every method's gradient against the reference", command_verify},
    {"grad", "compute one step's gradient and write it", command_grad},
    {"train", "train a model, step by step", command_train},
    {"plan", "what a step takes, without computing it", command_plan},
    {"advise", "the fastest method that fits, and what less memory costs", command_advise},
    {"max-context", "the longest context each method can hold", command_max_context},
    {"max-batch", "the largest batch each method can hold", command_max_batch},
    {"frontier", "the longest context against device and host memory", command_frontier},
    {"calibrate", "measure this machine for time estimates", command_calibrate},
    {"sensors", "clocks, power and temperature of every card, again and again", command_sensors},
    {"compare", "whether anything became worse between two result files", command_compare},
    {"plot", "draw the figures of recorded results", command_plot},
    {"report", "set recorded results beside what papers published", command_report},
    {"export", "records as a table, csv or JSON", command_export},
    {"convert", "records of an earlier version as records of this one", command_convert},
    {"list", "methods, models and devices", command_list},
    {"init", "make a folder of random weights", command_init},
    {"trial", NULL, command_trial},
    {NULL, NULL, NULL},
};

static void print_help(FILE *stream)
{
    fprintf(stream, "Usage: longbp COMMAND [OPTION...]\n"
                    "Memory, time and gradient error of long-context backpropagation, method by method.\n\n");
    for (const struct command *command = commands; command->name; command++)
        if (command->summary)
            fprintf(stream, "  %-12s %s\n", command->name, command->summary);
    fprintf(stream, "\n`longbp COMMAND --help` tells about one command, `longbp --version` the program's version.\n"
                    "Exit codes: 0 fine, 1 a check failed, 2 wrong use or bad input, 3 undecided.\n");
}

static int unknown(const char *name)
{
    struct names names = {0};
    for (const struct command *command = commands; command->name; command++)
        if (command->summary)
            names_add(&names, command->name);
    char hint[512];
    names_hint(&names, name, "commands", hint, sizeof hint);
    fprintf(stderr, "longbp: no command \"%s\"; %s\n", name, hint);
    return EXIT_BAD_INPUT;
}

int main(int argc, char **argv)
{
    environment_open_streams();
    environment_settle(argv);
    argp_err_exit_status = EXIT_BAD_INPUT;
    if (argc < 2) {
        print_help(stderr);
        return EXIT_BAD_INPUT;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return EXIT_FINE;
    }
    if (strcmp(name, "--version") == 0) {
        struct provenance provenance;
        provenance_take(&provenance);
        printf("longbp %s (%s%s)\n", provenance.version, provenance.revision,
               provenance.dirty == 1 ? ", changed" : "");
        return EXIT_FINE;
    }
    if (strcmp(name, "--commands") == 0) { // for the man pages
        for (const struct command *command = commands; command->name; command++)
            if (command->summary)
                puts(command->name);
        return EXIT_FINE;
    }
    for (const struct command *command = commands; command->name; command++) {
        if (strcmp(name, command->name) != 0)
            continue;
        char title[64]; // argp prints argv[0] in the usage
        snprintf(title, sizeof title, "longbp %s", command->name);
        argv[1] = title;
        int code = command->run(argc - 1, argv + 1);
        // A result that did not reach stdout is no result.
        if (fflush(stdout) != 0 || ferror(stdout)) {
            perror("longbp: writing to stdout");
            return EXIT_BAD_INPUT;
        }
        return code;
    }
    return unknown(name);
}
