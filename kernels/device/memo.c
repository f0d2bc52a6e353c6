// A hash table with open addressing, at most half full.
#include "kernels/device/memo.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct memo_entry {
    uint64_t hash;
    size_t key_bytes;
    void *key;
    const void *outcome; // shared by all entries that have the same; NULL: its run did not complete
    struct counters counters;
    size_t peak_bytes, peak_by_category[CATEGORY_COUNT]; // growth above the live bytes before
};

struct memo {
    struct memo_entry **entries;
    size_t capacity, count;
};

struct memo *memo_new(void)
{
    return calloc(1, sizeof(struct memo));
}

void memo_free(struct memo *memo)
{
    for (size_t i = 0; memo && i < memo->capacity; i++) {
        if (memo->entries[i]) {
            free(memo->entries[i]->key);
            free(memo->entries[i]);
        }
    }
    if (memo)
        free(memo->entries);
    free(memo);
}

static struct memo_entry **place_of(const struct memo *memo, uint64_t hash, const void *key, size_t bytes)
{
    size_t i = hash & (memo->capacity - 1);
    struct memo_entry *entry;
    while ((entry = memo->entries[i]) &&
           (entry->hash != hash || entry->key_bytes != bytes || memcmp(entry->key, key, bytes) != 0))
        i = (i + 1) & (memo->capacity - 1);
    return &memo->entries[i];
}

static void grow(struct memo *memo)
{
    struct memo before = *memo;
    memo->capacity = before.capacity ? 2 * before.capacity : 1024;
    memo->entries = calloc(memo->capacity, sizeof *memo->entries);
    for (size_t i = 0; i < before.capacity; i++) {
        struct memo_entry *entry = before.entries[i];
        if (entry)
            *place_of(memo, entry->hash, entry->key, entry->key_bytes) = entry;
    }
    free(before.entries);
}

static struct memo_entry *find(struct memo *memo, const void *key, size_t bytes)
{
    if (2 * memo->count >= memo->capacity)
        grow(memo);
    uint64_t hash = XXH3_64bits(key, bytes);
    struct memo_entry **place = place_of(memo, hash, key, bytes);
    if (!*place) {
        *place = calloc(1, sizeof **place);
        void *copy = malloc(bytes + 1);
        memcpy(copy, key, bytes);
        **place = (struct memo_entry){.hash = hash, .key_bytes = bytes, .key = copy};
        memo->count++;
    }
    return *place;
}

// counters += times * (more - less), for counters of operations.
static void add(struct counters *counters, const struct counters *more, const struct counters *less, double times)
{
    double launches = times * (double)(more->launches - less->launches);
    counters->flops += times * (more->flops - less->flops);
    counters->bytes_moved += times * (more->bytes_moved - less->bytes_moved);
    counters->glue_bytes += times * (more->glue_bytes - less->glue_bytes);
    counters->launches += (uint64_t)launches;
    counters->estimate_s += times * (more->estimate_s - less->estimate_s);
    counters->clock_s[QUEUE_COMPUTE] += times * (more->clock_s[QUEUE_COMPUTE] - less->clock_s[QUEUE_COMPUTE]);
}

void counters_repeat(struct counters *counters, const struct counters *before, double times)
{
    const struct counters now = *counters;
    add(counters, &now, before, times);
}

bool memo_begin(struct device *device, struct memo_use *use, const void *key, size_t bytes)
{
    struct arena *arena = &device->arena;
    *use = (struct memo_use){0};
    if (!memo_is_on(device))
        return false;
    struct memo_entry *entry = find(device->memo, key, bytes);
    if (entry->outcome) {
        if (!arena_touch(arena, entry->peak_bytes, entry->peak_by_category))
            return false;
        add(&device->counters, &entry->counters, &(struct counters){0}, 1);
        use->outcome = entry->outcome;
        return true;
    }
    use->entry = entry;
    use->counters = device->counters;
    use->peak_bytes = arena->peak_bytes;
    memcpy(use->peak_by_category, arena->peak_by_category, sizeof use->peak_by_category);
    use->recorded = device->recorded[QUEUE_COMPUTE];
    device->counters = (struct counters){0};
    arena_reset_peak(arena);
    memcpy(entry->peak_by_category, arena->live_by_category, sizeof entry->peak_by_category);
    entry->peak_bytes = arena->live_bytes;
    return false;
}

void memo_end(struct device *device, struct memo_use *use, const void *outcome, size_t bytes)
{
    struct memo_entry *entry = use->entry;
    struct arena *arena = &device->arena;
    if (!entry)
        return;
    const struct counters *counters = &device->counters;
    CHECK(device->recorded[QUEUE_COMPUTE] == use->recorded && counters->clock_s[QUEUE_OUT] == 0 &&
          counters->clock_s[QUEUE_IN] == 0);
    entry->peak_bytes = arena->peak_bytes - entry->peak_bytes;
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        entry->peak_by_category[i] = arena->peak_by_category[i] - entry->peak_by_category[i];
    if (device->status.code == STATUS_OK) {
        entry->counters = *counters;
        entry->outcome = find(device->memo, outcome, bytes)->key;
    }
    if (use->peak_bytes >= arena->peak_bytes) {
        arena->peak_bytes = use->peak_bytes;
        memcpy(arena->peak_by_category, use->peak_by_category, sizeof use->peak_by_category);
    }
    device->counters = use->counters;
    add(&device->counters, &entry->counters, &(struct counters){0}, 1);
    use->entry = NULL;
}
