#include "kernels/transformer/batch.h"

void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch)
{
    size_t rows = context * batch;
    *opened = (struct batch){.context = context, .batch = batch};
    opened->ids = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    opened->targets = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    if (!ids) {
        return;
    }
    int32_t *turned_ids = malloc(rows * sizeof *turned_ids),
            *turned_targets = malloc(rows * sizeof *turned_targets);
    CHECK(turned_ids && turned_targets);
    for (size_t b = 0; b < batch; b++) {
        for (size_t t = 0; t < context; t++) {
            size_t from = b * context + t, to = t * batch + b;
            turned_ids[to] = ids[from];
            turned_targets[to] = targets ? targets[from] : t + 1 < context ? ids[from + 1] : NO_TARGET;
            opened->target_count += turned_targets[to] >= 0;
        }
    }
    op_upload(device, opened->ids, turned_ids);
    op_upload(device, opened->targets, turned_targets);
    free(turned_ids);
    free(turned_targets);
}

void batch_close(struct batch *batch, struct device *device)
{
    tensor_free(device, &batch->ids);
    tensor_free(device, &batch->targets);
}
