#include "kernels/offload/transfer.h"
#include "kernels/device/queue.h"

void transfer_prefetch(struct device *device, struct tensor *t, struct tensor *host, bool copied)
{
    if (t->place == PLACE_HOST) {
        *host = *t;
        if (copied) {
            *t = tensor_copy_in(device, *host);
        } else {
            *t = tensor_new(device, host->rows, host->cols, host->dtype, host->category);
            op_zero(device, *t);
        }
    }
}

void transfer_offload(struct device *device, struct tensor t, struct tensor host)
{
    if (host.data)
        copy_out(device, host, t);
}

void transfer_release(struct device *device, struct tensor *t, struct tensor *host)
{
    if (host->data) {
        tensor_free(device, t);
        *t = *host;
        *host = tensor_none();
    }
}
