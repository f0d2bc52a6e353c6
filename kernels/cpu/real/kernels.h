// The CPU device's operations, one dtype at a time; contracts in kernels/device/device.h.
// Work is cut by shape alone, and each piece is summed by one thread in one order: bits do not depend on the number
// of threads. A piece's scratch (tiles, at most 512 KiB; the delta rule's 4 MiB where heads are longest) is on the
// stack, like a GPU's shared memory; everything larger comes from the arena.
#pragma once
#include "kernels/cpu/real/real.h"
#include "kernels/device/device.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" // a signature is the table's, whatever an operation reads of it

#define OPERATION(name) name##_op NAME(name);
DEVICE_OPERATIONS_OF_ALL(OPERATION)
#undef OPERATION
size_t NAME(attention_backward_workspace)(const struct device *device, struct attention_shape shape,
                                          const struct key_segment *segments, size_t segment_count);
size_t NAME(delta_backward_workspace)(const struct device *device, struct delta_shape shape);
