// Waiting: reports whether this rank waits for others. On SIGUSR1 it prints a line on stderr, and on a second one
// whether it is still the same wait. If ranks hang, those that do not wait are to blame
// (harness/process/rank_answers.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Starts answering.
void waiting_open(size_t rank, size_t size);
// Call before and after waiting for others.
void waiting_set(bool waits);
