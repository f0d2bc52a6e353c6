// The CUDA runtime on the CPU, as far as kernels/cuda calls it: a card, its memory pools, streams and events. With
// LONGBP_EMULATED_CARDS=N there are N, which share one memory; what is asked for must be for the current one. The
// memory is out of the host's reach but while a stream's work runs, and what is asked for may name no other;
// it is NaN before its first use and, in stream order, when it has been freed; every allocation has a fence behind
// it, which is looked at then. A call that CUDA would refuse aborts with a message. EMULATED_CARD, a compute
// capability, gives the card another one's shared memory.
#include "kernels/base/clock.h"
#include "tests/emulator/stream.h"
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>

namespace
{

constexpr size_t CARD_BYTES = (size_t)8 << 30, PAGE_BYTES = (size_t)2 << 20, GRAIN = 512;
constexpr unsigned char UNSET = 0xff; // NaN: fresh memory, what was freed, and fences

struct work {
    void (*run)(void *data);
    void *data;
};

struct allocation {
    size_t bytes, room; // asked for; with the fence, a multiple of GRAIN
    cudaMemPool_t pool;
    cudaStream_t stream;
};

// By compute capability: the shared memory that a block may take.
struct model {
    int major, minor;
    size_t shared_bytes;
};
constexpr model MODELS[] = {{9, 0, 227 << 10}, {8, 0, 163 << 10}, {8, 6, 99 << 10}, {7, 5, 64 << 10}};

char *card;
std::map<size_t, allocation> allocations; // by offset in the card
std::map<size_t, size_t> holes;           // likewise: bytes
size_t reserved;                          // by all pools
size_t used;                              // bytes from the first on that were ever given away
size_t waits, moved;
unsigned eager; // streams that do at once what they are asked for, by number
unsigned streams;
std::map<const void *, size_t> pinned; // bytes of the host's memory that is pinned
size_t pins;                           // how often some was
cudaError_t last_error;
thread_local int current; // card

int card_count()
{
    const char *count = getenv("LONGBP_EMULATED_CARDS");
    return count ? atoi(count) : 1;
}

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "emulator: %s\n", what);
    abort();
}

void require(bool condition, const char *what)
{
    if (!condition)
        fail(what);
}

void set_reach(int protection)
{
    require(mprotect(card, CARD_BYTES, protection) == 0, "mprotect");
}

const model &emulated_model()
{
    const char *wanted = getenv("EMULATED_CARD");
    for (const model &m : MODELS)
        if (!wanted || std::to_string(m.major) + "." + std::to_string(m.minor) == wanted)
            return m;
    fail("EMULATED_CARD is no compute capability that is emulated: 9.0, 8.0, 8.6 or 7.5");
}

bool on_card(const void *pointer)
{
    return pointer >= card && pointer < card + CARD_BYTES;
}

} // namespace

struct CUstream_st {
    std::deque<work> queue;
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

// All that the stream was asked for, or until an event has happened so often. Work of a stream may wait for an
// event of another.
void drain(cudaStream_t stream, cudaEvent_t event = nullptr, size_t times = 0)
{
    static int depth;
    if (depth++ == 0)
        set_reach(PROT_READ | PROT_WRITE);
    while (!stream->queue.empty() && !(event && event->happened >= times)) {
        work next = stream->queue.front();
        stream->queue.pop_front();
        next.run(next.data);
    }
    require(!event || event->happened >= times, "streams wait for each other");
    if (--depth == 0)
        set_reach(PROT_NONE);
}

void ask(cudaStream_t stream, std::function<void()> run)
{
    emulator_ask(
        stream,
        [](void *data) {
            auto *function = (std::function<void()> *)data;
            (*function)();
            delete function;
        },
        new std::function<void()>(std::move(run)));
}

} // namespace

void emulator_ask(cudaStream_t stream, void (*run)(void *data), void *data)
{
    require(stream, "the default stream is not used here: it waits for all others");
    require(stream->card == current, "work for another card than the current one");
    require(last_error == cudaSuccess, "an error was left for the next launch to find");
    stream->queue.push_back({run, data});
    if (stream->number < 32 && eager >> stream->number & 1)
        drain(stream);
}

void emulator_eager(unsigned streams)
{
    eager = streams;
}

size_t emulator_waits(void)
{
    return waits;
}

size_t emulator_pins(void)
{
    return pins;
}

void emulator_count(size_t bytes)
{
    moved += bytes;
}

size_t emulator_moved(void)
{
    return moved;
}

size_t emulator_shared_bytes(void)
{
    return emulated_model().shared_bytes;
}

size_t emulator_room(const void *pointer)
{
    size_t offset = (size_t)((const char *)pointer - card);
    require(on_card(pointer), "an address that is not the card's");
    auto after = allocations.upper_bound(offset);
    require(after != allocations.begin(), "no allocation at this address");
    auto at = std::prev(after);
    require(offset < at->first + at->second.bytes, "an address behind its allocation");
    return at->first + at->second.bytes - offset;
}

// ---- the card

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = card_count();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= card_count())
        return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0xe0 + device);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *card, int)
{
    *card = {};
    snprintf(card->name, sizeof card->name, "no GPU: CUDA emulated on the CPU");
    card->major = emulated_model().major;
    card->minor = emulated_model().minor;
    card->sharedMemPerBlockOptin = emulated_model().shared_bytes;
    card->multiProcessorCount = 132; // an H100's or H200's: blocks of rows follow from it
    return cudaSuccess;
}

// Code is there as in the real plug-in: from 8.0 on.
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    require(kernel, "the attributes of no kernel");
    *attributes = {};
    return last_error = emulated_model().major < 8 ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int)
{
    *value = 1;
    return attribute == cudaDevAttrMemoryPoolsSupported ? cudaSuccess : cudaErrorNotSupported;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess                       ? "no error"
           : error == cudaErrorMemoryAllocation       ? "out of memory"
           : error == cudaErrorNoKernelImageForDevice ? "no kernel image is available for execution on the device"
                                                      : "emulated error";
}

// ---- memory

// Called without a pointer, to make the context.
cudaError_t cudaFree(void *pointer)
{
    require(!pointer, "cudaFree of memory: it waits for all streams");
    if (!card) {
        // Of huge pages: changing the reach of small ones would take most of the time.
        void *memory =
            mmap(nullptr, CARD_BYTES + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        require(memory != MAP_FAILED, "no room for the card's memory");
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
    require(properties->allocType == cudaMemAllocationTypePinned &&
                properties->location.type == cudaMemLocationTypeDevice && properties->location.id == current,
            "a pool of another kind or card");
    *pool = new CUmemPoolHandle_st{};
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    require(pool->live == 0, "a pool is destroyed while memory of it is in use");
    reserved -= pool->reserved;
    delete pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    require(attribute == cudaMemPoolAttrReleaseThreshold, "an attribute that is not emulated");
    memcpy(&pool->threshold, value, sizeof pool->threshold);
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    require(attribute == cudaMemPoolAttrReservedMemHigh, "an attribute that is not emulated");
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

// The first hole that is large enough. What is freed may be given away at once, as by the real pool: in stream
// order nothing uses it any more.
cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    size_t room = bytes > CARD_BYTES ? SIZE_MAX : (bytes + 1 + GRAIN - 1) / GRAIN * GRAIN;
    require(bytes > 0, "an allocation of nothing");
    auto hole = holes.begin();
    while (hole != holes.end() && hole->second < room)
        ++hole;
    if (hole == holes.end()) // a driver has more than one word for it
        return last_error = bytes > CARD_BYTES ? cudaErrorInvalidValue : cudaErrorMemoryAllocation;
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
    require(at != allocations.end(), "what is freed was not allocated");
    allocation freed = at->second;
    require(freed.stream == stream, "memory is freed in another stream than it was allocated in");
    allocations.erase(at);
    ask(stream, [=] {
        for (size_t i = freed.bytes; i < freed.room; i++)
            require((unsigned char)card[offset + i] == UNSET, "something wrote behind the end of its memory");
        memset(card + offset, UNSET, freed.room);
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
    size_t all = bytes;
    for (const auto &[at, room] : pinned)
        all += room;
    if (most && all > strtoull(most, nullptr, 10))
        return last_error = cudaErrorMemoryAllocation;
    pins++;
    *pointer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    require(*pointer, "no room for the host's memory");
    memset(*pointer, UNSET, bytes);
    pinned[*pointer] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *pointer)
{
    require(pinned.erase(pointer) == 1, "what is freed was not pinned");
    free(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    bool up = kind == cudaMemcpyHostToDevice;
    require(up || kind == cudaMemcpyDeviceToHost, "a copy that is not emulated");
    require(on_card(to) == up && on_card(from) == !up, "a copy the wrong way");
    require(bytes <= emulator_room(up ? to : from), "a copy beyond the end of its memory");
    ask(stream, [=] { memcpy(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    require(bytes == 0 || bytes <= emulator_room(to), "a fill beyond the end of its memory");
    ask(stream, [=] {
        memset(to, value, bytes);
        emulator_count(bytes);
    });
    return cudaSuccess;
}

// ---- streams and events

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new CUstream_st{{}, current, streams++};
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    require(stream->queue.empty(), "a stream is destroyed before its work is done");
    streams--;
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    waits++;
    drain(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    size_t times = event->recorded;
    require(times > 0, "a stream waits for an event that was never recorded");
    ask(stream, [=] {
        if (event->happened < times)
            drain(event->stream, event, times);
    });
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
