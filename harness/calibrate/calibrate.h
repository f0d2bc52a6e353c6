// Calibrate: the profile of this machine's processor or of one of its cards, measured: GEMM in f64, f32 and bf16,
// copies, and an operation that does next to nothing.
#pragma once
#include "harness/profile/profile.h"

// What is timed works on: three tensors of [rows, cols], and for copies between device and host two of the host's.
// a and b hold random numbers, as activations and weights do: on a card a GEMM of zeros runs up to 13 % faster, for
// its clock follows the power that changing bits take. False and a status if there is no such device or no room;
// calibrate_close in any case.
struct calibrate_operands {
    struct device *device;
    struct tensor a, b, c, host[2];
};
bool calibrate_open(struct calibrate_operands *operands, const char *device, enum dtype dtype, size_t rows,
                    size_t cols, struct status *status);
void calibrate_close(struct calibrate_operands *operands);

// FLOP/s of the fastest of several GEMMs of 2048 x 2048 x 2048 (cuda: 4096) within two seconds, or `seconds` if
// they are fewer, and then of smaller ones: the rate that a step is held against. 0 and a status if the device has
// no such dtype or no room.
double calibrate_gemm(const char *device, enum dtype dtype, double seconds, struct status *status);
// Bytes per second, read and written, of the fastest of several copies of 256 MiB, likewise.
double calibrate_copy(const char *device, enum dtype dtype, double seconds, struct status *status);

// What is measured: a device, cpu or a card; and besides the peaks the rates of operations by shape, for so many
// seconds each dtype. A peak takes two seconds, of a card half a one, or as many if they are fewer.
struct calibrate_request {
    const char *device;
    const char *name; // the profile's; NULL: host, or the card's own
    bool rated[DTYPE_COUNT];
    double seconds;
};
// False and a status if there is no such device (unsupported), or no room for the operands (oom).
bool calibrate(struct profile *profile, const struct calibrate_request *request, struct status *status);
// The CPU's rates now, each within so many seconds: of a large GEMM, unless it was measured (0: it was not), and of
// a large copy, which reads and writes. Where the copy finds no room the roofline stays as it is.
void calibrate_roofline(enum dtype dtype, double gemm_flops_per_s, double seconds, struct roofline *roofline);
