// Calibrate: this machine's own profile, measured on the CPU device: GEMM in f64 and f32, copies, and an operation
// that does next to nothing.
#pragma once
#include "harness/profile.h"

// Takes about ten seconds. False and a status (oom) if there is no room for the operands.
bool calibrate(struct profile *profile, struct status *status);
