// Stages: the layers cut into runs of rows, bottom up.
#pragma once
#include <stddef.h>

// Rows [first, end). Below row 0 is the embedding, above the last the head.
struct stage {
    size_t first, end;
};
