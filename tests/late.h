// Late: a CPU device whose copies between the places happen as late as they may: when somebody waits for an event
// behind them. Memory is NaN when it is new and from the moment it is released, and a copy that touches it then is
// found. So a wait that is missing changes results, or is found, every time. One of the waits can be taken out.
#pragma once
#include "kernels/device/queue.h"
#include <string.h>

struct late_work {
    enum { LATE_COPY, LATE_RECORD, LATE_WAIT } kind;
    struct tensor dst, src;
    struct event event;
};

#define LATE_WORK 4096

struct late_released {
    void *pointer;
    size_t bytes;
    struct arena *arena;
};

static struct {
    const struct device_ops *real;
    struct arena_source sources[PLACE_COUNT];
    struct device_ops ops;
    struct late_work work[QUEUE_COUNT][LATE_WORK];
    size_t asked[QUEUE_COUNT], done[QUEUE_COUNT];
    struct late_released released[LATE_WORK];
    size_t released_count;
    bool stale;                         // a copy has touched what was released
    enum queue dropped_of, dropped_for; // the queue that does not wait, and for which; the same: none
} late;

static inline bool late_is_released(struct tensor t)
{
    bool released = false;
    for (size_t i = 0; i < late.released_count; i++) {
        const char *begin = late.released[i].pointer, *data = t.data;
        released |= data >= begin && data < begin + late.released[i].bytes;
    }
    return released;
}

// Executes the queue's operations up to its event of this serial.
static inline void late_run(struct device *device, enum queue queue, uint64_t serial)
{
    while (late.done[queue] < late.asked[queue]) {
        const struct late_work *work = &late.work[queue][late.done[queue]];
        if (work->kind == LATE_RECORD && work->event.serial > serial)
            return;
        late.done[queue]++;
        if (work->kind == LATE_COPY) {
            late.stale |= late_is_released(work->dst) || late_is_released(work->src);
            late.real->transfer(device, queue, work->dst, work->src);
        } else if (work->kind == LATE_WAIT) {
            late_run(device, work->event.queue, work->event.serial);
        } else if (work->event.serial == serial) {
            return;
        }
    }
}

static inline void late_ask(enum queue queue, struct late_work work)
{
    CHECK(late.asked[queue] < LATE_WORK);
    late.work[queue][late.asked[queue]++] = work;
}

static inline void late_transfer(struct device *device, enum queue queue, struct tensor dst, struct tensor src)
{
    (void)device;
    late_ask(queue, (struct late_work){.kind = LATE_COPY, .dst = dst, .src = src});
}

static inline void late_record(struct device *device, struct event event)
{
    (void)device;
    if (event.queue != QUEUE_COMPUTE) // operations happen at once
        late_ask(event.queue, (struct late_work){.kind = LATE_RECORD, .event = event});
}

static inline void late_wait(struct device *device, enum queue queue, struct event event)
{
    if ((queue == late.dropped_of && event.queue == late.dropped_for) || event.queue == QUEUE_COMPUTE)
        return;
    if (queue == QUEUE_COMPUTE)
        late_run(device, event.queue, event.serial);
    else
        late_ask(queue, (struct late_work){.kind = LATE_WAIT, .event = event});
}

static inline void late_synchronize(struct device *device)
{
    late_run(device, QUEUE_OUT, UINT64_MAX);
    late_run(device, QUEUE_IN, UINT64_MAX);
}

static inline void *late_allocate(struct arena *arena, size_t bytes, struct status *status)
{
    void *pointer = late.sources[arena->place].allocate(arena, bytes, status);
    return pointer ? memset(pointer, 0xff, bytes) : NULL;
}

static inline void late_release(struct arena *arena, void *pointer, size_t bytes)
{
    CHECK(late.released_count < LATE_WORK);
    late.released[late.released_count++] = (struct late_released){pointer, bytes, arena};
    memset(pointer, 0xff, bytes);
}

// The device's copies are late from here to late_close, which is to come before its own.
static inline void late_open(struct device *device, enum queue dropped_of, enum queue dropped_for)
{
    memset(&late, 0, sizeof late);
    late.real = device->ops;
    late.sources[PLACE_DEVICE] = device->arena.source;
    late.sources[PLACE_HOST] = device->host.source;
    late.ops = *device->ops;
    late.ops.transfer = late_transfer;
    late.ops.record = late_record;
    late.ops.wait = late_wait;
    late.ops.synchronize = late_synchronize;
    late.dropped_of = dropped_of;
    late.dropped_for = dropped_for;
    device->ops = &late.ops;
    device->arena.source = device->host.source =
        (struct arena_source){.allocate = late_allocate, .release = late_release};
}

static inline void late_close(struct device *device)
{
    late_synchronize(device);
    for (size_t i = 0; i < late.released_count; i++) {
        const struct late_released *r = &late.released[i];
        late.sources[r->arena->place].release(r->arena, r->pointer, r->bytes);
    }
    device->ops = late.real;
    device->arena.source = late.sources[PLACE_DEVICE];
    device->host.source = late.sources[PLACE_HOST];
}
