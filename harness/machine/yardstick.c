#include "harness/machine/yardstick.h"
#include "harness/machine/rate_probe.h"
#include "kernels/device/ops.h"
#include "kernels/measure/timer.h"
#include <stdlib.h>

// One row each of what takes most of a step's time, at points that calibrate measures; together some 2 ms of a
// core, and as long on a card in f32.
static const struct {
    const char *operation;
    size_t at[YARDSTICK_SIZES][RATE_DIMENSIONS];
} parts[] = {
    {"gemm_nt", {{256, 512, 256}, {4096, 4096, 4096}, {64, 64, 64}}},
    {"attention_forward", {{256, 1, 64}, {512, 1, 128}, {16, 1, 64}}},
    {"attention_backward", {{256, 1, 64}, {512, 1, 128}, {16, 1, 64}}},
    {"swiglu_forward", {{1 << 20}, {64 << 20}, {64 << 10}}},
};
#define PARTS (sizeof parts / sizeof *parts)

struct yardstick {
    struct device *device;
    struct tensor numbers;
    const struct rate_probe *probes[PARTS];
    struct probe_operands operands[PARTS];
};

struct yardstick *yardstick_open(const char *name, enum dtype dtype, enum yardstick_size size,
                                 struct status *status)
{
    struct device *device = device_open(name, dtype, 0, status);
    if (!device)
        return NULL;
    struct yardstick *yardstick = calloc(1, sizeof *yardstick);
    CHECK(yardstick);
    *yardstick = (struct yardstick){.device = device, .numbers = probe_numbers(device)};
    for (size_t i = 0; i < PARTS && device->status.code == STATUS_OK; i++) {
        yardstick->probes[i] = rate_probe_find(parts[i].operation);
        probe_operands_open(&yardstick->operands[i], device, yardstick->numbers, yardstick->probes[i],
                            parts[i].at[size], NULL);
    }
    if (device->status.code == STATUS_OK)
        return yardstick;
    status_set(status, device->status.code, "%s", device->status.message);
    yardstick_close(yardstick);
    return NULL;
}

static void run_parts(struct yardstick *yardstick)
{
    for (size_t i = 0; i < PARTS; i++)
        yardstick->probes[i]->run(&yardstick->operands[i]);
}

double yardstick_s(struct yardstick *yardstick, size_t runs)
{
    run_parts(yardstick); // finds in the caches what it will, after whatever ran before
    device_timer_start(yardstick->device);
    for (size_t run = 0; run < runs; run++)
        run_parts(yardstick);
    return 1e-3 * device_timer_stop_ms(yardstick->device) / (double)runs;
}

void yardstick_close(struct yardstick *yardstick)
{
    if (!yardstick)
        return;
    for (size_t i = 0; i < PARTS; i++)
        if (yardstick->operands[i].device)
            probe_operands_close(&yardstick->operands[i]);
    tensor_free(yardstick->device, &yardstick->numbers);
    device_close(yardstick->device);
    free(yardstick);
}
