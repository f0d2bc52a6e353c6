// Attention: by cuDNN for shapes that it supports, else by the device's own kernels.
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/plugin/attention_cudnn.h"
#include "kernels/cuda/workspace.h"

void cuda_attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                            struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    attention_forward_op *forward =
        cuda_attention_forward_by_cudnn(device, shape) ? attention_cudnn_forward : attention_own_forward;
    forward(device, shape, o, logsumexp, q, k, v);
}

void cuda_attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                             bool accumulate, const struct key_segment *segments, size_t segment_count,
                             struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                             struct tensor k, struct tensor v, struct tensor workspace)
{
    attention_backward_op *backward =
        cuda_attention_backward_by_cudnn(device, shape) ? attention_cudnn_backward : attention_own_backward;
    backward(device, shape, grad_q, accumulate, segments, segment_count, grad_o, o, logsumexp, q, k, v, workspace);
}
