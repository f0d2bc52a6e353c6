#include "kernels/layers/cell_memo.h"
#include <string.h>

bool cell_memo_begin(struct model *model, struct memo_use *use, struct cell_key key, struct activations *a)
{
    struct device *device = model->device;
    *use = (struct memo_use){0};
    if (!device->memo)
        return false;
    if (device->status.code != STATUS_OK) { // the rest of the step only frees
        if (key.part == CELL_BACKWARD_MIXER || (key.part == CELL_FORWARD && key.how == KEEP_NOTHING))
            activations_free(device, a);
        return true;
    }
    key.without_adapter = model->without_adapter;
    key.output = a->output;
    for (size_t i = 0; i < ACTIVATIONS_OWNED; i++)
        key.held |= (size_t)(a->owned[i].data != NULL) << i;
    if (!memo_begin(device, use, &key, sizeof key))
        return false;
    const struct activations *after = use->outcome;
    for (size_t i = 0; i < ACTIVATIONS_OWNED; i++) {
        struct tensor *now = &a->owned[i];
        const struct tensor *left = &after->owned[i];
        if (now->data && !left->data)
            tensor_free(device, now);
        else if (!now->data && left->data)
            *now = tensor_new(device, left->rows, left->cols, left->dtype, left->category);
    }
    return true;
}

void cell_memo_end(struct model *model, struct memo_use *use, struct activations *a)
{
    // Only shapes: cells that leave the same shapes have one outcome.
    struct activations left;
    memset(&left, 0, sizeof left); // also what is between its members
    for (size_t i = 0; i < ACTIVATIONS_OWNED; i++) {
        const struct tensor *own = &a->owned[i];
        if (own->data) {
            struct tensor *shape = &left.owned[i];
            shape->data = model; // not NULL
            shape->dtype = own->dtype, shape->category = own->category;
            shape->rows = own->rows, shape->cols = own->cols;
        }
    }
    memo_end(model->device, use, &left, sizeof left);
}
