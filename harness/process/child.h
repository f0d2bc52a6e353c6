// Child: one trial measured in a process of its own, so that whatever happens to it is a record and never the end
// of the sweep. The child is the program's hidden command `trial` (trial_child.h).
#pragma once
#include "kernels/base/status.h"

enum child_end {
    CHILD_RECORD,      // it ended well and left a line
    CHILD_TIMEOUT,     // we killed it
    CHILD_CRASH,       // it died, or ended without a line
    CHILD_OOM,         // the host had no memory: it said so, or the kernel killed it
    CHILD_INTERRUPTED, // we killed it because of a signal
};

struct child_result {
    enum child_end end;
    bool interrupted;  // a signal came, though the record may have come first
    char *line;        // CHILD_RECORD: without its newline
    char reason[1280]; // otherwise: why, with the tail of the child's stderr
    char blame[160];   // CHILD_TIMEOUT of several ranks: which of them the others waited for
    double wall_s;
};

// Blocks SIGCHLD and what interrupts: SIGINT, SIGTERM, and those of interrupt_add_all, so that what ranks leave is
// removed first. Returns a descriptor that reports them; -1 and a status if there is none.
int child_signals_open(struct status *status);
// Whether one that interrupts has come.
bool child_signals_interrupted(int signals);
// Those that a user sends stay blocked: a second one must not end what the first one has ended.
void child_signals_close(int signals);
// Runs one trial in `program` (NULL: this one) and waits for it. launch: what starts it as several ranks; NULL: it
// is one process. store: of references (reference_store.h), which ranks do not have; -1: none. timeout_s 0: for
// ever. Release with child_result_free. False and a status if no process could be started.
struct launch;
bool child_run(const char *program, const struct launch *launch, const char *trial, int store, double timeout_s,
               int signals, struct child_result *result, struct status *status);
void child_result_free(struct child_result *result);
// The descriptor that a child has the store of references at.
#define CHILD_STORE 3
// What follows `trial` on a rank's command line.
#define TRIAL_OF_RANKS "ranks"
