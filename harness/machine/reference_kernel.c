#include "harness/machine/reference_kernel.h"
#include "harness/machine/rate_probe.h"
#include "kernels/device/ops.h"
#include "kernels/measure/timer.h"
#include <stdlib.h>

// One row for each operation that dominates steps, at shapes that calibrate measures. Together they take some 2 ms
// of a core, and as long on a card in f32.
static const struct {
    const char *operation;
    size_t at[REFERENCE_KERNEL_SIZES][RATE_DIMENSIONS];
} parts[] = {
    {"gemm_nt", {{256, 512, 256}, {4096, 4096, 4096}, {64, 64, 64}}},
    {"attention_forward", {{256, 1, 64}, {512, 1, 128}, {16, 1, 64}}},
    {"attention_backward", {{256, 1, 64}, {512, 1, 128}, {16, 1, 64}}},
    {"swiglu_forward", {{1 << 20}, {64 << 20}, {64 << 10}}},
};
#define PARTS (sizeof parts / sizeof *parts)

struct reference_kernel {
    struct device *device;
    struct tensor numbers;
    const struct rate_probe *probes[PARTS];
    struct probe_operands operands[PARTS];
};

struct reference_kernel *reference_kernel_open(const char *name, enum dtype dtype, enum reference_kernel_size size,
                                               struct status *status)
{
    struct device *device = device_open(name, dtype, 0, status);
    if (!device)
        return NULL;
    struct reference_kernel *reference_kernel = calloc(1, sizeof *reference_kernel);
    *reference_kernel = (struct reference_kernel){.device = device, .numbers = probe_numbers(device)};
    for (size_t i = 0; i < PARTS && device->status.code == STATUS_OK; i++) {
        reference_kernel->probes[i] = rate_probe_find(parts[i].operation);
        probe_operands_open(&reference_kernel->operands[i], device, reference_kernel->numbers,
                            reference_kernel->probes[i], parts[i].at[size], NULL);
    }
    if (status_take(status, &device->status))
        return reference_kernel;
    reference_kernel_close(reference_kernel);
    return NULL;
}

static void run_parts(struct reference_kernel *reference_kernel)
{
    for (size_t i = 0; i < PARTS; i++)
        reference_kernel->probes[i]->run(&reference_kernel->operands[i]);
}

double reference_kernel_s(struct reference_kernel *reference_kernel, size_t runs)
{
    run_parts(reference_kernel); // restores the same cache state after other work
    device_timer_start(reference_kernel->device);
    for (size_t run = 0; run < runs; run++)
        run_parts(reference_kernel);
    return 1e-3 * device_timer_stop_ms(reference_kernel->device) / (double)runs;
}

void reference_kernel_close(struct reference_kernel *reference_kernel)
{
    if (!reference_kernel)
        return;
    for (size_t i = 0; i < PARTS; i++)
        if (reference_kernel->operands[i].device)
            probe_operands_close(&reference_kernel->operands[i]);
    tensor_free(reference_kernel->device, &reference_kernel->numbers);
    device_close(reference_kernel->device);
    free(reference_kernel);
}
