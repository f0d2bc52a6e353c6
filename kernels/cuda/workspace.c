#include "kernels/cuda/workspace.h"

size_t cuda_attention_backward_workspace(struct attention_shape shape, enum dtype dtype)
{
    if (dtype != DTYPE_BF16) {
        return 0;
    }
    size_t keys = shape.start + shape.queries;
    keys = keys < CUDA_ATTENTION_KEYS ? keys : CUDA_ATTENTION_KEYS;
    return shape.batch * shape.heads * shape.head_dim * (shape.queries * sizeof(float) + keys * 2 * 2);
}
