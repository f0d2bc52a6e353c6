// SIMT: stands in for CUDA's header where there is no GPU. Kernels compiled with g++ run on the CPU: one fiber per
// CUDA thread, the blocks of a grid one after another. Threads that wait at a barrier which others never reach,
// and lanes that meet with different masks, abort with a message; so does shared memory beyond what the card has.
// Shared memory is poisoned. A block runs to its end and a warp as far as it can before the next one, from the
// first to the last or, with `simt::descending`, from the last to the first: a kernel whose bits depend on that
// lacks a barrier. A launch happens at once or, linked with tests/emulator, in the order of its stream. fibers.cpp
// runs them.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

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

enum { WARP = 32, MAX_THREADS = 1024 };

inline unsigned current; // thread of the block that runs
inline unsigned char *dynamic_shared;
inline bool descending;
inline size_t card_shared_bytes = 227 << 10; // that a block may take; linked with tests/emulator, its card's

// Every lane of the mask comes; the last one does the work of all, if there is any, for the warp with this first
// thread.
void meet(uint32_t mask, void (*work)(unsigned first));
// Every lane of the mask leaves a value; after the last one each takes that of lane `source`, its own if there is
// no such lane.
uint64_t exchange(uint32_t mask, uint64_t value, unsigned source);
// A bit of each lane of the mask.
unsigned ballot(uint32_t mask, bool predicate);
// Until all threads that live wait here.
void barrier();
// Ends the program with a message that names the thread.
[[noreturn]] void fail(const char *what);

template <class T> T shuffle(uint32_t mask, T value, unsigned source)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Runs body(data) once per thread of the grid.
void launch(dim3 grid, dim3 block, size_t shared_bytes, void (*body)(const void *data), const void *data);
// The same, with a copy of `bytes` of data when its turn comes in the stream, if there are streams: every third in
// descending order, so that two runs of the same see different ones.
void ask(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(const void *data),
         const void *data, size_t bytes);

template <class Body> void call(const void *body)
{
    (*(const Body *)body)();
}
template <class Body> void launch(dim3 grid, dim3 block, size_t shared_bytes, const Body &body)
{
    launch(grid, block, shared_bytes, call<Body>, &body);
}
template <class Body> void ask(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes, const Body &body)
{
    static_assert(std::is_trivially_copyable_v<Body>, "a kernel's arguments are copied as bytes");
    ask(stream, grid, block, shared_bytes, call<Body>, &body, sizeof body);
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

} // namespace simt

inline void __syncthreads()
{
    simt::barrier();
}
inline void __syncwarp(uint32_t mask = 0xffffffffu)
{
    simt::meet(mask, nullptr);
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

namespace simt
{

// tensor_core.cpp. PTX's mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32, by the layout of its fragments.
void mma_m16n8k16(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
// PTX's movmatrix.sync.aligned.m8n8.trans.b16.
uint32_t movmatrix(uint32_t x);
// PTX's ldmatrix.sync.aligned.m8n8.x4.shared.b16. The eight rows of a matrix must lie in different banks, or it
// takes as many times as long.
void ldmatrix(uint32_t (&to)[4], const unsigned char *row, bool transposed);
template <bool TRANSPOSED> void ldmatrix(uint32_t (&to)[4], const unsigned char *row)
{
    ldmatrix(to, row, TRANSPOSED);
}

// A thread's copies by cp.async.cg: what they bring is there behind the wait for their group, NaN before.
struct copy {
    unsigned char *to;
    const void *from; // null: zeros
    unsigned group;
};
struct copies {
    enum { ROOM = 64 };
    copy at[ROOM];
    unsigned begun, ended, group;
};
inline copies thread_copies[MAX_THREADS];

inline void copy_async(unsigned char *to, const void *from, bool there)
{
    copies &own = thread_copies[current];
    if (own.begun - own.ended == copies::ROOM || (uintptr_t)to % 16 || (there && (uintptr_t)from % 16))
        fail("a copy that is not aligned, or more of them than have room here");
    own.at[own.begun++ % copies::ROOM] = {to, there ? from : nullptr, own.group};
    memset(to, 0xff, 16);
}
inline void copies_commit()
{
    thread_copies[current].group++;
}
inline void copies_wait(unsigned left)
{
    copies &own = thread_copies[current];
    for (; own.ended != own.begun && own.at[own.ended % copies::ROOM].group + left < own.group; own.ended++) {
        const copy &c = own.at[own.ended % copies::ROOM];
        if (c.from)
            memcpy(c.to, c.from, 16);
        else
            memset(c.to, 0, 16);
    }
}

} // namespace simt

inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}
inline unsigned __ballot_sync(uint32_t mask, int predicate)
{
    return simt::ballot(mask, predicate != 0);
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
