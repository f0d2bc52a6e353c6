#include "harness/command/command.h"
#include "harness/files/names.h"
#include "harness/files/unfinished.h"
#include "kernels/base/host_memory.h"
#include "kernels/base/status.h"
#include <stdio.h>
#include <string.h>

const struct command commands[] = {
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
    {"history", "how figures went from commit to commit, and where they changed", command_history},
    {"plot", "draw the figures of recorded results", command_plot},
    {"report", "recorded results as tables, and beside what papers published", command_report},
    {"claims", "what papers claim, held against records", command_claims},
    {"convert", "records of an earlier version as records of this one", command_convert},
    {"list", "methods, models and devices", command_list},
    {"init", "make a folder of random weights", command_init},
    {"completion", "what lets a shell complete commands and options", command_completion},
    {"help", "all commands, or one of them", command_help},
    {"trial", NULL, command_trial},
    {NULL, NULL, NULL},
};

const struct command *command_find(const char *name)
{
    const struct command *command = commands;
    while (command->name && strcmp(command->name, name) != 0)
        command++;
    return command->name ? command : NULL;
}

int command_unknown(const char *name)
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

int command_start(const struct command *command, int argc, char **argv)
{
    char title[64]; // argp prints argv[0] in the usage
    snprintf(title, sizeof title, "longbp %s", command->name);
    argv[0] = title;
    host_memory_settle(title, EXIT_BAD_INPUT, unfinished_remove);
    int code = command->run(argc, argv);
    // A result that did not reach stdout is no result.
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("longbp: writing to stdout");
        return EXIT_BAD_INPUT;
    }
    return code;
}

void command_print(json_t *result, size_t flags)
{
    // What stdout does not take command_start tells.
    CHECK(result && (json_dumpf(result, stdout, flags) == 0 || ferror(stdout)));
    putchar('\n');
    json_decref(result);
}
