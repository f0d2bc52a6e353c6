// Rank answers: ranks that did not end in time are asked whether they wait for others, and each says so in a line
// on its stderr, "rank 2 of 4: computes" or "rank 2 of 4: waits" (kernels/mpi/plugin/waiting.c). Who does not wait
// is waited for. Ranks that are slow may all wait, by turns: asked again, one that has not come out of its wait
// says "rank 2 of 4: stays".
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

// What asks them, by their launcher, which passes it on; and how often.
#define RANK_ANSWERS_SIGNAL SIGUSR1
#define RANK_ANSWERS_ASKED  2
// A line is at most as long.
#define RANK_ANSWER_BYTES 64

// Whether the text has an answer of each of so many ranks.
bool rank_answers_complete(const char *text, size_t ranks);
// Who keeps the others from their end, as "rank 2 of 4 computed, the others waited".
void rank_answers_blame(const char *text, size_t ranks, char *blame, size_t bytes);
