// Columns: the context cut into chunks; the last may be shorter.
#pragma once
#include <stddef.h>

struct columns {
    size_t context, chunk, count;
};
// chunk 0, or above the context: one column.
struct columns columns_of(size_t context, size_t chunk);
static inline size_t column_start(struct columns c, size_t i)
{
    return i * c.chunk;
}
static inline size_t column_end(struct columns c, size_t i)
{
    size_t end = (i + 1) * c.chunk;
    return end < c.context ? end : c.context;
}
