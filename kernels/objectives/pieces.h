// Pieces: the tokens of a sequence that a rank holds if several share it. With twice as many pieces as ranks, in
// order and as equal as possible, rank r has the r-th from either end: under the causal mask all have equally many
// pairs of query and key (Llama Team 2024, arXiv 2407.21783, section 3.3.2).
#pragma once
#include <stddef.h>

// Tokens [start, start + count) of every sequence.
struct span {
    size_t start, count;
};

#define PIECES 2
struct pieces {
    size_t context, ranks;     // context: tokens of all ranks
    struct span items[PIECES]; // by position; adjacent pieces are merged into the first
};
struct pieces pieces_of(size_t context, size_t ranks, size_t rank);
// One of a rank's two pieces; all ranks' i-th ones are as equal as possible.
struct span piece_of(size_t context, size_t ranks, size_t rank, size_t i);
// The rank's own tokens.
static inline size_t pieces_count(const struct pieces *pieces)
{
    return pieces->items[0].count + pieces->items[1].count;
}

// Adjacent tokens: `first` counts among the rank's own, `start` in the sequence.
struct token_run {
    size_t first, start, count;
};
// The runs of some of the rank's own tokens, in order; returns their number. No run is empty.
size_t pieces_runs(const struct pieces *pieces, struct span own, struct token_run runs[PIECES]);
