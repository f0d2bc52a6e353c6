// Launch: the command line that starts a trial's ranks, a process each, and the folder that they have for files of
// theirs while they live.
#pragma once
#include "harness/process/rank_folder.h"
#include "kernels/base/status.h"
#include <stddef.h>

struct launch {
    struct rank_folder folder; // of Open MPI's files; path NULL: the launcher is the user's, and has its own
    char **arguments;          // ending in NULL; the first is looked up in PATH
    size_t count;
    size_t ranks;
};

// words: NULL for mpirun on this machine, else the launcher's own words, such as "srun -n {ranks}", with {ranks}
// for their number. command: what each rank runs, ending in NULL. False and a status (unsupported) if there is no
// mpirun. Release with launch_close.
bool launch_open(struct launch *launch, const char *words, size_t ranks, const char *const *command,
                 struct status *status);
// Removes the folder with all that is in it: after the ranks have ended.
void launch_close(struct launch *launch);
// What the end of the launcher's stderr says of the rank that ended first, as "rank 2 of 4: killed by signal
// SIGKILL (Killed)"; false: nothing.
bool launch_explain(const struct launch *launch, const char *tail, char *reason, size_t bytes);
// In a rank: it dies with its launcher.
void launch_follow(void);
// In a rank: whether it is the first that has something to say, and so the one that says it. The lines of two would
// be forwarded in pieces, one's between another's.
bool launch_first_to_tell(void);
