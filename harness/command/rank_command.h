// Rank command: a command whose trial has several ranks starts itself once per rank with --as-rank.
#pragma once
#include "harness/spec/trial.h"
#include "kernels/comm/world.h"
#include <stdbool.h>

// Runs a trial in one process, alone or as one of its ranks. Returns false and a status if it failed.
typedef bool rank_run(const struct trial *trial, const struct world *world, void *context, struct status *status);

// Runs a trial of a command, argv[0] "longbp COMMAND", after choosing the method of auto: of several ranks, starts
// the same command as every rank, by `launch` (harness/process/launch.h); as_rank: joins as one of them, and exits
// if it fails, so that the launcher ends the others. Returns the exit code; a status if the trial failed.
int rank_command_run(struct trial *trial, const char *launch, bool as_rank, rank_run *run, void *context, int argc,
                     char **argv, struct status *status);
// The exit code of a status: a failed step is a failed check, and everything else bad input.
int rank_command_code(const struct status *status);
