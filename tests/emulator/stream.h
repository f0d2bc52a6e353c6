// Stream: the emulator's side of cudaStream_t. Nothing that a stream is asked for happens before somebody waits for
// it: what relies on memory of the caller's staying as it was, or on a result being there already, goes wrong every
// time.
#pragma once
#include <cuda_runtime_api.h>
#ifdef __cplusplus
extern "C" {
#endif
// run(data), in the stream's order. `data` is run's to free.
void emulator_ask(cudaStream_t stream, void (*run)(void *data), void *data);
// The same, again and again until it says that it is done: other streams go on meanwhile. Seen from outside of the
// plug-in.
__attribute__((visibility("default"))) void emulator_ask_until(cudaStream_t stream, int (*done)(void *data),
                                                               void *data);
// Bytes from an address of the card's to the end of its allocation. Aborts if it is in none.
size_t emulator_room(const void *pointer);
// Counts bytes that work in a stream reads or writes, and what has been counted. Own kernels: every element that
// kernels/cuda/kernels/element.cuh reads or writes; fills; of cuDNN's graphs what they store (graph.h). The latter
// is seen from outside of the plug-in.
void emulator_count(size_t bytes);
__attribute__((visibility("default"))) size_t emulator_moved(void);
// Shared memory that a block may take on this card, and its compute capability, 86 for 8.6.
size_t emulator_shared_bytes(void);
int emulator_capability(void);
// How often the host has waited for a stream or an event. Seen from outside of the plug-in.
__attribute__((visibility("default"))) size_t emulator_waits(void);
// The streams that do at once what they are asked for, as bits by number: a device's operations are the first, its
// copies out the second, those in the third. 0, as at first: none. Seen from outside of the plug-in.
__attribute__((visibility("default"))) void emulator_eager(unsigned streams);
// How often memory of the host was pinned; how many bytes are. Seen from outside of the plug-in.
__attribute__((visibility("default"))) size_t emulator_pins(void);
__attribute__((visibility("default"))) size_t emulator_pinned_bytes(void);
#ifdef __cplusplus
}
#endif
