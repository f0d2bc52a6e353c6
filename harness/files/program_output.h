// Program output: what another program prints.
#pragma once
#include <stdio.h>
#include <sys/types.h>

// Starts a program, which PATH is searched for unless there is a slash in its name. arguments: its words, from its
// name on, ending in NULL. It reads nothing, and its messages go nowhere. NULL if it could not be started.
FILE *program_output_open(pid_t *child, char *const *arguments);
// Its exit code, when it has ended, by itself or because nobody reads on; -1: a signal ended it.
int program_output_close(FILE *stream, pid_t child);
