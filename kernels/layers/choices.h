// Choices: the experts that the tokens of a step take, in every layer with experts. The first cell that sees a
// token chooses; cells that see it again, to rebuild or to run backward, read what was chosen: the same logits
// summed in another order may choose otherwise. Where routers have losses (kernels/model/router_losses.h), that
// cell also adds its tokens to the totals of the layer, which are then complete before the first backward.
#pragma once
#include "kernels/model/carry.h"
#include "kernels/objectives/batch.h"

// The choices of all layers on the host.
struct kept_choices {
    size_t layers, rows, numbers;
    int32_t **of; // [layers] of [numbers], rows of words (routing_words); NULL: no experts, or another rank's
    bool whole;   // all tokens have some
};
void kept_choices_free(struct kept_choices *kept);
// Shares of (token, layer) pairs, in layers with experts, with other choices in one than in the other: of all
// layers, and the largest of a layer. Both must be of the same tokens.
struct choice_shares {
    double all, largest;
};
struct choice_shares kept_choices_compare(const struct kept_choices *a, const struct kept_choices *b);

// A measurement asks this of the choices of a model's steps (model->probe).
struct choices_probe {
    const struct kept_choices *given; // what tokens take where they would choose first; NULL: they choose
    bool anew;                  // cells that see tokens again choose again, and backward reads the last choice
    unsigned reverse_sums;      // of struct device, from when all tokens have been seen to the step's end
    struct kept_choices *taken; // becomes the step's choices as it ends; NULL: not wanted
};

// The choices of a step, which model->choices holds until choices_close; a model without experts has none. Without
// them every cell chooses, and forgets. Out of memory is in the device's status.
void choices_open(struct model *model, const struct batch *batch);
void choices_close(struct model *model);
// Whether the layer's totals must be complete before the first backward, so that a first pass runs its router.
bool choices_precede(const struct model *model, size_t layer);
// When all tokens have been seen: sums totals over ranks. Does nothing the second time.
void choices_settle(struct model *model);
// Factor of the losses of the next cells' tokens (SpaCO); 1 at first.
void choices_weigh(struct model *model, double factor);
// The losses of this rank's tokens, so that the sum over all ranks is the step's: metrics of the sums. Waits for
// the device.
void choices_read_losses(struct model *model, const struct batch *batch, struct objective_sums *sums);
// Gives the cell its rows of them, B a token. claims: it is the next to see its tokens, all of them for the first
// time unless at->seen is set.
struct cell_at choices_at(struct cell_at at, size_t B, bool claims);
