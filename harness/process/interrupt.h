// Interrupt: signals that ask a training run to stop where it can go on from. No handler runs in a thread that
// computes: kernels of the processor's libraries keep numbers below their stack pointer, farther than the 128 bytes
// that the ABI leaves alone, and a handler on that stack overwrites them (of runs that two signals met one in three
// ended with a broken heap).
#pragma once
#include <signal.h>
#include <stdbool.h>

// Adds the signals that end a process and can be waited for, those that are not ignored, as nohup has it.
void interrupt_add_all(sigset_t *set);

// From here on SIGINT, SIGTERM and SIGHUP, those that are not ignored, are taken by a thread of their own: the
// first asks for the stop, a second one ends the program at once. A reader of stdout that has gone is an error of
// write and no signal. To be called before other threads are made, for they inherit that these are blocked.
void interrupt_open(void);
// Asks for the stop, as a signal does.
void interrupt_ask(void);
bool interrupt_asked(void);
