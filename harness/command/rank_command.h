// Rank command: a command whose trial has several ranks starts itself once per rank with --as-rank.
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"
#include <stdbool.h>

// Runs `longbp COMMAND` with these arguments (without argv[0]) and --as-rank as every rank of the trial, started by
// `words` (harness/process/launch.h). Returns the exit code; a status if they cannot be started.
int rank_command_start(const struct trial *trial, const char *command, const char *words, int argc, char **argv,
                       struct status *status);
// Joins as one of the ranks. Returns false and a status if the others are missing. Release with world_close.
bool rank_command_join(struct world *world, const struct trial *trial, struct status *status);
// Prints why this rank failed and exits; the launcher ends the other ranks.
void rank_command_fail(const struct world *world, const char *name, int code, const struct status *status)
    __attribute__((noreturn));
