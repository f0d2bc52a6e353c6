// Interrupt: signals that ask a training run to stop at a point from which it can resume. No handler runs in
// computing threads: processor libraries keep data farther below the stack pointer than the 128 bytes that the ABI
// protects, and a handler on that stack overwrites it (one in three runs that got two signals ended with a
// corrupted heap).
#pragma once
#include <signal.h>
#include <stdbool.h>

// Adds the catchable signals that end a process, except ignored ones, as under nohup.
void interrupt_add_all(sigset_t *set);

// From now on a thread of its own takes SIGINT, SIGTERM and SIGHUP unless they are ignored: the first requests the
// stop, a second ends the program at once. A closed stdout becomes a write error instead of a signal. Call before
// other threads are created, because they inherit the blocked signals.
void interrupt_open(void);
// Requests the stop, as a signal does.
void interrupt_ask(void);
bool interrupt_asked(void);
