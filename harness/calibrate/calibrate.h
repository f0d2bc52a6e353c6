// Calibrate: measures the profile of this machine's processor or a card: GEMM in f64, f32 and bf16, copies, and an
// almost empty operation.
#pragma once
#include "harness/profile/profile.h"

// Operands of the timed operations: three tensors of [rows, cols], and for copies between device and host two host
// tensors. a and b hold random numbers, like activations and weights: a card runs a GEMM of zeros up to 13 %
// faster, because switching fewer bits takes less power. Returns false and a status if there is no such device or
// no room; call calibrate_close in any case.
struct calibrate_operands {
    struct device *device;
    struct tensor a, b, c, host[2];
};
bool calibrate_open(struct calibrate_operands *operands, const char *device, enum dtype dtype, size_t rows,
                    size_t cols, struct status *status);
void calibrate_close(struct calibrate_operands *operands);

// FLOP/s of the fastest of several GEMMs of 2048 x 2048 x 2048 (cuda: 4096) within two seconds, or `seconds` if
// fewer, then with smaller matrices; the reference rate for steps. Returns 0 and a status if the device lacks the
// dtype or room.
double calibrate_gemm(const char *device, enum dtype dtype, double seconds, struct status *status);
// Bytes per second, read and written, of the fastest of several copies of 256 MiB, with the same limits.
double calibrate_copy(const char *device, enum dtype dtype, double seconds, struct status *status);

// A request: the device, cpu or a card, and optionally rates of operations by shape, with a time per dtype in
// seconds. A peak takes two seconds, on a card half a second, or as many if they are fewer.
struct calibrate_request {
    const char *device;
    const char *name; // of the profile; NULL: host, or the card's own
    bool rated[DTYPE_COUNT];
    double seconds;
};
// Returns false and a status if there is no such device (unsupported) or no room for the operands (oom).
bool calibrate(struct profile *profile, const struct calibrate_request *request, struct status *status);
// The CPU's current rates, each within `seconds`: of a large GEMM, unless it was measured (0: it was not), and of a
// large copy, which reads and writes. If the copy does not fit, the roofline is not changed.
void calibrate_roofline(enum dtype dtype, double gemm_flops_per_s, double seconds, struct roofline *roofline);
