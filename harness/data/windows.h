// Windows: consecutive ranges of `context` tokens of a source, visited repeatedly by a training run.
#pragma once
#include "harness/data/epochs.h"
#include "harness/data/tokens.h"

struct windows {
    struct token_stream stream;
    size_t pitch;        // tokens from a window's start to the next one's
    size_t context;      // tokens of each window that are read, the first
    struct epochs order; // of windows of the source: window w is its tokens [w * pitch, (w + 1) * pitch)
};

// Opens all whole windows of a source; random tokens are unlimited. shuffle: seed of the order, which differs in
// each epoch. Returns false and a status if there is no window. Release with windows_close, also after a failure.
bool windows_open(struct windows *windows, const struct data_source *source, size_t pitch, size_t context,
                  size_t vocab, uint64_t seed, uint64_t shuffle, struct status *status);
// Splits off the last windows, a share rounded down, into `held_out`, in the source's order and to be read whole.
// Returns false and a status if either would be empty. Release held_out separately.
bool windows_split(struct windows *windows, double share, struct windows *held_out, struct status *status);
// ids: [count, context]: reads `count` windows from position `index` of the run.
bool windows_read(struct windows *windows, size_t index, size_t count, int32_t *ids, struct status *status);
void windows_close(struct windows *windows);
