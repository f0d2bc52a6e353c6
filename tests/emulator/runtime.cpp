// The CUDA runtime on the CPU, as far as kernels/cuda calls it: memory pools, streams and events; card.cpp has the
// cards, which share one memory. Every call must be for the current card. The memory is out of the host's reach
// except while a stream's work runs or one is eager, and a call may name no other; it is NaN before its first use
// and, in stream order, after it has been freed; every allocation has a fence behind it, which is then checked. A
// copy's memory must have been allocated, and not freed, in the order of streams. A call that CUDA would refuse
// aborts with a message.
#include "kernels/base/clock.h"
#include "tests/emulator/card.h"
#include "tests/emulator/stream.h"
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

constexpr size_t CARD_BYTES = (size_t)8 << 30, PAGE_BYTES = (size_t)2 << 20, GRAIN = 512;
constexpr unsigned char UNSET = 0xff; // NaN: fresh memory, what was freed, and fences

struct work {
    std::function<bool()> done; // does it; false: not yet, for somebody else must come first
    cudaEvent_t event;          // that has happened so often before; NULL: none
    size_t times;
};

struct allocation {
    size_t bytes, room; // asked for; with the fence, a multiple of GRAIN
    cudaMemPool_t pool;
    cudaStream_t stream;
};

char *card;
std::map<size_t, allocation> allocations; // by offset in the card
std::map<size_t, size_t> holes;           // likewise: bytes
std::map<size_t, size_t> given;           // likewise, in stream order: what has been given and not yet taken back
size_t reserved;                          // by all pools
size_t used;                              // bytes from the first on that were ever given away
std::set<cudaStream_t> all;               // streams
size_t waits, moved;
unsigned eager; // streams that do at once what they are asked for, by number
unsigned streams;
std::map<const void *, size_t> pinned; // bytes of the host's memory that is pinned
size_t pins;                           // how often some was

// An eager stream's work runs so often that opening and closing for each would take longer than the work.
int reach()
{
    return eager ? PROT_READ | PROT_WRITE : PROT_NONE;
}

void set_reach(int protection)
{
    emulator_require(!card || mprotect(card, CARD_BYTES, protection) == 0, "mprotect");
}

bool on_card(const void *pointer)
{
    return pointer >= card && pointer < card + CARD_BYTES;
}

// Whether memory of the card is somebody's when a stream comes to use it.
bool is_given(const void *pointer)
{
    size_t offset = (size_t)((const char *)pointer - card);
    auto after = given.upper_bound(offset);
    return after != given.begin() && offset < std::prev(after)->first + std::prev(after)->second;
}

} // namespace

struct CUstream_st {
    std::deque<work> queue;
    unsigned draining; // how often
    int card;
    unsigned number; // of the streams there are
};

struct CUevent_st {
    cudaStream_t stream;
    size_t recorded, happened; // times
    double s;
};

struct CUmemPoolHandle_st {
    uint64_t live, reserved, reserved_high, threshold;
};

namespace
{

// Executes the stream's next operation, if it can run now.
bool step(cudaStream_t stream)
{
    const work next = stream->queue.front();
    bool done = !next.event || next.event->happened >= next.times;
    done = done && next.done();
    if (done)
        stream->queue.pop_front();
    return done;
}

// Executes all operations that can run now, except in drained streams.
void go_on()
{
    for (cudaStream_t stream : all)
        while (!stream->draining && !stream->queue.empty() && step(stream))
            continue;
}

// All that the stream was asked for, or until an event has happened so often. Work of a stream may wait for an
// event of another. While it waits for another process, other streams go on.
void drain(cudaStream_t stream, cudaEvent_t event = nullptr, size_t times = 0)
{
    static int depth;
    if (depth++ == 0 && !eager)
        set_reach(PROT_READ | PROT_WRITE);
    stream->draining++;
    while (!stream->queue.empty() && !(event && event->happened >= times)) {
        const work &next = stream->queue.front();
        if (next.event && next.event->happened < next.times)
            drain(next.event->stream, next.event, next.times);
        if (step(stream))
            continue;
        go_on();
        usleep(50);
    }
    stream->draining--;
    emulator_require(!event || event->happened >= times, "streams wait for each other");
    if (--depth == 0 && !eager)
        set_reach(PROT_NONE);
}

void ask_when(cudaStream_t stream, cudaEvent_t event, size_t times, std::function<bool()> done)
{
    emulator_require(stream, "the default stream is not used here: it waits for all others");
    emulator_require(stream->card == emulator_current, "work for another card than the current one");
    emulator_require(emulator_last_error == cudaSuccess, "an error was left for the next launch to find");
    stream->queue.push_back({std::move(done), event, times});
    if (stream->number < 32 && eager >> stream->number & 1)
        drain(stream);
}

void ask(cudaStream_t stream, std::function<void()> run)
{
    ask_when(
        stream, nullptr, 0,
        [run = std::move(run)] {
            run();
            return true;
        });
}

} // namespace

void emulator_ask(cudaStream_t stream, void (*run)(void *data), void *data)
{
    ask(
        stream, [=] { run(data); });
}

void emulator_ask_until(cudaStream_t stream, int (*done)(void *data), void *data)
{
    ask_when(
        stream, nullptr, 0, [=] { return done(data) != 0; });
}

void emulator_eager(unsigned streams)
{
    eager = streams;
    set_reach(reach());
}

size_t emulator_waits(void)
{
    return waits;
}

size_t emulator_pins(void)
{
    return pins;
}

size_t emulator_pinned_bytes(void)
{
    size_t all = 0;
    for (const auto &[at, bytes] : pinned)
        all += bytes;
    return all;
}

void emulator_count(size_t bytes)
{
    moved += bytes;
}

size_t emulator_moved(void)
{
    return moved;
}

size_t emulator_room(const void *pointer)
{
    size_t offset = (size_t)((const char *)pointer - card);
    emulator_require(on_card(pointer), "an address that is not the card's");
    auto after = allocations.upper_bound(offset);
    emulator_require(after != allocations.begin(), "no allocation at this address");
    auto at = std::prev(after);
    emulator_require(offset < at->first + at->second.bytes, "an address behind its allocation");
    return at->first + at->second.bytes - offset;
}

// ---- memory

// Called without a pointer, to make the context.
cudaError_t cudaFree(void *pointer)
{
    emulator_require(!pointer, "cudaFree of memory: it waits for all streams");
    if (!card) {
        // Huge pages: changing the protection of small ones would take most of the time.
        void *memory =
            mmap(nullptr, CARD_BYTES + PAGE_BYTES, reach(), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        emulator_require(memory != MAP_FAILED, "no room for the card's memory");
        card = (char *)(((uintptr_t)memory + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
        madvise(card, CARD_BYTES, MADV_HUGEPAGE);
        holes[0] = CARD_BYTES;
    }
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = CARD_BYTES;
    *free_bytes = CARD_BYTES - reserved;
    return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    emulator_require(properties->allocType == cudaMemAllocationTypePinned &&
                         properties->location.type == cudaMemLocationTypeDevice &&
                         properties->location.id == emulator_current,
                     "a pool of another kind or card");
    *pool = new CUmemPoolHandle_st{};
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    emulator_require(pool->live == 0, "a pool is destroyed while memory of it is in use");
    reserved -= pool->reserved;
    delete pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    emulator_require(attribute == cudaMemPoolAttrReleaseThreshold, "an attribute that is not emulated");
    memcpy(&pool->threshold, value, sizeof pool->threshold);
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    emulator_require(attribute == cudaMemPoolAttrReservedMemHigh, "an attribute that is not emulated");
    memcpy(value, &pool->reserved_high, sizeof pool->reserved_high);
    return cudaSuccess;
}

static void reserve(cudaMemPool_t pool, uint64_t bytes)
{
    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    reserved = reserved - pool->reserved + bytes;
    pool->reserved = bytes;
    pool->reserved_high = std::max(pool->reserved_high, bytes);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    if (pool->reserved > keep)
        reserve(pool, std::max<uint64_t>(pool->live, keep));
    return cudaSuccess;
}

// Takes the first hole that is large enough. Freed memory may be reused at once, as in the real pool: in stream
// order no operation uses it any more.
cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    size_t room = bytes > CARD_BYTES ? SIZE_MAX : (bytes + 1 + GRAIN - 1) / GRAIN * GRAIN;
    emulator_require(bytes > 0, "an allocation of nothing");
    auto hole = holes.begin();
    while (hole != holes.end() && hole->second < room)
        ++hole;
    if (hole == holes.end()) // a driver has more than one word for it
        return emulator_last_error = bytes > CARD_BYTES ? cudaErrorInvalidValue : cudaErrorMemoryAllocation;
    size_t offset = hole->first, left = hole->second - room;
    holes.erase(hole);
    if (left)
        holes[offset + room] = left;
    allocations[offset] = {bytes, room, pool, stream};
    pool->live += room;
    reserve(pool, std::max(pool->live, pool->reserved));
    *pointer = card + offset;
    char *fence = card + offset + bytes;
    char *fresh = card + used, *end = card + offset + room;
    used = std::max(used, offset + room);
    ask(stream, [=] {
        given[offset] = bytes;
        memset(fence, UNSET, room - bytes);
        if (fresh < end)
            memset(fresh, UNSET, (size_t)(end - fresh));
    });
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    size_t offset = (size_t)((char *)pointer - card);
    auto at = allocations.find(offset);
    emulator_require(at != allocations.end(), "what is freed was not allocated");
    allocation freed = at->second;
    emulator_require(freed.stream == stream, "memory is freed in another stream than it was allocated in");
    allocations.erase(at);
    ask(stream, [=] {
        for (size_t i = freed.bytes; i < freed.room; i++)
            emulator_require((unsigned char)card[offset + i] == UNSET,
                             "something wrote behind the end of its memory");
        memset(card + offset, UNSET, freed.room);
        given.erase(offset);
    });
    size_t bytes = freed.room;
    auto after = holes.upper_bound(offset);
    if (after != holes.end() && after->first == offset + bytes) {
        bytes += after->second;
        after = holes.erase(after);
    }
    if (after != holes.begin() && std::prev(after)->first + std::prev(after)->second == offset)
        std::prev(after)->second += bytes;
    else
        holes[offset] = bytes;
    freed.pool->live -= freed.room;
    if (freed.pool->reserved > freed.pool->threshold)
        cudaMemPoolTrimTo(freed.pool, freed.pool->threshold);
    return cudaSuccess;
}

// With EMULATED_PINNED_BYTES there are no more than so many.
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned)
{
    const char *most = getenv("EMULATED_PINNED_BYTES");
    if (most && bytes + emulator_pinned_bytes() > strtoull(most, nullptr, 10))
        return emulator_last_error = cudaErrorMemoryAllocation;
    pins++;
    *pointer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    emulator_require(*pointer, "no room for the host's memory");
    memset(*pointer, UNSET, bytes);
    pinned[*pointer] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *pointer)
{
    emulator_require(pinned.erase(pointer) == 1, "what is freed was not pinned");
    free(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    bool up = kind == cudaMemcpyHostToDevice;
    emulator_require(up || kind == cudaMemcpyDeviceToHost, "a copy that is not emulated");
    emulator_require(on_card(to) == up && on_card(from) == !up, "a copy the wrong way");
    emulator_require(bytes <= emulator_room(up ? to : from), "a copy beyond the end of its memory");
    ask(stream, [=] {
        emulator_require(bytes == 0 || is_given(up ? to : from),
                         "a copy to or from memory that is not given yet, or no longer");
        memcpy(to, from, bytes);
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    emulator_require(bytes == 0 || bytes <= emulator_room(to), "a fill beyond the end of its memory");
    ask(stream, [=] {
        memset(to, value, bytes);
        emulator_count(bytes);
    });
    return cudaSuccess;
}

// ---- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new CUstream_st{{}, 0, emulator_current, streams++};
    all.insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    emulator_require(stream->queue.empty(), "a stream is destroyed before its work is done");
    streams--;
    all.erase(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    waits++;
    drain(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (!eager)
        set_reach(PROT_READ | PROT_WRITE);
    for (size_t before = SIZE_MAX; !stream->queue.empty() && stream->queue.size() < before; go_on())
        before = stream->queue.size();
    if (!eager)
        set_reach(PROT_NONE);
    return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    size_t times = event->recorded;
    emulator_require(times > 0, "a stream waits for an event that was never recorded");
    ask_when(stream, event, times, [] { return true; });
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new CUevent_st{};
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    return cudaEventCreate(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->stream = stream;
    event->recorded++;
    ask(stream, [=] {
        event->happened++;
        event->s = clock_s();
    });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (event->happened < event->recorded) {
        waits++;
        drain(event->stream, event, event->recorded);
    }
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop)
{
    if (start->happened < start->recorded || stop->happened < stop->recorded)
        return cudaErrorNotReady;
    *ms = (float)(1e3 * (stop->s - start->s));
    return cudaSuccess;
}
