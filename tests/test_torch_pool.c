// Segments of PyTorch's caching allocator: its rules by hand, and random requests against a map of every 512 bytes.
#include "kernels/framework/torch_pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static size_t reserved_after(struct torch_pool *pool, size_t number, size_t bytes)
{
    torch_pool_allocate(pool, number, bytes);
    return pool->reserved_bytes;
}

static void segments_are_by_size(void **state)
{
    (void)state;
    struct torch_pool pool = {0};
    assert_int_equal(reserved_after(&pool, 0, 512), 2 * MIB);
    assert_int_equal(reserved_after(&pool, 1, MIB), 2 * MIB); // the rest of the first segment holds it
    assert_int_equal(reserved_after(&pool, 2, MIB), 4 * MIB); // and not another
    assert_int_equal(reserved_after(&pool, 3, MIB + 512), 24 * MIB);
    assert_int_equal(reserved_after(&pool, 4, 10 * MIB - 512), 24 * MIB);
    assert_int_equal(reserved_after(&pool, 5, 10 * MIB), 34 * MIB); // rounded to 2 MiB from here on
    assert_int_equal(reserved_after(&pool, 6, 11 * MIB), 46 * MIB);
    torch_pool_close(&pool);
}

static void blocks_are_split_and_joined(void **state)
{
    (void)state;
    struct torch_pool pool = {0};
    torch_pool_allocate(&pool, 0, 64 * MIB);
    torch_pool_free(&pool, 0);
    assert_int_equal(reserved_after(&pool, 1, 63 * MIB), 64 * MIB); // a rest of 1 MiB is not split off
    torch_pool_free(&pool, 1);
    assert_int_equal(reserved_after(&pool, 2, 32 * MIB), 64 * MIB);
    assert_int_equal(reserved_after(&pool, 3, 32 * MIB), 64 * MIB);
    torch_pool_free(&pool, 2);
    torch_pool_free(&pool, 3);
    assert_int_equal(reserved_after(&pool, 4, 64 * MIB), 64 * MIB); // whole again
    torch_pool_close(&pool);
}

static void the_smallest_block_is_taken(void **state)
{
    (void)state;
    struct torch_pool pool = {0};
    torch_pool_allocate(&pool, 0, 40 * MIB);
    torch_pool_allocate(&pool, 1, 30 * MIB);
    torch_pool_free(&pool, 0);
    torch_pool_free(&pool, 1);
    torch_pool_allocate(&pool, 2, 29 * MIB);
    assert_int_equal(reserved_after(&pool, 3, 40 * MIB), 70 * MIB);
    torch_pool_close(&pool);
}

// The last 512 bytes of a small block are left for another request.
static void the_smallest_rest_is_used(void **state)
{
    (void)state;
    struct torch_pool pool = {0};
    torch_pool_allocate(&pool, 0, MIB);
    torch_pool_allocate(&pool, 1, MIB - 512);
    assert_int_equal(reserved_after(&pool, 2, 512), 2 * MIB);
    torch_pool_close(&pool);
}

// The first of two free blocks of one size is taken, so that its neighbour, once free, is alone.
static void of_equal_blocks_the_first_is_taken(void **state)
{
    (void)state;
    struct torch_pool pool = {0};
    torch_pool_allocate(&pool, 0, 40 * MIB);
    torch_pool_free(&pool, 0);
    torch_pool_allocate(&pool, 1, 20 * MIB);
    torch_pool_allocate(&pool, 2, 20 * MIB);
    torch_pool_allocate(&pool, 3, 20 * MIB);
    torch_pool_free(&pool, 1);
    torch_pool_free(&pool, 3);
    torch_pool_allocate(&pool, 4, 20 * MIB);
    torch_pool_free(&pool, 2);
    assert_int_equal(reserved_after(&pool, 5, 40 * MIB), 100 * MIB);
    torch_pool_close(&pool);
}

// ---- every 512 bytes of every segment, with the request that has them

#define UNIT     512
#define SEGMENTS 64
#define REQUESTS 400

struct map {
    struct segment {
        size_t units;
        bool large;
        uint16_t *owner; // 0: free; blocks end where it changes, or where begins says
        bool *begins;
    } segments[SEGMENTS];
    size_t count, reserved_bytes;
};

static size_t run_of(const struct segment *segment, size_t at)
{
    size_t end = at + 1;
    while (end < segment->units && !segment->begins[end])
        end++;
    return end - at;
}

static struct segment *mapped_segment(struct map *map, size_t bytes, bool large)
{
    struct segment *segment = &map->segments[map->count++];
    size_t size = !large ? 2 * MIB : bytes < 10 * MIB ? 20 * MIB : (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    assert_true(map->count <= SEGMENTS);
    map->reserved_bytes += size;
    *segment = (struct segment){.units = size / UNIT, .large = large};
    segment->owner = calloc(segment->units, sizeof *segment->owner);
    segment->begins = calloc(segment->units, sizeof *segment->begins);
    assert_true(segment->owner && segment->begins);
    segment->begins[0] = true;
    return segment;
}

static void map_allocate(struct map *map, uint16_t owner, size_t bytes)
{
    bool large = bytes > MIB;
    size_t wanted = bytes / UNIT, best = SIZE_MAX, at = 0;
    struct segment *found = NULL;
    for (size_t s = 0; s < map->count; s++) {
        struct segment *segment = &map->segments[s];
        for (size_t i = 0, run; segment->large == large && i < segment->units; i += run) {
            run = run_of(segment, i);
            if (!segment->owner[i] && run >= wanted && run < best) {
                best = run;
                found = segment;
                at = i;
            }
        }
    }
    if (!found) {
        found = mapped_segment(map, bytes, large);
        best = found->units;
    }
    size_t rest = (best - wanted) * UNIT, used = (large ? rest > MIB : rest >= UNIT) ? wanted : best;
    for (size_t i = 0; i < used; i++)
        found->owner[at + i] = owner;
    if (used < best)
        found->begins[at + used] = true;
}

// Free units beside each other are one block.
static void map_free(struct map *map, uint16_t owner)
{
    for (size_t s = 0; s < map->count; s++)
        for (size_t i = 0; i < map->segments[s].units; i++)
            if (map->segments[s].owner[i] == owner)
                map->segments[s].owner[i] = 0;
    for (size_t s = 0; s < map->count; s++)
        for (size_t i = 1; i < map->segments[s].units; i++)
            if (!map->segments[s].owner[i] && !map->segments[s].owner[i - 1])
                map->segments[s].begins[i] = false;
}

static size_t drawn_bytes(uint32_t *seed)
{
    static const size_t most[] = {16 * KIB, MIB, 4 * MIB, 12 * MIB};
    *seed = *seed * 1664525 + 1013904223;
    size_t top = most[*seed >> 30];
    *seed = *seed * 1664525 + 1013904223;
    return ((size_t)(*seed >> 8) % (top / UNIT) + 1) * UNIT;
}

static void random_requests_are_as_mapped(void **state)
{
    (void)state;
    struct torch_pool pool = {0};
    struct map map = {0};
    uint32_t seed = 7;
    uint16_t live[REQUESTS];
    size_t count = 0;
    for (uint16_t i = 1; i < REQUESTS; i++) {
        seed = seed * 1664525 + 1013904223;
        while (count > 12 || (count && seed >> 30 == 0)) {
            size_t which = (seed >> 8) % count;
            torch_pool_free(&pool, live[which]);
            map_free(&map, live[which]);
            live[which] = live[--count];
            seed = seed * 1664525 + 1013904223;
        }
        size_t bytes = drawn_bytes(&seed);
        torch_pool_allocate(&pool, i, bytes);
        map_allocate(&map, i, bytes);
        live[count++] = i;
        assert_int_equal(pool.reserved_bytes, map.reserved_bytes);
    }
    assert_true(map.count > 4 && map.count < 40); // blocks are used again
    torch_pool_close(&pool);
    for (size_t s = 0; s < map.count; s++) {
        free(map.segments[s].owner);
        free(map.segments[s].begins);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(segments_are_by_size),
                                       cmocka_unit_test(blocks_are_split_and_joined),
                                       cmocka_unit_test(the_smallest_block_is_taken),
                                       cmocka_unit_test(the_smallest_rest_is_used),
                                       cmocka_unit_test(of_equal_blocks_the_first_is_taken),
                                       cmocka_unit_test(random_requests_are_as_mapped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
