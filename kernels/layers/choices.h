// Choices: the experts that the tokens of a step take, in every layer with experts. The first cell that sees a
// token chooses; cells that see it again, to rebuild or to run backward, read what was chosen: the same logits
// summed in another order may choose otherwise.
#pragma once
#include "kernels/model/carry.h"

// The choices of a step, which model->choices holds until choices_close; a model without experts has none. Without
// them every cell chooses, and forgets. rows: of the step's own tokens. Out of memory is in the device's status.
void choices_open(struct model *model, size_t rows);
void choices_close(struct model *model);
// Gives the cell its rows of them, B a token. claims: it is the next to see its tokens, all of them for the first
// time unless at->chosen is set.
struct cell_at choices_at(struct cell_at at, size_t B, bool claims);
