// Waiting: whether this rank waits for others. Asked by SIGUSR1 it says so, in a line on stderr, and asked again
// whether it is still the same wait: of ranks that do not come to their end, those that do not wait are to blame
// (harness/process/rank_answers.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>

// From here on it answers.
void waiting_open(size_t rank, size_t size);
// Before it waits for others, and behind.
void waiting_set(bool waits);
