// Windows: consecutive runs of as many tokens as a context holds, of a source that is gone through again and again:
// what a training run takes its sequences from.
#pragma once
#include "harness/data/epochs.h"
#include "harness/data/tokens.h"

struct windows {
    struct token_stream stream;
    size_t context;
    struct epochs order; // of windows of the source: window w is its tokens [w * context, (w + 1) * context)
};

// All whole windows of a source; of random tokens there are as many as are asked for. shuffle: the seed of the
// order, another one each time that the source is gone through. False and a status if there is none. Release with
// windows_close, also after a failure.
bool windows_open(struct windows *windows, const struct data_source *source, size_t context, size_t vocab,
                  uint64_t seed, uint64_t shuffle, struct status *status);
// Leaves the last of them, a share of their number rounded down, to `held_out`, in the source's order. False and a
// status if that leaves either without a window. held_out is released by itself.
bool windows_split(struct windows *windows, double share, struct windows *held_out, struct status *status);
// ids: [count, context]: the windows that come as number `index` and after it.
bool windows_read(struct windows *windows, size_t index, size_t count, int32_t *ids, struct status *status);
void windows_close(struct windows *windows);
