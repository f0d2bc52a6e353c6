// Calibrate: this machine's own profile, measured on the CPU device: GEMM in f64 and f32, copies, and an operation
// that does next to nothing.
#pragma once
#include "harness/spec/profile.h"

// FLOP/s of the fastest of several GEMMs of 2048 x 2048 x 2048 within two seconds: the rate that a step is held
// against. 0 and a status if the device has no such dtype or no room.
double calibrate_gemm(const char *device, enum dtype dtype, struct status *status);
// Bytes per second, read and written, of the fastest of several copies of 256 MiB, likewise.
double calibrate_copy(const char *device, enum dtype dtype, struct status *status);

// Takes about ten seconds. False and a status (oom) if there is no room for the operands.
bool calibrate(struct profile *profile, struct status *status);
