// Pieces: which tokens of a sequence a rank has, where several share it. Of twice as many pieces as ranks, in order
// and as even as may be, rank r has the r-th from either end: the causal mask leaves each as many pairs of a query
// and a key (Llama Team 2024, arXiv 2407.21783, section 3.3.2).
#pragma once
#include <stddef.h>

// Tokens [start, start + count) of every sequence.
struct span {
    size_t start, count;
};

#define PIECES 2
struct pieces {
    size_t context, ranks;     // tokens of all ranks
    struct span items[PIECES]; // by position; pieces that lie side by side are one, the first
};
struct pieces pieces_of(size_t context, size_t ranks, size_t rank);
// One of a rank's two by itself: all ranks' i-th ones are as even as may be.
struct span piece_of(size_t context, size_t ranks, size_t rank, size_t i);
// The rank's own tokens.
static inline size_t pieces_count(const struct pieces *pieces)
{
    return pieces->items[0].count + pieces->items[1].count;
}

// Tokens that lie side by side among the rank's own, from number `first` on, and in the sequence, from position
// `start` on.
struct token_run {
    size_t first, start, count;
};
// The runs of some of the rank's own tokens, in order; their number. No run is empty.
size_t pieces_runs(const struct pieces *pieces, struct span own, struct token_run runs[PIECES]);
