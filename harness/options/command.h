// Commands: the functions that `longbp NAME ...` runs. argv[0] is "longbp NAME"; they return the exit code. Data
// goes to stdout, everything else to stderr.
#pragma once

#include "harness/machine/exit_code.h"
#include "kernels/base/status.h"
#include <jansson.h>

struct command {
    const char *name;
    const char *summary; // NULL: hidden
    int (*run)(int argc, char **argv);
    const char *examples; // lines of at most 76 letters for the end of its help; NULL: none
};

// In the order of the help, ending in a NULL name.
extern const struct command commands[];
// NULL: unknown name.
const struct command *command_find(const char *name);
// Reports an unknown command on stderr and suggests a known one; returns the exit code.
int command_unknown(const char *name);
// Runs a command with the arguments after its name. Returns the exit code; 2 if its result did not reach stdout.
int command_start(const struct command *command, int argc, char **argv);

// Reports a command's failure on stderr, if any. title: "longbp NAME". Returns the exit code: fine, or bad input.
int command_end(const char *title, const struct status *status);
// Prints a result and a newline, and releases it. flags: jansson's.
void command_print(json_t *result, size_t flags);

int command_run(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_grad(int argc, char **argv);
int command_train(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_max_context(int argc, char **argv);
int command_max_batch(int argc, char **argv);
int command_frontier(int argc, char **argv);
int command_advise(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_sensors(int argc, char **argv);
int command_init(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_history(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_report(int argc, char **argv);
int command_claims(int argc, char **argv);
int command_list(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_help(int argc, char **argv);
int command_trial(int argc, char **argv); // a sweep's child; hidden
