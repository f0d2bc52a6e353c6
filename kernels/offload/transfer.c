#include "kernels/offload/transfer.h"
#include "kernels/device/queue.h"

void transfer_prefetch(struct device *device, struct tensor *t, struct tensor *far, bool copied)
{
    if (t->place == PLACE_HOST) {
        *far = *t;
        if (copied) {
            *t = tensor_copy_in(device, *far);
        } else {
            *t = tensor_new(device, far->rows, far->cols, far->dtype, far->category);
            op_zero(device, *t);
        }
    }
}

void transfer_offload(struct device *device, struct tensor t, struct tensor far)
{
    if (far.data)
        copy_out(device, far, t);
}

void transfer_release(struct device *device, struct tensor *t, struct tensor *far)
{
    if (far->data) {
        tensor_free(device, t);
        *t = *far;
        *far = tensor_none();
    }
}
