#include "kernels/transformer/cell_memo.h"

bool cell_memo_begin(struct model *model, struct memo_use *use, struct cell_key key, struct activations *a)
{
    struct device *device = model->device;
    struct tensor *owned[ACTIVATIONS_OWNED];
    *use = (struct memo_use){0};
    if (!device->memo) {
        return false;
    }
    if (device->status.code != STATUS_OK) { // the rest of the walk does nothing but free
        if (key.part == CELL_BACKWARD_ATTENTION) {
            activations_free(model, a);
        }
        return true;
    }
    activations_owned(a, owned);
    for (size_t i = 0; i < ACTIVATIONS_OWNED; i++) {
        key.held |= (size_t)(owned[i]->data != NULL) << i;
    }
    if (!memo_begin(device, use, &key, sizeof key)) {
        return false;
    }
    struct activations after = *(const struct activations *)use->outcome;
    struct tensor *left[ACTIVATIONS_OWNED];
    activations_owned(&after, left);
    for (size_t i = 0; i < ACTIVATIONS_OWNED; i++) {
        if (owned[i]->data && !left[i]->data) {
            tensor_free(device, owned[i]);
        } else if (!owned[i]->data && left[i]->data) {
            *owned[i] = tensor_new(device, left[i]->rows, left[i]->cols, left[i]->dtype, left[i]->category);
        }
    }
    return true;
}

void cell_memo_end(struct model *model, struct memo_use *use, struct activations *a)
{
    memo_end(model->device, use, a, sizeof *a);
}
