// Rank command: a command whose trial has several ranks starts itself once per rank, with --as-rank, and each joins
// the others.
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"
#include <stdbool.h>

// Runs `longbp COMMAND` with these arguments (argv[0] is left out) and --as-rank as every rank of the trial, by
// `words` (harness/process/launch.h). The exit code; a status if they cannot be started.
int rank_command_start(const struct trial *trial, const char *command, const char *words, int argc, char **argv,
                       struct status *status);
// As one of them. False and a status if the others are not there. Release with world_close.
bool rank_command_join(struct world *world, const struct trial *trial, struct status *status);
// Says why this rank failed, and ends it without a word to the others: the launcher ends them.
void rank_command_fail(const struct world *world, const char *name, int code, const struct status *status)
    __attribute__((noreturn));
