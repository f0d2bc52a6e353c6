#include "methods/schedule/chunks.h"

struct chunks chunks_of(size_t context, size_t chunk)
{
    if (chunk == 0 || chunk > context)
        chunk = context;
    return (struct chunks){context, chunk, chunk ? (context + chunk - 1) / chunk : 1};
}
