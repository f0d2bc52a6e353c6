#include "harness/data/token_summary.h"

bool token_summary_say(const struct data_source *source, size_t vocab, size_t count, bool quiet,
                       struct status *status)
{
    struct token_stream stream;
    size_t held, distinct = 0;
    if (source->kind == DATA_RANDOM || source->kind == DATA_BATCH || !source->path)
        return true;
    if (!tokens_count(source, vocab, &held, status) || held == SIZE_MAX)
        return status->code == STATUS_OK;
    bool ok = token_stream_open(&stream, source, vocab, 0, status) &&
              token_stream_survey(&stream, count, &distinct, status);
    if (ok && !quiet)
        fprintf(stderr, "%s: %zu tokens, read as %s; the first %zu have %zu of the vocabulary's %zu ids\n",
                source->path, held, stream.format.text, count < held ? count : held, distinct, vocab);
    token_stream_close(&stream);
    return ok;
}
