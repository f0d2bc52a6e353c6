// Arena: every byte of a place is asked of one arena, by category, so that the peak is a measured quantity.
// It keeps the live bytes, the high-water mark, what each category held at that moment, and on request the
// whole time line. Past its limit an allocation fails and the reason is kept: out of memory is a result.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>
#include <stdint.h>

// Where a tensor lives: on the device, whose operations see it, or on the host, where it is kept while the device
// has no room for it. One arena each.
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

// Every allocation is rounded up to this many bytes, on every device.
#define ARENA_ALIGNMENT 256

// One change of the live bytes. `flops` is the device's count at that moment, `ms` the time since the start.
struct arena_event {
    double ms, flops;
    size_t live_bytes[CATEGORY_COUNT];
};

struct arena;
struct device;
// Where the bytes come from: malloc on a CPU, the driver's pool on a card, pinned memory beside it, nowhere in a
// plan. allocate returns NULL when the place itself is full, and sets the status where it knows more than that.
struct arena_source {
    void *(*allocate)(struct arena *arena, size_t bytes, struct status *status);
    void (*release)(struct arena *arena, void *pointer, size_t bytes);
    void (*close)(struct arena *arena); // when the arena closes; NULL: nothing is left to do
};

#define ARENA_LIMIT_NOTHING ((size_t)1)

// `make FILL_FREED=1`: sources fill what is released with these bytes, NaN in every dtype, so that reading it later
// shows in a result, also where the same memory is handed out again.
#ifdef FILL_FREED
#define ARENA_FILLS_FREED true
#else
#define ARENA_FILLS_FREED false
#endif
#define ARENA_FREED 0xff

struct arena {
    struct arena_source source;
    void *kept;            // the source's own
    struct device *device; // whose place it is of
    enum place place;
    size_t limit_bytes;     // 0: no limit; ARENA_LIMIT_NOTHING: nothing fits
    const char *limit_what; // what messages call it: its key in a trial, or what sets it where none is given
    // Another place in the same memory, and what was free there for both together; 0: no limit but the place's own.
    const struct arena *beside;
    size_t shared_bytes;
    const char *shared_what;
    size_t live_bytes, peak_bytes;
    size_t live_by_category[CATEGORY_COUNT], peak_by_category[CATEGORY_COUNT];
    size_t allocated_bytes; // ever, released or not
    // The time line, kept while timeline_on is set.
    bool timeline_on;
    double timeline_start_ms;
    struct arena_event *timeline;
    size_t timeline_count, timeline_capacity;
};

// Without a limit.
void arena_open(struct arena *arena, struct device *device, enum place place, struct arena_source source);
// bytes: 0 is no limit. what: what messages call it; NULL: its key in a trial.
void arena_limit(struct arena *arena, size_t bytes, const char *what);
// Frees the arena's own records. Aborts if something is still allocated: that is a leak in the program.
void arena_close(struct arena *arena);
// The bytes an allocation of `bytes` is counted as.
size_t arena_rounded(size_t bytes);
// Returns NULL and sets status (oom: wanted, live, limit and what it is called, missing, category) if the bytes do
// not fit. 0 bytes are valid.
void *arena_allocate(struct arena *arena, size_t bytes, enum category category, double flops,
                     struct status *status);
void arena_release(struct arena *arena, void *pointer, size_t bytes, enum category category, double flops);
// As if what is live had grown by so many bytes, by category so much (modulo 2^64, for a category may have shrunk),
// and shrunk again. False, and nothing, if they do not fit.
bool arena_touch(struct arena *arena, size_t bytes, const size_t by_category[CATEGORY_COUNT]);
// The high-water mark starts anew at what is live now.
void arena_reset_peak(struct arena *arena);
void arena_timeline_start(struct arena *arena);
void arena_timeline_stop(struct arena *arena);
