#include "kernels/framework/torch_pool.h"
#include "kernels/base/status.h"
#include <stdlib.h>
#include <string.h>

#define MIB            ((size_t)1 << 20)
#define SMALL_REQUEST  MIB // at most, in the pool of small blocks
#define SMALL_SEGMENT  (2 * MIB)
#define LARGE_REQUEST  (10 * MIB) // from here on a segment of its own size
#define LARGE_SEGMENT  (20 * MIB)
#define SEGMENT_GRAIN  (2 * MIB)
#define SMALLEST_BLOCK 512

struct torch_block {
    struct torch_block *left, *right;  // in the segment
    struct torch_block *next, *before; // in the list of free blocks
    struct torch_block *next_segment;  // of a segment's first block
    size_t bytes, segment, begin;
    bool large, taken;
};

static struct torch_block *block_new(struct torch_block block)
{
    struct torch_block *made = malloc(sizeof *made);
    CHECK(made);
    *made = block;
    return made;
}

static void set_free(struct torch_pool *pool, struct torch_block *block)
{
    block->taken = false;
    block->before = NULL;
    block->next = pool->free[block->large];
    if (block->next)
        block->next->before = block;
    pool->free[block->large] = block;
}

static void take(struct torch_pool *pool, struct torch_block *block)
{
    *(block->before ? &block->before->next : &pool->free[block->large]) = block->next;
    if (block->next)
        block->next->before = block->before;
    block->taken = true;
}

// Tells whether a is tried before b: the smaller, of equal ones the lower.
static bool fits_better(const struct torch_block *a, const struct torch_block *b)
{
    return a->bytes != b->bytes       ? a->bytes < b->bytes
           : a->segment != b->segment ? a->segment < b->segment
                                      : a->begin < b->begin;
}

static struct torch_block *best_fit(const struct torch_pool *pool, size_t bytes, bool large)
{
    struct torch_block *best = NULL;
    for (struct torch_block *block = pool->free[large]; block; block = block->next)
        if (block->bytes >= bytes && (!best || fits_better(block, best)))
            best = block;
    return best;
}

static struct torch_block *new_segment(struct torch_pool *pool, size_t bytes, bool large)
{
    size_t size = !large                  ? SMALL_SEGMENT
                  : bytes < LARGE_REQUEST ? LARGE_SEGMENT
                                          : (bytes + SEGMENT_GRAIN - 1) / SEGMENT_GRAIN * SEGMENT_GRAIN;
    pool->reserved_bytes += size;
    pool->first = block_new((struct torch_block){
        .bytes = size, .segment = pool->segments++, .large = large, .next_segment = pool->first});
    set_free(pool, pool->first);
    return pool->first;
}

// Leaves the rest free, if it is worth it.
static void split(struct torch_pool *pool, struct torch_block *block, size_t bytes)
{
    size_t rest = block->bytes - bytes;
    if (block->large ? rest <= SMALL_REQUEST : rest < SMALLEST_BLOCK)
        return;
    struct torch_block *after = block_new((struct torch_block){.left = block,
                                                               .right = block->right,
                                                               .bytes = rest,
                                                               .segment = block->segment,
                                                               .begin = block->begin + bytes,
                                                               .large = block->large});
    if (after->right)
        after->right->left = after;
    block->right = after;
    block->bytes = bytes;
    set_free(pool, after);
}

void torch_pool_allocate(struct torch_pool *pool, size_t number, size_t bytes)
{
    bool large = bytes > SMALL_REQUEST;
    struct torch_block *block = best_fit(pool, bytes, large);
    if (!block)
        block = new_segment(pool, bytes, large);
    take(pool, block);
    split(pool, block, bytes);
    if (number >= pool->taken_capacity) {
        size_t capacity = 2 * (number + 1);
        pool->taken = realloc(pool->taken, capacity * sizeof(struct torch_block *));
        CHECK(pool->taken);
        memset(pool->taken + pool->taken_capacity, 0,
               (capacity - pool->taken_capacity) * sizeof(struct torch_block *));
        pool->taken_capacity = capacity;
    }
    CHECK(!pool->taken[number]);
    pool->taken[number] = block;
}

// Joins a block with its right neighbour, which goes.
static void join(struct torch_block *block)
{
    struct torch_block *right = block->right;
    block->bytes += right->bytes;
    block->right = right->right;
    if (block->right)
        block->right->left = block;
    free(right);
}

void torch_pool_free(struct torch_pool *pool, size_t number)
{
    CHECK(number < pool->taken_capacity && pool->taken[number]);
    struct torch_block *block = pool->taken[number];
    pool->taken[number] = NULL;
    if (block->right && !block->right->taken) {
        take(pool, block->right);
        join(block);
    }
    if (block->left && !block->left->taken) {
        block = block->left;
        take(pool, block);
        join(block);
    }
    set_free(pool, block);
}

void torch_pool_close(struct torch_pool *pool)
{
    while (pool->first) {
        struct torch_block *block = pool->first;
        pool->first = block->next_segment;
        while (block->right)
            join(block);
        free(block);
    }
    free(pool->taken);
    *pool = (struct torch_pool){0};
}
