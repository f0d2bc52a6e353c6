#include "kernels/device/arena.h"
#include "kernels/base/clock.h"
#include "kernels/base/size_text.h"
#include <string.h>

const char *category_name(enum category category)
{
    static const char *const names[CATEGORY_COUNT] = {
        "weights",   "gradients",    "optimizer",   "hidden_checkpoints",
        "kv_cache",  "kv_gradients", "activations", "logits",
        "workspace", "data",         "host"};
    return names[category];
}

// The time line's own host memory is not part of the measurement and not counted.
static void timeline_add(struct arena *arena, double flops)
{
    if (!arena->timeline_on)
        return;
    if (arena->timeline_count == arena->timeline_capacity) {
        arena->timeline_capacity = arena->timeline_capacity ? 2 * arena->timeline_capacity : 1024;
        arena->timeline = realloc(arena->timeline, arena->timeline_capacity * sizeof *arena->timeline);
        CHECK(arena->timeline);
    }
    struct arena_event *event = &arena->timeline[arena->timeline_count++];
    event->ms = 1e3 * clock_s() - arena->timeline_start_ms;
    event->flops = flops;
    memcpy(event->live_bytes, arena->live_by_category, sizeof event->live_bytes);
}

void arena_open(struct arena *arena, struct device *device, enum place place, struct arena_source source)
{
    *arena = (struct arena){.source = source, .device = device, .place = place};
}

void arena_limit(struct arena *arena, size_t bytes, const char *what)
{
    static const char *const keys[PLACE_COUNT] = {"limits.memory", "limits.host_memory"};
    arena->limit_bytes = bytes;
    arena->limit_what = what ? what : keys[arena->place];
}

void arena_close(struct arena *arena)
{
    CHECK(arena->live_bytes == 0);
    if (arena->source.close)
        arena->source.close(arena);
    free(arena->timeline);
    arena->timeline = NULL;
}

struct kept_block {
    struct kept_block *next;
    void *pointer;
    size_t bytes;
};

void arena_keep(struct arena *arena, void *pointer, size_t bytes)
{
    struct kept_block *kept = malloc(sizeof *kept);
    CHECK(kept);
    *kept = (struct kept_block){arena->kept, pointer, bytes};
    arena->kept = kept;
}

static void *take(struct kept_block **at)
{
    struct kept_block *found = *at;
    void *pointer = found->pointer;
    *at = found->next;
    free(found);
    return pointer;
}

void *arena_take_kept(struct arena *arena, size_t bytes)
{
    struct kept_block **at = &arena->kept;
    while (*at && (*at)->bytes != bytes)
        at = &(*at)->next;
    return *at ? take(at) : NULL;
}

void arena_free_kept(struct arena *arena, void (*release)(struct arena *arena, void *pointer, size_t bytes))
{
    while (arena->kept) {
        size_t bytes = arena->kept->bytes;
        release(arena, take(&arena->kept), bytes);
    }
}

size_t arena_rounded(size_t bytes)
{
    if (bytes > SIZE_MAX - ARENA_ALIGNMENT)
        return SIZE_MAX;
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

// A size as text.
struct size_words {
    char text[32];
};
static struct size_words words(size_t bytes)
{
    struct size_words size = {.text = ""};
    size_text(bytes, size.text, sizeof size.text);
    return size;
}

static size_t room(size_t limit_bytes, size_t live_bytes)
{
    return live_bytes < limit_bytes ? limit_bytes - live_bytes : 0;
}

static size_t live_of_both(const struct arena *arena)
{
    return arena->live_bytes + (arena->beside ? arena->beside->live_bytes : 0);
}

// The limit with the least free bytes, its name, and the live bytes that count against it; 0: no limit.
static size_t nearest_limit(const struct arena *arena, size_t *live_bytes, const char **what)
{
    size_t both_bytes = live_of_both(arena);
    bool shared = arena->shared_bytes && (!arena->limit_bytes || room(arena->shared_bytes, both_bytes) <
                                                                     room(arena->limit_bytes, arena->live_bytes));
    *live_bytes = shared ? both_bytes : arena->live_bytes;
    *what = shared ? arena->shared_what : arena->limit_what;
    return shared ? arena->shared_bytes : arena->limit_bytes;
}

static void *over_limit(const struct arena *arena, size_t bytes, enum category category, struct status *status)
{
    static const char *const where[PLACE_COUNT] = {"", " on the host"};
    const char *what;
    size_t live_bytes, limit_bytes = nearest_limit(arena, &live_bytes, &what);
    limit_bytes = limit_bytes == ARENA_LIMIT_NOTHING ? 0 : limit_bytes;
    size_t missing_bytes = bytes - limit_bytes + live_bytes;
    status_set(status, STATUS_OOM,
               "%s for %s do not fit%s: %s are live and the limit is %s, %zu %s too few so far (%s)",
               words(bytes).text, category_name(category), where[arena->place], words(live_bytes).text,
               words(limit_bytes).text, missing_bytes, size_text_unit(missing_bytes), what);
    return NULL;
}

void *arena_allocate(struct arena *arena, size_t bytes, enum category category, double flops, struct status *status)
{
    bytes = arena_rounded(bytes ? bytes : 1);
    const char *what;
    size_t live_bytes, limit_bytes = nearest_limit(arena, &live_bytes, &what);
    if (limit_bytes && (bytes > limit_bytes || live_bytes > limit_bytes - bytes))
        return over_limit(arena, bytes, category, status);
    if (bytes > SIZE_MAX - live_of_both(arena)) {
        status_set(status, STATUS_OOM, "%s for %s are more than can be addressed: %s are live", words(bytes).text,
                   category_name(category), words(live_of_both(arena)).text);
        return NULL;
    }
    void *pointer = bytes == SIZE_MAX ? NULL : arena->source.allocate(arena, bytes, status);
    if (!pointer) {
        status_set(status, STATUS_OOM, "the %s has no %s left for %s: %s are live",
                   arena->place == PLACE_HOST ? "host" : "device", words(bytes).text, category_name(category),
                   words(arena->live_bytes).text);
        return NULL;
    }
    arena->allocated_bytes += bytes;
    arena->live_bytes += bytes;
    arena->live_by_category[category] += bytes;
    if (arena->live_bytes > arena->peak_bytes) {
        arena->peak_bytes = arena->live_bytes;
        memcpy(arena->peak_by_category, arena->live_by_category, sizeof arena->peak_by_category);
    }
    timeline_add(arena, flops);
    return pointer;
}

void arena_release(struct arena *arena, void *pointer, size_t bytes, enum category category, double flops)
{
    bytes = arena_rounded(bytes ? bytes : 1);
    CHECK(arena->live_by_category[category] >= bytes);
    arena->source.release(arena, pointer, bytes);
    arena->live_bytes -= bytes;
    arena->live_by_category[category] -= bytes;
    timeline_add(arena, flops);
}

bool arena_touch(struct arena *arena, size_t bytes, const size_t by_category[CATEGORY_COUNT])
{
    const char *what;
    size_t live_bytes, limit_bytes = nearest_limit(arena, &live_bytes, &what);
    if ((limit_bytes && bytes > room(limit_bytes, live_bytes)) || bytes > SIZE_MAX - live_of_both(arena))
        return false;
    if (arena->live_bytes + bytes > arena->peak_bytes) {
        arena->peak_bytes = arena->live_bytes + bytes;
        for (size_t i = 0; i < CATEGORY_COUNT; i++)
            arena->peak_by_category[i] = arena->live_by_category[i] + by_category[i];
    }
    return true;
}

void arena_reset_peak(struct arena *arena)
{
    arena->peak_bytes = arena->live_bytes;
    memcpy(arena->peak_by_category, arena->live_by_category, sizeof arena->peak_by_category);
}

void arena_timeline_start(struct arena *arena)
{
    arena->timeline_on = true;
    arena->timeline_count = 0;
    arena->timeline_start_ms = 1e3 * clock_s();
    timeline_add(arena, 0);
}

void arena_timeline_stop(struct arena *arena)
{
    arena->timeline_on = false;
}
