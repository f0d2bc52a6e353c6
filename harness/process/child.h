// Child: measures one trial in a process of its own, so that a crash becomes a record and the sweep goes on. The
// child is the program's hidden command `trial` (trial_child.h).
#pragma once
#include "kernels/base/status.h"

enum child_end {
    CHILD_RECORD,      // it succeeded and left a line
    CHILD_TIMEOUT,     // we killed it
    CHILD_CRASH,       // it died, or ended without a line
    CHILD_OOM,         // the host ran out of memory: it reported so, or the kernel killed it
    CHILD_INTERRUPTED, // we killed it because of a signal
};

struct child_result {
    enum child_end end;
    bool interrupted;  // a signal came, possibly after the record
    char *line;        // CHILD_RECORD: without its newline
    char reason[1280]; // the reason otherwise, with the tail of the child's stderr
    char blame[160];   // CHILD_TIMEOUT of several ranks: the rank that the others waited for
    double wall_s;
};

// Blocks SIGCHLD, SIGINT, SIGTERM and the signals of interrupt_add_all, so that files of ranks are removed first.
// Returns a descriptor that reports them; -1 and a status on failure.
int child_signals_open(struct status *status);
// Tells whether an interrupting signal has come.
bool child_signals_interrupted(int signals);
// User signals stay blocked: a second one must not kill the cleanup after the first.
void child_signals_close(int signals);
// Runs one trial in `program` (NULL: this one) and waits for it. launch: starts it as several ranks; NULL: one
// process. store: of references (reference_store.h), not for ranks; -1: none. timeout_s 0: none. Release with
// child_result_free. Returns false and a status if no process could be started.
struct launch;
bool child_run(const char *program, const struct launch *launch, const char *trial, int store, double timeout_s,
               int signals, struct child_result *result, struct status *status);
void child_result_free(struct child_result *result);
// The descriptor of the reference store in a child.
#define CHILD_STORE 3
// Follows `trial` on a rank's command line.
#define TRIAL_OF_RANKS "ranks"
