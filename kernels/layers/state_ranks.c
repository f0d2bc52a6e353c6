#include "kernels/layers/state_ranks.h"

static void add_pieces(struct state_pieces *pieces, const struct pieces *of, size_t rank, size_t item, bool own)
{
    if (of->items[item].count == 0)
        return;
    if (own)
        pieces->own[item] = pieces->count;
    pieces->items[pieces->count++] = (struct state_piece){rank, item, of->items[item]};
}

struct state_pieces state_pieces_open(const struct model *model, const struct batch *batch)
{
    size_t ranks = model->ranks.sequence.size, rank = model->ranks.sequence.rank;
    struct state_pieces pieces = {.items = calloc(PIECES * ranks, sizeof *pieces.items),
                                  .own = {SIZE_MAX, SIZE_MAX}};
    CHECK(pieces.items);
    for (size_t i = 0; i < PIECES * ranks; i++) { // the first ones come first, the second ones in reverse
        size_t of_rank = i < ranks ? i : PIECES * ranks - 1 - i;
        struct pieces of = pieces_of(batch->pieces.context, ranks, of_rank);
        add_pieces(&pieces, &of, of_rank, i < ranks ? 0 : 1, of_rank == rank);
    }
    return pieces;
}

void state_pieces_close(struct state_pieces *pieces)
{
    free(pieces->items);
}

struct tensor state_piece_rows(const struct state_pieces *pieces, struct tensor t, size_t piece)
{
    size_t rows = t.rows / pieces->count;
    return tensor_rows(t, piece * rows, rows);
}

void state_pieces_gather(struct model *model, const struct state_pieces *pieces, struct tensor t)
{
    size_t ranks = model->ranks.sequence.size, rows = t.rows / pieces->count;
    struct row_range *owned = calloc(ranks, sizeof *owned);
    CHECK(owned);
    for (size_t item = 0; item < PIECES; item++) {
        memset(owned, 0, ranks * sizeof *owned);
        for (size_t i = 0; i < pieces->count; i++)
            if (pieces->items[i].item == item)
                owned[pieces->items[i].rank] = (struct row_range){i * rows, rows};
        comm_gather_rows(&model->ranks.sequence, model->device, t, owned);
    }
    free(owned);
}

// The tokens of a piece that are among the `taps` before position `start`.
static struct span tail_within(struct span tokens, size_t start, size_t taps)
{
    size_t first = start > taps ? start - taps : 0, end = tokens.start + tokens.count;
    first = first > tokens.start ? first : tokens.start;
    end = end < start ? end : start;
    return (struct span){first, end > first ? end - first : 0};
}

void state_piece_tail(struct model *model, const struct state_pieces *pieces, size_t piece, struct tensor all,
                      struct tensor tail, size_t taps, size_t B)
{
    size_t start = pieces->items[piece].tokens.start;
    for (size_t i = 0; i < piece; i++) {
        struct span tokens = pieces->items[i].tokens, in = tail_within(tokens, start, taps);
        size_t from = taps - (tokens.start + tokens.count - in.start), to = taps - (start - in.start);
        if (in.count > 0)
            op_copy(model->device, tensor_rows(tail, to * B, in.count * B),
                    tensor_rows(state_piece_rows(pieces, all, i), from * B, in.count * B));
    }
}

void state_piece_add_tails(struct model *model, const struct state_pieces *pieces, size_t piece, struct tensor all,
                           struct tensor grad, size_t taps, size_t B)
{
    struct span own = pieces->items[piece].tokens;
    for (size_t i = piece + 1; i < pieces->count; i++) {
        size_t start = pieces->items[i].tokens.start;
        struct span in = tail_within(own, start, taps);
        if (in.count > 0)
            op_accumulate(
                model->device, tensor_rows(grad, (in.start - own.start) * B, in.count * B),
                tensor_rows(state_piece_rows(pieces, all, i), (taps - (start - in.start)) * B, in.count * B));
    }
}
