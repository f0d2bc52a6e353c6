// Reference kernel: a short fixed mix of a step's operations that measures the machine's current speed. Its time
// now over its time when the rates were calibrated predicts how much longer than estimated steps take, because of
// neighbours or clocks.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

struct reference_kernel;

// The device that the mix is sized for: long enough to time and short enough to repeat often.
enum reference_kernel_size {
    REFERENCE_KERNEL_CPU,
    REFERENCE_KERNEL_CARD,
    REFERENCE_KERNEL_SLOW_CARD,
    REFERENCE_KERNEL_SIZES
};
// Uses a device of its own, so its memory is in no measured peak. Returns NULL and a status (unsupported, oom) on
// failure.
struct reference_kernel *reference_kernel_open(const char *device, enum dtype dtype,
                                               enum reference_kernel_size size, struct status *status);
// Mean seconds of the mix over `runs` runs, after an untimed one.
double reference_kernel_s(struct reference_kernel *reference_kernel, size_t runs);
void reference_kernel_close(struct reference_kernel *reference_kernel);
