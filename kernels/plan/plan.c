#include "kernels/plan/plan.h"

void *plan_allocate(struct arena *arena, size_t bytes, struct status *status)
{
    (void)bytes, (void)status;
    return (void *)(uintptr_t)(ARENA_ALIGNMENT + arena->allocated_bytes);
}

void plan_release(struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena, (void)pointer, (void)bytes;
}
