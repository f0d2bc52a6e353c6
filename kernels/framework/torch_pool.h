// Torch pool: the segments that PyTorch's CUDACachingAllocator takes from the driver, and never returns within a
// step: of requests of up to 1 MiB in segments of 2 MiB, of up to 10 MiB in segments of 20, else rounded up to 2
// MiB. A request takes the smallest free block that holds it, and splits it if the rest is worth it; a freed block
// joins free neighbours. Without expandable segments, garbage collection, or other processes.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct torch_block;

struct torch_pool {
    struct torch_block *free[2]; // of the small blocks, and of the large
    struct torch_block *first;   // of each segment, in a list
    struct torch_block **taken;  // [taken_capacity], by the request's number
    size_t taken_capacity, segments;
    size_t reserved_bytes;
};

// A request of `bytes`, a positive multiple of 512, by a number that no other live one has.
void torch_pool_allocate(struct torch_pool *pool, size_t number, size_t bytes);
void torch_pool_free(struct torch_pool *pool, size_t number);
// Releases the pool's records; {0} is an empty pool.
void torch_pool_close(struct torch_pool *pool);
