// All to all: mixers where ranks share the tokens, and each mixes some of the heads over the tokens of all (Jacobs
// et al. 2023, arXiv 2309.14509). Of attention, queries go to the ranks of their heads, and what those make of them
// comes back; so do keys and values (kv_ranks.h). A head of keys that the queries of several ranks read is with
// each.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// Whether ranks can share the heads evenly: each rank has as many query heads, and each has as many key heads, or
// each key head as many ranks.
bool heads_divide(size_t heads, size_t kv_heads, size_t ranks);
// This rank's number of `heads` heads in all.
size_t heads_here(const struct model *model, size_t heads);

// This rank's, the first and their number.
struct span heads_own(const struct model *model, size_t heads);
// Whether the model's ranks spread heads.
bool heads_are_spread(const struct model *model);

// Sections of a row, side by side, each of some heads of `width` numbers.
#define SECTIONS_MAX 3
struct sections {
    struct section {
        size_t heads, width;
    } items[SECTIONS_MAX]; // heads 0: the sections end
};
// A rank without tokens has no tensor of them: one of no rows.
struct tensor rows_or_none(struct tensor t, size_t cols, enum dtype dtype);
// From the rows of the own tokens with all heads to the rows of all tokens, by position, with this rank's heads of
// each section. own: [n B, w]; returned: [T B, sum of max(heads / P, 1) width].
struct tensor sections_spread(struct model *model, const struct batch *batch, struct tensor own,
                              struct sections sections);
// The inverse: collects own from all ranks; a head that several ranks have becomes their sum, the first rank's
// part first.
void sections_collect(struct model *model, const struct batch *batch, struct tensor own, struct sections sections,
                      struct tensor share);
// The same for rows of one section of `heads` heads.
struct tensor heads_spread(struct model *model, const struct batch *batch, struct tensor own, size_t heads);
void heads_collect(struct model *model, const struct batch *batch, struct tensor own, size_t heads,
                   struct tensor share);

// Computes o and logsumexp of q, the rows of all own tokens, in kept. kv: of all tokens and this rank's heads.
void all_to_all_attend(struct model *model, const struct batch *batch, size_t layer, const struct kept *kept,
                       struct tensor q, struct carry kv);
// grad_q: the gradient of o, becomes that of q. Adds the gradients through this rank's queries to grad_kv, shaped
// as kv.
void all_to_all_attend_backward(struct model *model, const struct batch *batch, size_t layer,
                                const struct kept *kept, struct tensor q, struct carry kv, struct carry grad_kv,
                                struct tensor grad_q);
