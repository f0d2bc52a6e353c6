// SIMT: stands in for CUDA's header where there is no GPU. Kernels compiled with g++ run on the CPU: one fiber per
// CUDA thread, the blocks of a grid one after another. Threads that wait at a barrier which others never reach,
// and lanes that meet with different masks, abort with a message; so does shared memory beyond what the card has.
// Shared memory is poisoned. A block runs to its end and a warp as far as it can before the next one, from the
// first to the last or, with `simt::descending`, from the last to the first: a kernel whose bits depend on that
// lacks a barrier. A launch happens at once or, linked with tests/emulator, in the order of its stream.
#pragma once
#include <functional>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <vector>

#ifndef __x86_64__
#error "switching fibers is written for x86-64"
#endif

#define __global__
#define __device__
#define __forceinline__  inline
#define __shared__       static // one block at a time
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

typedef struct CUstream_st *cudaStream_t;
extern "C" { // tests/emulator/stream.h
__attribute__((weak)) void emulator_ask(cudaStream_t stream, void (*run)(void *data), void *data);
__attribute__((weak)) size_t emulator_room(const void *pointer);
__attribute__((weak)) void emulator_count(size_t bytes);
__attribute__((weak)) size_t emulator_shared_bytes(void);
}

struct dim3 {
    unsigned x, y, z;
    dim3(size_t x = 1, size_t y = 1, size_t z = 1) : x((unsigned)x), y((unsigned)y), z((unsigned)z) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt
{

enum { WARP = 32, MAX_THREADS = 1024, STACK_BYTES = 256 << 10 };
enum state { NEW, READY, AT_BARRIER, AT_WARP, DONE };

struct fiber {
    void *stack_pointer;
    state at;
};

// Where the lanes of a warp leave a value for each other.
struct meeting {
    uint32_t mask;
    int arrived;
    uint64_t left[WARP], taken[WARP];
};

inline fiber fibers[MAX_THREADS];
inline meeting meetings[MAX_THREADS / WARP];
inline unsigned current, threads, waiting, live;
inline unsigned first_lane, place; // of the warp that runs; of `current`, in the order in which its lanes run
inline dim3 indices[MAX_THREADS];
inline void *scheduler;
inline void (*body)(const void *);
inline const void *body_data;
inline std::vector<unsigned char> *dynamic_shared;
inline bool descending;
inline size_t card_shared_bytes = 227 << 10; // that a block may take; linked with tests/emulator, its card's
inline size_t launches;                      // in streams

// Saves the callee's registers on this stack, and goes on from where the other one was left.
__attribute__((naked, noinline)) inline void swap(void ** /* save */, void * /* load */)
{
    asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "pop %rcx\n jmp *%rcx"); // a processor foresees it, and of a `ret` the call's own place
}

[[noreturn]] inline void fail(const char *what)
{
    fprintf(stderr, "simt: block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, current, what);
    abort();
}

// The fibers' stacks, for every launch the same.
inline char *all_stacks()
{
    static void *const stacks = mmap(nullptr, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        fail("no room for stacks");
    return (char *)stacks;
}

inline void enter();

// Where the current lane goes on. A stack that is new: below its top, which lies in another cache set than the next
// one's, nothing to return to, where `swap` goes, six registers.
inline void *stack_of_current()
{
    fiber &f = fibers[current];
    if (f.at == NEW) {
        void **frame = (void **)(all_stacks() + (size_t)(current + 1) * STACK_BYTES - 256 - current % 61 * 192);
        *--frame = nullptr;
        *--frame = (void *)enter;
        frame -= 6;
        memset(frame, 0, 6 * sizeof *frame);
        f = {frame, READY};
    }
    return f.stack_pointer;
}

// Makes the next lane of the warp that can run the current one; false: there is none behind `place`.
inline bool next_lane()
{
    while (++place < WARP) {
        unsigned t = first_lane + (descending ? WARP - 1 - place : place);
        if (fibers[t].at == NEW || fibers[t].at == READY) {
            current = t;
            threadIdx = indices[t];
            return true;
        }
    }
    return false;
}

inline void wait(state at)
{
    fiber &own = fibers[current];
    own.at = at;
    swap(&own.stack_pointer, next_lane() ? stack_of_current() : scheduler);
}

// A lane, and on its stack, which it has left, the next ones that have not begun.
inline void enter()
{
    for (;;) {
        body(body_data);
        fibers[current].at = DONE;
        live--;
        bool more = next_lane();
        if (more && fibers[current].at == NEW) {
            fibers[current].at = READY;
            continue;
        }
        static void *left; // none goes on from there
        swap(&left, more ? fibers[current].stack_pointer : scheduler);
    }
}

// Every lane of the mask leaves a value; after the last one each takes that of lane `source`, its own if there is
// no such lane.
inline uint64_t exchange(uint32_t mask, uint64_t value, unsigned source)
{
    unsigned lane = current % WARP, first = current - lane;
    meeting &m = meetings[current / WARP];
    if (!(mask >> lane & 1))
        fail("a lane calls a warp function with a mask that omits it");
    if (m.arrived && m.mask != mask)
        fail("lanes of one warp meet with different masks");
    m.mask = mask;
    m.left[lane] = value;
    if (++m.arrived < __builtin_popcount(mask)) {
        wait(AT_WARP);
    } else {
        m.arrived = 0;
        memcpy(m.taken, m.left, sizeof m.taken);
        for (unsigned i = 0; i < WARP; i++)
            if ((mask >> i & 1) && i != lane)
                fibers[first + i].at = READY;
    }
    return source < WARP && (mask >> source & 1) ? m.taken[source] : value;
}

template <class T> T shuffle(uint32_t mask, T value, unsigned source)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Runs the lanes of one warp until all are done or wait for other warps. Returns whether any ran.
inline bool run_warp(unsigned warp)
{
    bool ran = false, again = true;
    first_lane = warp * WARP;
    while (again) {
        place = -1;
        again = next_lane();
        ran |= again;
        if (again)
            swap(&scheduler, stack_of_current());
    }
    return ran;
}

// Each warp runs as far as it can before the next one starts; a barrier opens when all threads that live wait at
// it.
inline void run_block()
{
    unsigned warps = threads / WARP;
    while (live) {
        bool ran = false;
        for (unsigned i = 0; i < warps; i++)
            ran |= run_warp(descending ? warps - 1 - i : i);
        if (live && waiting == live) {
            waiting = 0;
            for (unsigned t = 0; t < threads; t++)
                if (fibers[t].at == AT_BARRIER)
                    fibers[t].at = READY;
        } else if (!ran && live) {
            fail("some threads wait at __syncthreads, others in a warp function or nowhere");
        }
    }
}

template <class Body> void launch(dim3 grid, dim3 block, size_t shared_bytes, const Body &kernel)
{
    threads = block.x * block.y * block.z;
    if (threads == 0 || threads > MAX_THREADS || threads % WARP || shared_bytes > card_shared_bytes ||
        (size_t)grid.x * grid.y * grid.z == 0 || grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX)
        fail("a grid, block or shared memory that CUDA refuses, or a broken warp");
    gridDim = grid;
    blockDim = block;
    body = [](const void *data) { (*(const Body *)data)(); };
    body_data = &kernel;
    std::vector<unsigned char> shared(shared_bytes);
    dynamic_shared = &shared;
    for (unsigned t = 0; t < threads; t++)
        indices[t] = dim3(t % block.x, t / block.x % block.y, t / (block.x * block.y));
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = descending ? dim3(grid.x - 1 - x, grid.y - 1 - y, grid.z - 1 - z) : dim3(x, y, z);
                shared.assign(shared_bytes, 0xff); // NaN
                live = threads;
                waiting = 0;
                for (unsigned w = 0; w < threads / WARP; w++)
                    meetings[w].arrived = 0;
                for (unsigned t = 0; t < threads; t++)
                    fibers[t] = {nullptr, NEW};
                run_block();
            }
}

// A kernel's pointers must be to the card's memory, if there is a card.
template <class T> void check_argument(const T &) {}
template <class T> void check_argument(T *pointer)
{
    if (emulator_room && pointer)
        emulator_room(pointer);
}

// Bytes that a thread has read or written.
inline void moved(size_t bytes)
{
    if (emulator_count)
        emulator_count(bytes);
}

// With a stream, every third launch in descending order: two runs of the same see different ones.
template <class Body> void ask(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes, const Body &kernel)
{
    if (!emulator_ask)
        return launch(grid, block, shared_bytes, kernel);
    card_shared_bytes = emulator_shared_bytes();
    emulator_ask(
        stream,
        [](void *data) {
            auto *later = (std::function<void()> *)data;
            (*later)();
            delete later;
        },
        new std::function<void()>([=] {
            descending = ++launches % 3 == 0;
            launch(grid, block, shared_bytes, kernel);
        }));
}

} // namespace simt

inline void __syncthreads()
{
    simt::waiting++;
    simt::wait(simt::AT_BARRIER);
}
inline void __syncwarp(uint32_t mask = 0xffffffffu)
{
    simt::exchange(mask, 0, 0);
}
template <class T> T __shfl_sync(uint32_t mask, T value, int source)
{
    return simt::shuffle(mask, value, (unsigned)source % simt::WARP);
}
template <class T> T __shfl_xor_sync(uint32_t mask, T value, int lanes)
{
    return simt::shuffle(mask, value, simt::current % simt::WARP ^ (unsigned)lanes);
}
template <class T> T __shfl_down_sync(uint32_t mask, T value, unsigned lanes)
{
    return simt::shuffle(mask, value, simt::current % simt::WARP + lanes);
}
inline unsigned __ballot_sync(uint32_t mask, int predicate)
{
    unsigned bits = 0;
    simt::exchange(mask, predicate != 0, 0);
    for (unsigned i = 0; i < simt::WARP; i++)
        bits |= (mask >> i & 1 ? (unsigned)simt::meetings[simt::current / simt::WARP].taken[i] : 0) << i;
    return bits;
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
