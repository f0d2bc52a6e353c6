// Chunks: the context divided into chunks; the last may be shorter.
#pragma once
#include "kernels/objectives/batch.h"

struct chunks {
    size_t context, chunk, count;
};
// chunk 0, or above the context: one chunk, even of no tokens.
struct chunks chunks_of(size_t context, size_t chunk);
// The tokens of chunk i.
static inline struct span chunk_span(struct chunks c, size_t i)
{
    size_t start = i * c.chunk, left = c.context - start;
    return (struct span){start, left < c.chunk ? left : c.chunk};
}
// The chunk's rows of a tensor over all tokens: [T B, ..].
static inline struct tensor chunk_rows(struct tensor t, struct span chunk, size_t B)
{
    return tensor_rows(t, chunk.start * B, chunk.count * B);
}
