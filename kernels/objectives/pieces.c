#include "kernels/objectives/pieces.h"
#include "kernels/comm/comm.h"

struct span piece_of(size_t context, size_t ranks, size_t rank, size_t i)
{
    struct row_range share = comm_share(context, PIECES * ranks, i == 0 ? rank : PIECES * ranks - 1 - rank);
    return (struct span){share.start, share.count};
}

struct pieces pieces_of(size_t context, size_t ranks, size_t rank)
{
    struct span early = piece_of(context, ranks, rank, 0), late = piece_of(context, ranks, rank, 1);
    struct pieces pieces = {context, ranks, {early, late}};
    if (early.start + early.count == late.start) {
        pieces.items[0].count += late.count;
        pieces.items[1] = (struct span){0};
    }
    return pieces;
}

size_t pieces_runs(const struct pieces *pieces, struct span own, struct token_run runs[PIECES])
{
    size_t count = 0, passed = 0, end = own.start + own.count;
    for (size_t i = 0; i < PIECES; i++) {
        struct span piece = pieces->items[i];
        size_t from = own.start > passed ? own.start : passed;
        size_t to = end < passed + piece.count ? end : passed + piece.count;
        if (from < to)
            runs[count++] = (struct token_run){from, piece.start + from - passed, to - from};
        passed += piece.count;
    }
    return count;
}
