// Launch: the command line that starts a trial's ranks, one process each, and the folder for their temporary files.
#pragma once
#include "harness/process/rank_folder.h"
#include "kernels/base/status.h"
#include <stddef.h>

struct launch {
    struct rank_folder folder; // of Open MPI's files; path NULL: a user's launcher has its own
    char **arguments;          // ending in NULL; the first is looked up in PATH
    size_t count;
    size_t ranks;
};

// words: NULL for mpirun on this machine, else the user's launcher, such as "srun -n {ranks}", with {ranks} for
// their number. command: run by each rank, ending in NULL. Returns false and a status (unsupported) if there is no
// mpirun. Release with launch_close.
bool launch_open(struct launch *launch, const char *words, size_t ranks, const char *const *command,
                 struct status *status);
// Removes the folder and its contents, after the ranks have ended.
void launch_close(struct launch *launch);
// Extracts from the launcher's stderr how the first rank ended, as "rank 2 of 4: killed by signal SIGKILL
// (Killed)"; returns false if it says nothing.
bool launch_explain(const struct launch *launch, const char *tail, char *reason, size_t bytes);
// In a rank: ends it with its launcher.
void launch_follow(void);
// In a rank: tells whether it is the first to report. Only that rank prints, because the launcher would interleave
// the lines of two.
bool launch_first_to_tell(void);
