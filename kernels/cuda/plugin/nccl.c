// Operations of one NCCL communicator are serialised. So each group of ranks has one for its exchanges, and each
// pair of sender and receiver another, in streams of their own: no message waits for an unrelated one. They are
// created on first use; both ends start their first messages in the order of all, the receiver no later than it
// needs the data. All are non-blocking: this file polls operations that wait for other ranks, so that a failure
// anywhere ends the wait. Ids are exchanged through the launcher's transport.
#include "kernels/cuda/plugin/nccl.h"
#include "kernels/base/clock.h"
#include "kernels/cuda/kernels/check.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/plugin/backend.h"

#if __has_include(<nccl.h>)
#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <string.h>

// Polling spins at first: usually the other ranks have arrived or will at once, and a sleep takes 50 us longer than
// requested.
#define SPIN_NS 100000
#define LOOK_NS 20000

// clang-format off
#define FUNCTIONS(FUNCTION) \
    FUNCTION(ncclGetVersion) FUNCTION(ncclGetErrorString) FUNCTION(ncclGetLastError) FUNCTION(ncclGetUniqueId) \
    FUNCTION(ncclCommInitRankConfig) FUNCTION(ncclCommGetAsyncError) FUNCTION(ncclCommFinalize) FUNCTION(ncclCommDestroy) \
    FUNCTION(ncclCommAbort) FUNCTION(ncclGroupStart) FUNCTION(ncclGroupEnd) FUNCTION(ncclSend) FUNCTION(ncclRecv) FUNCTION(ncclReduce) \
    FUNCTION(ncclAllReduce)
// clang-format on

// Limits the channels of a message line, so that its buffers take tens of megabytes of the card instead of
// hundreds.
#define MESSAGE_CHANNELS 8

// The library's functions by name.
struct functions {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

// The ranks of a communicator, by world rank: a group's, or a sender and its receiver, `stride` apart in either
// direction.
struct members {
    long first, stride, count;
    bool message;
};

// An operation in progress.
struct started {
    struct line *line;
    cudaEvent_t there;
    struct started *next; // of the free list
};

struct line {
    struct members members;
    ncclComm_t comm;    // NULL: aborted
    ncclResult_t state; // of the finalisation
    cudaStream_t stream;
    cudaEvent_t asked;    // recorded after the device's operations before the latest request
    struct started *free; // can be reused
    struct line *next;
};

struct nccl {
    struct functions f;
    const struct world *world;
    struct comm launcher; // the world's earlier comm, of the launcher
    struct line *lines;
    bool failed;
};

static bool load(struct functions *f, struct status *status)
{
    const char *named = getenv("LONGBP_NCCL"), *missing = NULL;
    void *library = dlopen(named && *named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        status_set(
            status, STATUS_UNSUPPORTED,
            "ranks of device cuda need NCCL: %s; install libnccl2, or set LONGBP_NCCL to the path of libnccl.so.2",
            dlerror());
        return false;
    }
#define FIND(name)                                                                                                 \
    f->name = (__typeof__(name) *)dlsym(library, #name);                                                           \
    missing = f->name ? missing : #name;
    FUNCTIONS(FIND)
#undef FIND
    if (missing)
        status_set(status, STATUS_UNSUPPORTED, "ranks of device cuda need a newer NCCL, one with %s", missing);
    return !missing;
}

// ---- faults

static void give_up(struct nccl *nccl)
{
    for (struct line *line = nccl->lines; line; line = line->next) {
        if (line->comm) {
            nccl->f.ncclCommAbort(line->comm);
            line->comm = NULL;
        }
    }
    nccl->failed = true;
}

// Tells whether a call succeeded; otherwise nothing of NCCL is waited for any more.
static bool fine(struct nccl *nccl, struct device *device, const struct line *line, ncclResult_t result)
{
    if (result != ncclSuccess && !nccl->failed) {
        const char *more = line && line->comm ? nccl->f.ncclGetLastError(line->comm) : "";
        status_set(&device->status, STATUS_FAILED, "NCCL: %s%s%s", nccl->f.ncclGetErrorString(result),
                   more && *more ? ": " : "", more ? more : "");
        give_up(nccl);
    }
    return result == ncclSuccess && !nccl->failed;
}

static void look_later(int64_t since_ns)
{
    if (clock_ns() - since_ns < SPIN_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

static ncclResult_t state_of(const struct nccl *nccl, const struct line *line)
{
    ncclResult_t result = ncclSuccess, asked = nccl->f.ncclCommGetAsyncError(line->comm, &result);
    return asked == ncclSuccess ? result : asked;
}

// Polls until the line has done what it needs other ranks for.
static ncclResult_t await(const struct nccl *nccl, const struct line *line, ncclResult_t result)
{
    int64_t since_ns = clock_ns();
    nccl->world->ops->set_waiting(true);
    while (result == ncclInProgress && (result = state_of(nccl, line)) == ncclInProgress)
        look_later(since_ns);
    nccl->world->ops->set_waiting(false);
    return result;
}

static bool settle(struct nccl *nccl, struct device *device, const struct line *line, ncclResult_t result)
{
    return fine(nccl, device, line, await(nccl, line, result));
}

void nccl_wait(struct nccl *nccl, struct device *device)
{
    cudaError_t left = cudaErrorNotReady;
    int64_t since_ns = clock_ns();
    nccl->world->ops->set_waiting(true); // or for the card, which the host cannot tell
    while (left == cudaErrorNotReady) {
        left = cudaStreamQuery(cuda_stream(device));
        for (struct line *line = nccl->lines; line && !nccl->failed; line = line->next) {
            ncclResult_t result = state_of(nccl, line);
            fine(nccl, device, line, result == ncclInProgress ? ncclSuccess : result);
        }
        if (left == cudaErrorNotReady)
            look_later(since_ns);
    }
    nccl->world->ops->set_waiting(false);
    CUDA_CHECK(left);
}

// ---- lines

// The communicator's id, sent by its first rank to the others, which must expect that rank.
struct letter {
    struct members members;
    ncclUniqueId id;
};

static bool same(const struct members *a, const struct members *b)
{
    return a->first == b->first && a->stride == b->stride && a->count == b->count && a->message == b->message;
}

static ncclUniqueId exchange_id(struct nccl *nccl, const struct members *members, long own, ncclResult_t *result)
{
    const struct world *world = nccl->world;
    struct letter letter = {.members = *members};
    if (own > 0) {
        world->ops->receive(world, (size_t)members->first, &letter, sizeof letter);
        CHECK(same(&letter.members, members));
        return letter.id;
    }
    *result = nccl->f.ncclGetUniqueId(&letter.id);
    for (long i = 1; i < members->count; i++)
        world->ops->send(world, (size_t)(members->first + i * members->stride), &letter, sizeof letter);
    return letter.id;
}

// Returns NULL with a status on the device.
static struct line *line_of(struct nccl *nccl, struct device *device, struct members members)
{
    for (struct line *line = nccl->lines; line; line = line->next)
        if (same(&line->members, &members))
            return nccl->failed ? NULL : line;
    struct line *line = calloc(1, sizeof *line);
    CHECK(line);
    line->members = members;
    ncclResult_t result = ncclSuccess;
    long own = ((long)nccl->world->comm.rank - members.first) / members.stride;
    ncclUniqueId id = exchange_id(nccl, &members, own, &result);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (members.message)
        config.maxCTAs = MESSAGE_CHANNELS;
    if (result == ncclSuccess)
        result = nccl->f.ncclCommInitRankConfig(&line->comm, (int)members.count, id, (int)own, &config);
    CUDA_CHECK(cudaStreamCreateWithFlags(&line->stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&line->asked, cudaEventDisableTiming));
    line->next = nccl->lines;
    nccl->lines = line;
    return settle(nccl, device, line, result) ? line : NULL;
}

static struct members group_of(const struct comm *comm)
{
    return (struct members){(long)comm->first, (long)comm->stride, (long)comm->size, false};
}

// ---- the table

// Orders the line's next operation after the device's earlier operations.
static void follow(struct nccl *nccl, struct device *device, const struct line *line)
{
    backend(device)->nccl = nccl;
    CUDA_CHECK(cudaEventRecord(line->asked, cuda_stream(device)));
    CUDA_CHECK(cudaStreamWaitEvent(line->stream, line->asked, 0));
}

// Returns the line's latest operation, or NULL if it failed.
static void *set_out(struct nccl *nccl, struct device *device, struct line *line, ncclResult_t result)
{
    if (!settle(nccl, device, line, result))
        return NULL;
    struct started *started = line->free;
    if (started) {
        line->free = started->next;
    } else {
        started = calloc(1, sizeof *started);
        CHECK(started);
        started->line = line;
        CUDA_CHECK(cudaEventCreateWithFlags(&started->there, cudaEventDisableTiming));
    }
    CUDA_CHECK(cudaEventRecord(started->there, line->stream));
    return started;
}

// Keeps the first of several failures.
static void keep_first(ncclResult_t *result, ncclResult_t next)
{
    bool good = *result == ncclSuccess || *result == ncclInProgress;
    *result = good && next != ncclSuccess ? next : *result;
}

// peer: of all messages; -1: each message has its own.
static void *carry(struct nccl *nccl, struct device *device, struct line *line, int peer,
                   const struct message *sends, size_t send_count, const struct message *receives,
                   size_t receive_count)
{
    const struct functions *f = &nccl->f;
    follow(nccl, device, line);
    ncclResult_t result = f->ncclGroupStart();
    for (size_t i = 0; i < send_count; i++) {
        const struct message *m = &sends[i];
        keep_first(&result, f->ncclSend(m->t.data, tensor_bytes(m->t), ncclUint8, peer < 0 ? (int)m->peer : peer,
                                        line->comm, line->stream));
    }
    for (size_t i = 0; i < receive_count; i++) {
        const struct message *m = &receives[i];
        keep_first(&result, f->ncclRecv(m->t.data, tensor_bytes(m->t), ncclUint8, peer < 0 ? (int)m->peer : peer,
                                        line->comm, line->stream));
    }
    keep_first(&result, f->ncclGroupEnd());
    return set_out(nccl, device, line, result);
}

static void *start_exchange(const struct comm *comm, struct device *device, const struct message *sends,
                            size_t send_count, const struct message *receives, size_t receive_count)
{
    struct nccl *nccl = comm->backend;
    struct line *line = line_of(nccl, device, group_of(comm));
    return line ? carry(nccl, device, line, -1, sends, send_count, receives, receive_count) : NULL;
}

static void *start_message(const struct comm *comm, struct device *device, const struct message *sends,
                           size_t send_count, const struct message *receives, size_t receive_count)
{
    struct nccl *nccl = comm->backend;
    bool send = send_count > 0;
    CHECK(send_count + receive_count == 1);
    long own = (long)comm_world_rank(comm, comm->rank);
    long peer = (long)comm_world_rank(comm, (send ? sends : receives)->peer);
    long from = send ? own : peer, to = send ? peer : own;
    struct line *line = line_of(nccl, device, (struct members){from, to - from, 2, true});
    return line ? carry(nccl, device, line, send ? 1 : 0, sends, send_count, receives, receive_count) : NULL;
}

static ncclDataType_t type_of(enum dtype dtype)
{
    CHECK(dtype == DTYPE_F64 || dtype == DTYPE_F32 || dtype == DTYPE_BF16);
    return dtype == DTYPE_F64 ? ncclFloat64 : dtype == DTYPE_F32 ? ncclFloat32 : ncclBfloat16;
}

// Shares may differ in length, which its reduce-scatter does not allow: each is reduced to its owner, all in one
// group.
static void *start_reduce(const struct comm *comm, struct device *device, struct tensor t,
                          const struct row_range *owned, bool all)
{
    struct nccl *nccl = comm->backend;
    const struct functions *f = &nccl->f;
    struct line *line = line_of(nccl, device, group_of(comm));
    if (!line)
        return NULL;
    follow(nccl, device, line);
    ncclDataType_t type = type_of(t.dtype);
    ncclResult_t result = f->ncclGroupStart();
    if (all) {
        keep_first(&result,
                   f->ncclAllReduce(t.data, t.data, tensor_count(t), type, ncclSum, line->comm, line->stream));
    }
    for (size_t r = 0; !all && r < comm->size; r++) {
        struct tensor rows = tensor_rows(t, owned[r].start, owned[r].count);
        if (rows.rows > 0) {
            keep_first(&result, f->ncclReduce(rows.data, rows.data, tensor_count(rows), type, ncclSum, (int)r,
                                              line->comm, line->stream));
        }
    }
    keep_first(&result, f->ncclGroupEnd());
    return set_out(nccl, device, line, result);
}

static void wait_for(const struct comm *comm, struct device *device, void *of_start)
{
    struct started *started = of_start;
    (void)comm;
    if (started) {
        CUDA_CHECK(cudaStreamWaitEvent(cuda_stream(device), started->there, 0));
        started->next = started->line->free;
        started->line->free = started;
    }
}

static void end_all(const struct comm *comm)
{
    struct nccl *nccl = comm->backend;
    nccl->launcher.ops->abort(&nccl->launcher);
}

// Finalising a communicator waits for all its ranks, and each rank has its communicators in another order, so all
// are finalised before any is waited for.
static void end_communicators(struct nccl *nccl)
{
    for (struct line *line = nccl->lines; line; line = line->next)
        line->state = line->comm ? nccl->f.ncclCommFinalize(line->comm) : ncclSuccess;
    for (struct line *line = nccl->lines; line; line = line->next)
        if (line->comm && await(nccl, line, line->state) == ncclSuccess)
            nccl->f.ncclCommDestroy(line->comm);
        else if (line->comm)
            nccl->f.ncclCommAbort(line->comm);
}

static void close_lines(const struct comm *comm)
{
    struct nccl *nccl = comm->backend;
    end_communicators(nccl);
    for (struct line *line; (line = nccl->lines);) {
        nccl->lines = line->next;
        for (struct started *started; (started = line->free);) {
            line->free = started->next;
            CUDA_CHECK(cudaEventDestroy(started->there));
            free(started);
        }
        CUDA_CHECK(cudaStreamDestroy(line->stream));
        CUDA_CHECK(cudaEventDestroy(line->asked));
        free(line);
    }
    free(nccl);
}

bool nccl_join(struct world *world, struct status *status)
{
    static const struct comm_ops table = {.name = "nccl",
                                          .start_message = start_message,
                                          .start_exchange = start_exchange,
                                          .wait = wait_for,
                                          .start_reduce = start_reduce,
                                          .abort = end_all,
                                          .close = close_lines};
    struct nccl *nccl = calloc(1, sizeof *nccl);
    CHECK(nccl);
    if (!load(&nccl->f, status)) {
        free(nccl);
        return false;
    }
    nccl->world = world;
    nccl->launcher = world->comm;
    world->comm.ops = &table;
    world->comm.backend = nccl;
    int version = 0;
    nccl->f.ncclGetVersion(&version);
    snprintf(world->engine, sizeof world->engine, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return true;
}

#else

bool nccl_join(struct world *world, struct status *status)
{
    (void)world;
    return status_set(status, STATUS_UNSUPPORTED,
                      "ranks of device cuda need NCCL, without whose header this plug-in was built: install "
                      "libnccl-dev, then `make cuda` builds it anew");
}

void nccl_wait(struct nccl *nccl, struct device *device)
{
    (void)nccl, (void)device;
}

#endif
