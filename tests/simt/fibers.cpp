#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

#ifndef __x86_64__
#error "switching fibers is written for x86-64"
#endif

namespace simt
{

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "simt: block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, current, what);
    abort();
}

namespace
{

enum { STACK_BYTES = 256 << 10 };
enum state { NEW, READY, AT_BARRIER, AT_WARP, DONE };

struct fiber {
    void *stack_pointer;
    state at;
};

// Place where the lanes of a warp meet and exchange values.
struct meeting {
    uint32_t mask;
    int arrived;
    uint64_t left[WARP], taken[WARP];
};

fiber fibers[MAX_THREADS];
dim3 indices[MAX_THREADS];
meeting meetings[MAX_THREADS / WARP];
unsigned threads, waiting, live;
unsigned first_lane, place; // of the warp that runs; of `current`, in the order in which its lanes run
void *scheduler;
void (*body)(const void *);
const void *body_data;
size_t launches; // in streams

#ifdef __AVX512F__
#define WIDE_REGISTERS                                                                                             \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",  \
        "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define WIDE_REGISTERS
#endif

// Leaves this stack, and goes on from where the other one was left. In place and without a call: a processor
// foresees where calls return to, and one that another fiber's return ends puts it off for all that follow.
__attribute__((always_inline)) inline void swap(void **save, void *load)
{
    asm volatile("lea -128(%%rsp), %%rsp\n\t" // what a function may have below its stack
                 "push %%rbp\n\t push %%rbx\n\t lea 1f(%%rip), %%rcx\n\t push %%rcx\n\t"
                 "mov %%rsp, (%0)\n\t mov %1, %%rsp\n\t"
                 "pop %%rcx\n\t jmp *%%rcx\n"
                 "1: pop %%rbx\n\t pop %%rbp\n\t lea 128(%%rsp), %%rsp"
                 : "+D"(save), "+S"(load)
                 :
                 : "memory", "cc", "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                   "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                   "xmm12", "xmm13", "xmm14", "xmm15" WIDE_REGISTERS);
}

// The fibers' stacks, for every launch the same.
char *all_stacks()
{
    static void *const stacks = mmap(nullptr, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        fail("no room for stacks");
    return (char *)stacks;
}

void enter();

// Stack on which the current lane continues. A new stack has below its top, which lies in another cache set than
// the next one's, no return address and the address that `swap` jumps to.
void *stack_of_current()
{
    fiber &f = fibers[current];
    if (f.at == NEW) {
        void **frame = (void **)(all_stacks() + (size_t)(current + 1) * STACK_BYTES - 256 - current % 61 * 192);
        *--frame = nullptr;
        *--frame = (void *)enter;
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
void enter()
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

// Runs the lanes of one warp until all are done or wait for other warps. Returns whether any ran.
bool run_warp(unsigned warp)
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
void run_block()
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

} // namespace

void meet(uint32_t mask, void (*work)(unsigned first))
{
    unsigned lane = current % WARP, first = current - lane;
    meeting &m = meetings[current / WARP];
    if (!(mask >> lane & 1))
        fail("a lane calls a warp function with a mask that omits it");
    if (m.arrived && m.mask != mask)
        fail("lanes of one warp meet with different masks");
    m.mask = mask;
    if (++m.arrived < __builtin_popcount(mask))
        return wait(AT_WARP);
    m.arrived = 0;
    if (work)
        work(first);
    for (unsigned i = 0; i < WARP; i++)
        if ((mask >> i & 1) && i != lane)
            fibers[first + i].at = READY;
}

uint64_t exchange(uint32_t mask, uint64_t value, unsigned source)
{
    meeting &m = meetings[current / WARP];
    m.left[current % WARP] = value;
    meet(mask, [](unsigned first) {
        meeting &all = meetings[first / WARP];
        memcpy(all.taken, all.left, sizeof all.taken);
    });
    return source < WARP && (mask >> source & 1) ? m.taken[source] : value;
}

unsigned ballot(uint32_t mask, bool predicate)
{
    exchange(mask, predicate, 0);
    const uint64_t *taken = meetings[current / WARP].taken;
    unsigned bits = 0;
    for (unsigned i = 0; i < WARP; i++)
        bits |= (unsigned)(taken[i] & 1) << i;
    return bits & mask;
}

void barrier()
{
    waiting++;
    wait(AT_BARRIER);
}

void launch(dim3 grid, dim3 block, size_t shared_bytes, void (*run)(const void *data), const void *data)
{
    threads = block.x * block.y * block.z;
    if (threads == 0 || threads > MAX_THREADS || threads % WARP || shared_bytes > card_shared_bytes ||
        (size_t)grid.x * grid.y * grid.z == 0 || grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX)
        fail("a grid, block or shared memory that CUDA refuses, or a broken warp");
    gridDim = grid;
    blockDim = block;
    body = run;
    body_data = data;
    std::vector<unsigned char> shared(shared_bytes);
    dynamic_shared = shared.data();
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
                for (unsigned t = 0; t < threads; t++)
                    if (thread_copies[t].begun != thread_copies[t].ended)
                        fail("a thread ends before its copies");
            }
}

void ask(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes, void (*run)(const void *data),
         const void *data, size_t bytes)
{
    // A dimension with CUDA's limit of 65,535 must not hold counts that tests cannot reach.
    if (grid.z > 1)
        fail("a grid of three dimensions; sequences and tokens belong into the first");
    if (!emulator_ask)
        return launch(grid, block, shared_bytes, run, data);
    card_shared_bytes = emulator_shared_bytes();
    struct waiting_launch {
        dim3 grid, block;
        size_t shared_bytes;
        void (*run)(const void *data);
        std::vector<uint64_t> data;
    };
    auto *later = new waiting_launch{grid, block, shared_bytes, run, std::vector<uint64_t>((bytes + 7) / 8)};
    memcpy(later->data.data(), data, bytes);
    emulator_ask(
        stream,
        [](void *data) {
            auto *later = (waiting_launch *)data;
            descending = ++launches % 3 == 0;
            launch(later->grid, later->block, later->shared_bytes, later->run, later->data.data());
            delete later;
        },
        later);
}

} // namespace simt
