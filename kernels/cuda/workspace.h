// Workspace: what the CUDA device's operations take from the arena besides their operands; pure functions of the
// shape, without a CUDA header, so that a plan can ask them where there is no CUDA.
#pragma once
#include "kernels/base/device.h"

// Attention's backward in bf16 runs cuDNN over at most this many keys at a time, which the saved logsumexp makes
// exact: its workspace then does not grow with the context.
#define CUDA_ATTENTION_KEYS 4096

// bf16: f32 accumulators of dQ, and of dK and dV (bf16 each) for every query head over one block of keys.
// f32 and f64: own kernels, which accumulate in place.
size_t cuda_attention_backward_workspace(struct attention_shape shape, enum dtype dtype);
