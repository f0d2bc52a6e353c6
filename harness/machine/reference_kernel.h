// Reference kernel: a short fixed mix of what steps are made of, to tell how fast a machine is at this moment. Its
// time now over that when the machine's rates were measured is how much longer than predicted steps are to be
// expected to take, because of neighbours, clocks or whatever else comes and goes.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

struct reference_kernel;

// What the mix is sized for, so that it is long enough to be timed and short enough to be timed often.
enum reference_kernel_size {
    REFERENCE_KERNEL_CPU,
    REFERENCE_KERNEL_CARD,
    REFERENCE_KERNEL_SLOW_CARD,
    REFERENCE_KERNEL_SIZES
};
// On a device of its own, whose memory is in nobody's peak. NULL and a status (unsupported, oom) if there is none.
struct reference_kernel *reference_kernel_open(const char *device, enum dtype dtype,
                                               enum reference_kernel_size size, struct status *status);
// Seconds of one run of the mix, the mean over so many, after one that is not timed.
double reference_kernel_s(struct reference_kernel *reference_kernel, size_t runs);
void reference_kernel_close(struct reference_kernel *reference_kernel);
