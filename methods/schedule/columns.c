#include "methods/schedule/columns.h"

struct columns columns_of(size_t context, size_t chunk)
{
    if (chunk == 0 || chunk > context) {
        chunk = context;
    }
    return (struct columns){context, chunk, chunk ? (context + chunk - 1) / chunk : 1};
}
