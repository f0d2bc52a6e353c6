// MPI: the transport between processes. The only file that includes its header.
#include "kernels/mpi/plugin.h"
#include "kernels/mpi/plugin/waiting.h"
#include <limits.h>
#include <mpi.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// MPI counts elements in int: longer messages go in pieces.
#define PIECE_BYTES ((size_t)1 << 30)
// Polling interval of a waiting rank.
#define REST_NS 2000000

// An MPI communicator for reductions over a group of ranks.
struct group {
    size_t first, stride, size;
    MPI_Comm comm;
    struct group *next;
};

struct backend {
    MPI_Comm tensors, control; // control: traffic outside steps, which is not counted
    struct group *groups;      // created on first use
};
_Static_assert(sizeof(struct backend) <= sizeof((struct world){0}.backend), "the world has room for it");

// A call that waits for other ranks.
#define WAITING(call) (waiting_set(true), (call), waiting_set(false))

static size_t pieces_of(size_t bytes)
{
    return (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
}

static int piece(size_t bytes, size_t i)
{
    size_t left = bytes - i * PIECE_BYTES;
    return (int)(left < PIECE_BYTES ? left : PIECE_BYTES);
}

static size_t piece_count(const struct message *messages, size_t count)
{
    size_t pieces = 0;
    for (size_t i = 0; i < count; i++)
        pieces += pieces_of(tensor_bytes(messages[i].t));
    return pieces;
}

// A rank's number in MPI.
static int number_of(const struct comm *comm, size_t rank)
{
    return (int)comm_world_rank(comm, rank);
}

struct started {
    size_t count;
    MPI_Request requests[];
};

static void *start(const struct comm *comm, struct device *device, const struct message *sends, size_t send_count,
                   const struct message *receives, size_t receive_count)
{
    if (device->ops->synchronize)
        device->ops->synchronize(device);
    const struct backend *backend = comm->backend;
    size_t pieces = piece_count(sends, send_count) + piece_count(receives, receive_count), n = 0;
    struct started *started = calloc(1, sizeof *started + pieces * sizeof *started->requests);
    CHECK(started && pieces < INT_MAX);
    for (size_t i = 0; i < receive_count; i++) {
        const struct message *m = &receives[i];
        size_t bytes = tensor_bytes(m->t);
        for (size_t p = 0; p < pieces_of(bytes); p++)
            MPI_Irecv((char *)m->t.data + p * PIECE_BYTES, piece(bytes, p), MPI_BYTE, number_of(comm, m->peer), 0,
                      backend->tensors, &started->requests[n++]);
    }
    for (size_t i = 0; i < send_count; i++) {
        const struct message *m = &sends[i];
        size_t bytes = tensor_bytes(m->t);
        for (size_t p = 0; p < pieces_of(bytes); p++)
            MPI_Isend((const char *)m->t.data + p * PIECE_BYTES, piece(bytes, p), MPI_BYTE,
                      number_of(comm, m->peer), 0, backend->tensors, &started->requests[n++]);
    }
    started->count = n;
    return started;
}

static void wait_for(const struct comm *comm, struct device *device, void *of_start)
{
    struct started *started = of_start;
    (void)comm, (void)device;
    if (!started)
        return;
    WAITING(MPI_Waitall((int)started->count, started->requests, MPI_STATUSES_IGNORE));
    free(started);
}

static MPI_Comm group_of(const struct comm *comm)
{
    struct backend *backend = comm->backend;
    for (const struct group *group = backend->groups; group; group = group->next)
        if (group->first == comm->first && group->stride == comm->stride && group->size == comm->size)
            return group->comm;
    struct group *made = malloc(sizeof *made);
    CHECK(made);
    *made = (struct group){comm->first, comm->stride, comm->size, MPI_COMM_NULL, backend->groups};
    backend->groups = made;
    MPI_Group all, members;
    int range[1][3] = {{number_of(comm, 0), number_of(comm, comm->size - 1), (int)comm->stride}};
    MPI_Comm_group(backend->tensors, &all);
    MPI_Group_range_incl(all, 1, range, &members);
    WAITING(MPI_Comm_create_group(backend->tensors, members, 0, &made->comm));
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    return made->comm;
}

// MPI's sums are complete on return: without a thread of its own MPI only adds inside calls, and its non-blocking
// collectives do not choose algorithms by size.
static void *start_reduce(const struct comm *comm, struct device *device, struct tensor t,
                          const struct row_range *owned, bool all)
{
    MPI_Datatype type = t.dtype == DTYPE_F64 ? MPI_DOUBLE : MPI_FLOAT;
    CHECK(t.dtype != DTYPE_BF16);
    if (tensor_count(t) > INT_MAX) {
        status_set(&device->status, STATUS_UNSUPPORTED,
                   "MPI sums at most %d numbers at a time, and this is a tensor of %zu: leave parallel.sum out",
                   INT_MAX, tensor_count(t));
        return NULL;
    }
    if (device->ops->synchronize)
        device->ops->synchronize(device);
    MPI_Comm group = group_of(comm);
    if (all) {
        WAITING(MPI_Allreduce(MPI_IN_PLACE, t.data, (int)tensor_count(t), type, MPI_SUM, group));
        return NULL;
    }
    int *counts = calloc(comm->size, sizeof *counts);
    CHECK(counts);
    for (size_t r = 0; r < comm->size; r++)
        counts[r] = (int)(owned[r].count * t.cols);
    WAITING(MPI_Reduce_scatter(MPI_IN_PLACE, t.data, counts, type, MPI_SUM, group)); // into the tensor's beginning
    size_t row = t.cols * dtype_bytes(t.dtype);
    memmove((char *)t.data + owned[comm->rank].start * row, t.data, owned[comm->rank].count * row);
    free(counts);
    return NULL;
}

static void end_all(const struct comm *comm)
{
    const struct backend *backend = comm->backend;
    MPI_Abort(backend->control, 0);
    _exit(0); // in case it returns
}

static const struct comm_ops comm_mpi = {.name = "mpi",
                                         .start_message = start,
                                         .start_exchange = start,
                                         .wait = wait_for,
                                         .start_reduce = start_reduce,
                                         .abort = end_all};

static const struct backend *backend_of(const struct world *world)
{
    return (const struct backend *)world->backend; // also if tensors use another transport
}

static void meet(const struct world *world)
{
    WAITING(MPI_Barrier(backend_of(world)->control));
}

// MPI's barriers spin and would take processor time from the ranks they wait for.
static void rest(const struct world *world)
{
    MPI_Request request;
    int done = 0;
    waiting_set(true);
    MPI_Ibarrier(backend_of(world)->control, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    waiting_set(false);
}

static void broadcast(const struct world *world, void *data, size_t bytes)
{
    waiting_set(true);
    for (size_t p = 0; p < pieces_of(bytes); p++)
        MPI_Bcast((char *)data + p * PIECE_BYTES, piece(bytes, p), MPI_BYTE, 0, backend_of(world)->control);
    waiting_set(false);
}

static void gather(const struct world *world, void *all, const void *own, size_t bytes)
{
    CHECK(bytes <= PIECE_BYTES);
    WAITING(MPI_Gather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, 0, backend_of(world)->control));
}

static void send_to(const struct world *world, size_t to, const void *data, size_t bytes)
{
    waiting_set(true);
    for (size_t p = 0; p < pieces_of(bytes); p++)
        MPI_Send((const char *)data + p * PIECE_BYTES, piece(bytes, p), MPI_BYTE, (int)to, 0,
                 backend_of(world)->control);
    waiting_set(false);
}

static void receive_from(const struct world *world, size_t from, void *data, size_t bytes)
{
    waiting_set(true);
    for (size_t p = 0; p < pieces_of(bytes); p++)
        MPI_Recv((char *)data + p * PIECE_BYTES, piece(bytes, p), MPI_BYTE, (int)from, 0,
                 backend_of(world)->control, MPI_STATUS_IGNORE);
    waiting_set(false);
}

static void close_world(struct world *world)
{
    struct backend *backend = (struct backend *)world->backend;
    while (backend->groups) {
        struct group *group = backend->groups;
        backend->groups = group->next;
        MPI_Comm_free(&group->comm);
        free(group);
    }
    MPI_Comm_free(&backend->tensors);
    MPI_Comm_free(&backend->control);
    MPI_Finalize();
}

static const struct world_ops world_mpi = {.rest = rest,
                                           .meet = meet,
                                           .broadcast = broadcast,
                                           .gather = gather,
                                           .send = send_to,
                                           .receive = receive_from,
                                           .set_waiting = waiting_set,
                                           .close = close_world};

static bool open_world(struct world *world, struct status *status)
{
    int rank, size, local_rank, version_bytes;
    MPI_Comm node;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    *world = (struct world){.ops = &world_mpi};
    struct backend *backend = (struct backend *)world->backend;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return status_set(status, STATUS_FAILED, "MPI could not be started");
    MPI_Comm_dup(MPI_COMM_WORLD, &backend->tensors);
    MPI_Comm_dup(MPI_COMM_WORLD, &backend->control);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    world->local_rank = (size_t)local_rank;
    waiting_open((size_t)rank, (size_t)size);
    world->comm = (struct comm){
        .ops = &comm_mpi, .rank = (size_t)rank, .size = (size_t)size, .stride = 1, .backend = backend};
    // "Open MPI v4.1.4, package: ..."
    MPI_Get_library_version(version, &version_bytes);
    snprintf(world->engine, sizeof world->engine, "%.*s", (int)strcspn(version, ",\n"), version);
    return true;
}

__attribute__((visibility("default"))) const struct mpi_plugin longbp_mpi = {MPI_PLUGIN_SOURCES, open_world};
