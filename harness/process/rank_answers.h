// Rank answers: ranks that time out report whether they wait for others, in a line on stderr, "rank 2 of 4:
// computes" or "rank 2 of 4: waits" (kernels/mpi/plugin/waiting.c). A rank that does not wait is to blame. Slow
// ranks may all wait in alternation: on a second request a rank that is still in the same wait says "rank 2 of 4:
// stays".
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

// The signal that requests it, passed on by their launcher, and the number of requests.
#define RANK_ANSWERS_SIGNAL SIGUSR1
#define RANK_ANSWERS_ASKED  2
// Maximum length of a line.
#define RANK_ANSWER_BYTES 64

// Tells whether the text has an answer of each of `ranks` ranks.
bool rank_answers_complete(const char *text, size_t ranks);
// Names the ranks that hold up the others, as "rank 2 of 4 computed, the others waited".
void rank_answers_blame(const char *text, size_t ranks, char *blame, size_t bytes);
