// NCCL between emulated cards, each of a process on this machine: what is sent is a file, by the sender's and the
// receiver's number and a count, in a folder that is the communicator's name. Nothing is done when it is asked for,
// but when the stream comes to it, and the stream does not know of it before somebody has asked how the
// communicator is. Sums begin with the last rank. With NCCL_FAULT=RANK:N the N-th thing that the process of this
// number does fails, and its stream waits for it until the communicator is aborted.
#include "tests/emulator/stream.h"
#include <dlfcn.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 64
#define REQUIRE(condition)                                                                                         \
    do {                                                                                                           \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                        \
            abort();                                                                                               \
        }                                                                                                          \
    } while (0)

struct step {
    enum { PUT, GET, ADD } kind;
    char *data;
    size_t bytes;
    int peer;
    ncclDataType_t type; // of what is added
};

struct work {
    ncclComm_t comm;
    cudaStream_t stream;
    struct step *steps;
    size_t count, done;
};

struct ncclComm {
    char folder[NCCL_UNIQUE_ID_BYTES];
    int rank, ranks;
    size_t sent[RANKS], received[RANKS];
    bool come;  // all of its ranks
    bool ended; // of this one nothing more comes
    bool failed, aborted;
    struct work *asked; // what the stream does not know of
};

// The group that is open: what it sends at first, and what comes then.
static struct work first, then;
static int depth;

// ---- messages

static void path_of(char path[256], const struct ncclComm *comm, int from, int to, size_t number)
{
    snprintf(path, 256, "%s/%d-%d-%zu", comm->folder, from, to, number);
}

static bool put(struct ncclComm *comm, const struct step *step)
{
    char path[256], unfinished[sizeof path + 8];
    path_of(path, comm, comm->rank, step->peer, comm->sent[step->peer]++);
    snprintf(unfinished, sizeof unfinished, "%s.new", path);
    FILE *file = fopen(unfinished, "w");
    REQUIRE(file && fwrite(step->data, 1, step->bytes, file) == step->bytes && fclose(file) == 0);
    REQUIRE(rename(unfinished, path) == 0);
    return true;
}

static bool get(struct ncclComm *comm, const struct step *step, char *data)
{
    char path[256];
    path_of(path, comm, step->peer, comm->rank, comm->received[step->peer]);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    REQUIRE(fread(data, 1, step->bytes, file) == step->bytes && fgetc(file) == EOF);
    fclose(file);
    unlink(path);
    comm->received[step->peer]++;
    return true;
}

static size_t element_bytes(ncclDataType_t type)
{
    return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : type == ncclBfloat16 ? 2 : 1;
}

static void add_element(char *sum, const char *part, ncclDataType_t type)
{
    double a, b;
    float x = 0, y = 0;
    if (type == ncclFloat64) {
        memcpy(&a, sum, sizeof a);
        memcpy(&b, part, sizeof b);
        a += b;
        memcpy(sum, &a, sizeof a);
        return;
    }
    size_t bytes = element_bytes(type), low = sizeof x - bytes; // bf16 is the upper half of an f32
    REQUIRE(type == ncclFloat32 || type == ncclBfloat16);
    memcpy((char *)&x + low, sum, bytes);
    memcpy((char *)&y + low, part, bytes);
    x += y;
    if (type == ncclBfloat16) {
        unsigned bits;
        memcpy(&bits, &x, sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        memcpy(&x, &bits, sizeof bits);
    }
    memcpy(sum, (char *)&x + low, bytes);
}

static bool add(struct ncclComm *comm, const struct step *step)
{
    size_t bytes = element_bytes(step->type);
    char *part = malloc(step->bytes + 1);
    REQUIRE(part);
    bool come = get(comm, step, part);
    for (size_t at = 0; come && at < step->bytes; at += bytes)
        add_element(step->data + at, part + at, step->type);
    free(part);
    return come;
}

// ---- work

static void note_fault(struct ncclComm *comm)
{
    static size_t works; // of this process
    const char *fault = getenv("NCCL_FAULT"), *own = getenv("OMPI_COMM_WORLD_RANK");
    int rank;
    size_t number;
    works++;
    if (fault && own && sscanf(fault, "%d:%zu", &rank, &number) == 2 && rank == atoi(own) && works >= number)
        comm->failed = true;
}

// Its stream has come to it; until all of it is done.
static int go_on(void *data)
{
    struct work *work = data;
    if (work->done == 0)
        note_fault(work->comm);
    if (work->comm->failed && !work->comm->aborted)
        return false;
    for (; !work->comm->failed && work->done < work->count; work->done++) {
        const struct step *step = &work->steps[work->done];
        bool done = step->kind == PUT   ? put(work->comm, step)
                    : step->kind == GET ? get(work->comm, step, step->data)
                                        : add(work->comm, step);
        if (!done)
            return false;
    }
    free(work->steps);
    free(work);
    return true;
}

static void tell_stream(struct work *work)
{
    static void (*ask)(cudaStream_t, int (*)(void *), void *);
    if (!ask) {
        void *emulator = dlopen(getenv("LONGBP_CUDA"), RTLD_NOW | RTLD_NOLOAD);
        REQUIRE(emulator);
        *(void **)&ask = dlsym(emulator, "emulator_ask_until");
        REQUIRE(ask);
    }
    ask(work->stream, go_on, work);
}

static void add_step(struct work *work, struct step step)
{
    work->steps = realloc(work->steps, (work->count + 1) * sizeof *work->steps);
    REQUIRE(work->steps && step.peer >= 0 && step.peer < RANKS);
    work->steps[work->count++] = step;
}

static ncclResult_t ask_in_group(ncclComm_t comm, cudaStream_t stream)
{
    REQUIRE(depth > 0 && comm->come && (!first.comm || (first.comm == comm && first.stream == stream)));
    first.comm = comm;
    first.stream = stream;
    return ncclSuccess;
}

// ---- the library

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : result == ncclSystemError ? "unhandled system error" : "an error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm->failed ? "a link was cut" : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *parent = getenv("TMPDIR");
    snprintf(id->internal, sizeof id->internal, "%s/nccl-XXXXXX", parent && *parent ? parent : "/tmp");
    REQUIRE(mkdtemp(id->internal));
    return ncclSuccess;
}

// While it is a member, and when of it nothing more comes.
static void mark_of(char path[256], const struct ncclComm *comm, int rank, bool ended)
{
    snprintf(path, 256, "%s/%s-%d", comm->folder, ended ? "ended" : "rank", rank);
}

static bool has_mark(const struct ncclComm *comm, int rank, bool ended)
{
    char path[256];
    mark_of(path, comm, rank, ended);
    return access(path, F_OK) == 0;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    char path[256];
    REQUIRE(comm && config->blocking == 0 && config->magic == 0xcafebeef);
    REQUIRE(config->maxCTAs == NCCL_CONFIG_UNDEF_INT || (ranks == 2 && config->maxCTAs > 0));
    REQUIRE(rank >= 0 && rank < ranks && ranks <= RANKS && depth == 0);
    memcpy(comm->folder, id.internal, sizeof comm->folder);
    comm->rank = rank;
    comm->ranks = ranks;
    mark_of(path, comm, rank, false);
    FILE *mark = fopen(path, "wx"); // of two with one number the second fails
    REQUIRE(mark && fclose(mark) == 0);
    *made = comm;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    bool come = true, members = false;
    for (int rank = 0; !comm->come && rank < comm->ranks; rank++)
        come &= has_mark(comm, rank, false) || has_mark(comm, rank, true);
    for (int rank = 0; comm->ended && rank < comm->ranks; rank++)
        members |= has_mark(comm, rank, false);
    comm->come = comm->come || come;
    if (comm->asked)
        tell_stream(comm->asked);
    comm->asked = NULL;
    *result = comm->failed ? ncclSystemError : comm->come && !members ? ncclSuccess : ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    REQUIRE(--depth == 0);
    struct ncclComm *comm = first.comm;
    if (!comm)
        return ncclSuccess;
    for (size_t i = 0; i < then.count; i++)
        add_step(&first, then.steps[i]);
    free(then.steps);
    struct work *work = malloc(sizeof *work);
    REQUIRE(work && !comm->asked);
    *work = first;
    comm->asked = work;
    first = then = (struct work){0};
    return ncclInProgress;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    add_step(&first, (struct step){PUT, (char *)data, count * element_bytes(type), peer, type});
    return ask_in_group(comm, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    add_step(&then, (struct step){GET, data, count * element_bytes(type), peer, type});
    return ask_in_group(comm, stream);
}

ncclResult_t ncclReduce(const void *data, void *sum, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * element_bytes(type);
    REQUIRE(data == sum && op == ncclSum);
    if (comm->rank != root)
        add_step(&first, (struct step){PUT, sum, bytes, root, type});
    for (int rank = comm->ranks; comm->rank == root && rank-- > 0;)
        if (rank != root)
            add_step(&then, (struct step){ADD, sum, bytes, rank, type});
    return ask_in_group(comm, stream);
}

ncclResult_t ncclAllReduce(const void *data, void *sum, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = ncclReduce(data, sum, count, type, op, 0, comm, stream);
    size_t bytes = count * element_bytes(type);
    if (comm->rank > 0)
        add_step(&then, (struct step){GET, sum, bytes, 0, type});
    for (int rank = 1; comm->rank == 0 && rank < comm->ranks; rank++)
        add_step(&then, (struct step){PUT, sum, bytes, rank, type});
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->failed = comm->aborted = true; // what streams have of it ends; the program does, too
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    char before[256], after[256];
    REQUIRE(comm->come && !comm->asked && !comm->ended && depth == 0);
    comm->ended = true;
    mark_of(before, comm, comm->rank, false);
    mark_of(after, comm, comm->rank, true);
    REQUIRE(rename(before, after) == 0);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    char path[256];
    REQUIRE(comm->ended && !comm->failed);
    for (int rank = 0; rank < comm->ranks; rank++)
        REQUIRE(!has_mark(comm, rank, false));
    mark_of(path, comm, comm->rank, true);
    unlink(path);
    rmdir(comm->folder); // the last can
    free(comm);
    return ncclSuccess;
}
