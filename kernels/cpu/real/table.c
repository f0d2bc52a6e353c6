// Table: the CPU device for one dtype.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/real/kernels.h"

#if REAL_BITS == 16
static bool open(struct device *device, struct status *status)
{
    (void)status;
    device->backend = onednn_open(); // NULL: the BLAS
    snprintf(device->description, sizeof device->description, "bf16 %s%s",
             device->backend ? "by " : "widened to f32",
             device->backend ? onednn_description(device->backend) : "");
    return true;
}

static void close(struct device *device)
{
    onednn_close(device->backend);
}
#endif

const struct device_ops NAME(cpu_ops) = {
    .name = "cpu",
    .dtype = REAL_DTYPE,
    .source = {cpu_allocate, cpu_release},
#if REAL_BITS == 16
    .open = open,
    .close = close,
#endif
    .upload = cpu_upload,
    .download = cpu_download,
    .random_normal = cpu_random_normal,
    .zero = cpu_zero,
    .copy = NAME(copy),
    .scale = NAME(scale),
    .gemm = NAME(gemm),
    .bias_forward = NAME(bias_forward),
    .bias_backward = NAME(bias_backward),
    .rmsnorm_forward = NAME(rmsnorm_forward),
    .rmsnorm_backward = NAME(rmsnorm_backward),
    .rope = NAME(rope),
    .attention_forward = NAME(attention_forward),
    .attention_backward = NAME(attention_backward),
    .attention_backward_workspace = NAME(attention_backward_workspace),
    .block_rows = cpu_block_rows,
    .swiglu_forward = NAME(swiglu_forward),
    .swiglu_backward = NAME(swiglu_backward),
    .embedding_forward = NAME(embedding_forward),
    .embedding_backward = NAME(embedding_backward),
    .cross_entropy = NAME(cross_entropy),
    .adamw = NAME(adamw),
};
