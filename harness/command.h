// Commands: what `longbp NAME ...` runs. argv[0] is "longbp NAME"; the result is the exit code. Data goes to
// stdout, everything else to stderr.
#pragma once

enum exit_code {
    EXIT_FINE = 0,
    EXIT_CHECK_FAILED = 1,
    EXIT_BAD_INPUT = 2, // wrong use, a bad file, an output that cannot be written
    EXIT_UNDECIDED = 3,
    EXIT_INTERRUPTED = 130
};

int command_run(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_grad(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_max_context(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_init(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_report(int argc, char **argv);
int command_list(int argc, char **argv);
int command_cell(int argc, char **argv); // a sweep's child; not for people
