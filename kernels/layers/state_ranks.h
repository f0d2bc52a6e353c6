// State ranks: states over ranks that share the tokens of the sequences, each with some pieces of adjacent ones. A
// piece takes the state left of it, S, to A S + B. All ranks gather A and B of all pieces, and each folds those
// left of its own, and with A^T from the right the gradients. (Yang et al. 2024, arXiv 2406.06484, section 3, of
// chunks.)
#pragma once
#include "kernels/model/carry.h"

// The pieces of all ranks that have tokens, by position; with each come as many rows of tensors that are gathered.
struct state_pieces {
    size_t count;
    struct state_piece {
        size_t rank, item; // of the rank's pieces (pieces.h)
        struct span tokens;
    } * items;
    size_t own[PIECES]; // numbers of this rank's; SIZE_MAX: there is none
};
struct state_pieces state_pieces_open(const struct model *model, const struct batch *batch);
void state_pieces_close(struct state_pieces *pieces);
// Gathers t, in which each piece has as many rows.
void state_pieces_gather(struct model *model, const struct state_pieces *pieces, struct tensor t);
struct tensor state_piece_rows(const struct state_pieces *pieces, struct tensor t, size_t piece);

// The last `taps` rows of tokens, [taps B, w], before a piece, from those of all pieces, where shorter pieces have
// theirs last. Rows before the sequence are not written.
void state_piece_tail(struct model *model, const struct state_pieces *pieces, size_t piece, struct tensor all,
                      struct tensor tail, size_t taps, size_t B);
// Adds the gradients of the tails of later pieces to those of a piece's own rows, [n B, w].
void state_piece_add_tails(struct model *model, const struct state_pieces *pieces, size_t piece, struct tensor all,
                           struct tensor grad, size_t taps, size_t B);
