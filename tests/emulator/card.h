// Card: what the emulated CUDA runtime says of its cards, and what all of it shares: the current card and the last
// error. With LONGBP_EMULATED_CARDS=N there are N cards; EMULATED_CARD, gives them another compute capability and
// its shared memory.
#pragma once
#include <cuda_runtime_api.h>

extern cudaError_t emulator_last_error;
extern thread_local int emulator_current; // card

// Calls that CUDA would refuse abort with a message.
void emulator_require(bool condition, const char *what);
