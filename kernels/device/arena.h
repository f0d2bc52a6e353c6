// Arena: allocates every byte of a place, by category, so that peak memory is measured exactly. It keeps the live
// bytes, the high-water mark and its breakdown by category, and on request a time line. An allocation beyond the
// limit fails with a reason: out of memory is a result.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

// The memory that holds a tensor: the device's, which operations access, or the host's, to which tensors are
// offloaded. Each has an arena.
enum place { PLACE_DEVICE, PLACE_HOST, PLACE_COUNT };

enum category {
    CATEGORY_WEIGHTS,
    CATEGORY_GRADIENTS,
    CATEGORY_OPTIMIZER,
    CATEGORY_HIDDEN_CHECKPOINTS,
    CATEGORY_KV_CACHE,
    CATEGORY_KV_GRADIENTS,
    CATEGORY_ACTIVATIONS,
    CATEGORY_LOGITS,
    CATEGORY_WORKSPACE,
    CATEGORY_DATA,
    CATEGORY_HOST,
    CATEGORY_COUNT
};
const char *category_name(enum category category);

// Allocations are rounded up to this many bytes on every device.
#define ARENA_ALIGNMENT 256

// A change of the live bytes. `flops`: the device's count at that moment; `ms`: time since the start.
struct arena_event {
    double ms, flops;
    size_t live_bytes[CATEGORY_COUNT];
};

struct arena;
struct device;
// The allocator behind an arena: malloc on a CPU, the driver's pool on a card, pinned host memory, none in a plan.
// allocate returns NULL if the place is full, and sets the status if it knows a reason.
struct arena_source {
    void *(*allocate)(struct arena *arena, size_t bytes, struct status *status);
    void (*release)(struct arena *arena, void *pointer, size_t bytes);
    void (*close)(struct arena *arena); // called by arena_close; NULL: nothing to do
};

#define ARENA_LIMIT_NOTHING ((size_t)1)

// `make FILL_FREED=1` fills released memory with these bytes, which are NaN in every dtype, so that a later read
// shows in the result, even if the memory is reused.
#ifdef FILL_FREED
#define ARENA_FILLS_FREED true
#else
#define ARENA_FILLS_FREED false
#endif
#define ARENA_FREED 0xff

struct arena {
    struct arena_source source;
    struct kept_block *kept; // by arena_keep
    struct device *device;   // the device of this place
    enum place place;
    size_t limit_bytes;     // 0: no limit; ARENA_LIMIT_NOTHING: nothing fits
    const char *limit_what; // its name in messages: its key in a trial, or the source of the default
    // Another arena in the same memory, and the free memory for both together; 0: only the arena's own limit.
    const struct arena *beside;
    size_t shared_bytes;
    const char *shared_what;
    size_t live_bytes, peak_bytes;
    size_t live_by_category[CATEGORY_COUNT], peak_by_category[CATEGORY_COUNT];
    size_t allocated_bytes; // in total, including released bytes
    // The time line, recorded while timeline_on is set.
    bool timeline_on;
    double timeline_start_ms;
    struct arena_event *timeline;
    size_t timeline_count, timeline_capacity;
};

// Opens an arena without a limit.
void arena_open(struct arena *arena, struct device *device, enum place place, struct arena_source source);
// bytes: 0 is no limit. what: its name in messages; NULL: its key in a trial.
void arena_limit(struct arena *arena, size_t bytes, const char *what);
// A released block that its source keeps for the next request of the same size.
void arena_keep(struct arena *arena, void *pointer, size_t bytes);
// Returns the kept block of this size that was released last, or NULL.
void *arena_take_kept(struct arena *arena, size_t bytes);
// Calls release for each kept block.
void arena_free_kept(struct arena *arena, void (*release)(struct arena *arena, void *pointer, size_t bytes));
// Frees the arena's own records. Aborts on memory still allocated, which is a leak in the program.
void arena_close(struct arena *arena);
// Bytes that an allocation of `bytes` counts as.
size_t arena_rounded(size_t bytes);
// Returns NULL and sets the status (oom: the request, live bytes, the limit and its name, missing bytes, category)
// if the bytes do not fit. 0 bytes are valid.
void *arena_allocate(struct arena *arena, size_t bytes, enum category category, double flops,
                     struct status *status);
void arena_release(struct arena *arena, void *pointer, size_t bytes, enum category category, double flops);
// Records a temporary growth of the live bytes, with differences by category (modulo 2^64, because a category may
// shrink). Returns false and records nothing if it does not fit.
bool arena_touch(struct arena *arena, size_t bytes, const size_t by_category[CATEGORY_COUNT]);
// Restarts the high-water mark at the live bytes.
void arena_reset_peak(struct arena *arena);
void arena_timeline_start(struct arena *arena);
void arena_timeline_stop(struct arena *arena);
