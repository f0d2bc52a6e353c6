// Program output: reads the output of another program.
#pragma once
#include <stdio.h>
#include <sys/types.h>

// Starts a program, searched for in PATH unless its name has a slash. arguments: its words, name first, ending in
// NULL. It reads nothing and its messages are dropped. Returns NULL if it cannot be started.
FILE *program_output_open(pid_t *child, char *const *arguments);
// Waits for its end, also if it is still writing. Returns its exit code; -1: a signal ended it.
int program_output_close(FILE *stream, pid_t child);
