#include "harness/data/windows.h"

bool windows_open(struct windows *windows, const struct data_source *source, size_t pitch, size_t context,
                  size_t vocab, uint64_t seed, uint64_t shuffle, struct status *status)
{
    *windows = (struct windows){.pitch = pitch, .context = context, .order.shuffle = shuffle};
    if (!token_stream_open(&windows->stream, source, vocab, seed, status))
        return false;
    windows->order.count = windows->stream.count / pitch;
    if (source->kind == DATA_RANDOM) // random tokens have no order
        windows->order.shuffle = 0;
    return windows->order.count > 0 ||
           status_set(status, STATUS_BAD_INPUT, "%s: %zu tokens hold no window of %zu; give a smaller context",
                      source->path, windows->stream.count, pitch);
}

bool windows_split(struct windows *windows, double share, struct windows *held_out, struct status *status)
{
    const struct data_source *source = windows->stream.source;
    size_t count = windows->order.count, kept_back = epochs_share(share, count);
    *held_out = (struct windows){0};
    if (source->kind == DATA_RANDOM)
        return status_set(status, STATUS_BAD_INPUT,
                          "random tokens never end, so no share of them can be held out; give a file of tokens");
    if (kept_back == 0 || kept_back == count)
        return status_set(status, STATUS_BAD_INPUT, "%s: %g of %zu windows of %zu tokens leaves none %s",
                          source->path, share, count, windows->pitch, kept_back ? "to train on" : "to evaluate");
    if (!windows_open(held_out, source, windows->pitch, windows->pitch, windows->stream.vocab, 0, 0, status))
        return false;
    held_out->order = epochs_split(&windows->order, kept_back);
    return true;
}

bool windows_read(struct windows *windows, size_t index, size_t count, int32_t *ids, struct status *status)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = token_stream_read(&windows->stream, epochs_item(&windows->order, index + i) * windows->pitch,
                               windows->context, ids + i * windows->context, status);
    return ok;
}

void windows_close(struct windows *windows)
{
    token_stream_close(&windows->stream);
    epochs_close(&windows->order);
    *windows = (struct windows){0};
}
