#include "tests/cases/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE = ARENA_ALIGNMENT, NOT_A_NUMBER = 0xff };

static void *allocate(struct arena *arena, size_t bytes, struct status *status)
{
    (void)arena, (void)status;
    char *memory = aligned_alloc(ARENA_ALIGNMENT, FENCE + arena_rounded(bytes) + FENCE);
    if (!memory)
        return NULL;
    memset(memory + FENCE, NOT_A_NUMBER, arena_rounded(bytes) + FENCE);
    return memory + FENCE;
}

static void release(struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena;
    char *memory = (char *)pointer - FENCE;
    for (size_t i = bytes; i < bytes + FENCE; i++) {
        if ((unsigned char)memory[FENCE + i] != NOT_A_NUMBER) {
            fprintf(stderr, "%zu bytes behind the end of an allocation of %zu something was written\n", i - bytes,
                    bytes);
            abort();
        }
    }
    free(memory);
}

const struct arena_source fenced_memory = {.allocate = allocate, .release = release};
