// Comm: ranks that share a step, and the tensors that they send each other. One pair of calls moves bytes, `start`
// and `wait`; all else is made of it here. Sums run over the ranks in order, by the device's own additions: their
// bits depend on the number of ranks alone, not on the library that carries the bytes. Beside them, where asked
// for, stand that library's own.
#pragma once
#include "kernels/device/ops.h"

struct message {
    size_t peer; // rank in the comm
    struct tensor t;
};

// Rows of a tensor, of which each rank has some.
struct row_range {
    size_t start, count;
};

struct comm;
// All sends and receives set out at once; nobody waits. Of any length, 0 included. What is to be waited for.
typedef void *comm_start(const struct comm *comm, struct device *device, const struct message *sends,
                         size_t send_count, const struct message *receives, size_t receive_count);
struct comm_ops {
    const char *name; // "self", "mpi", "nccl", "plan"
    // One message, of which two ranks alone know. Those of one sender to one receiver arrive in order.
    comm_start *start_message;
    // Of all ranks of the comm, which come to their exchanges in the same order.
    comm_start *start_exchange;
    // When it returns what came may be read, and what went be overwritten. started: of start; it is gone then.
    void (*wait)(const struct comm *comm, struct device *device, void *started);
    // The transport's own reduce-scatter: rank r's rows owned[r] of t, which lie one after another, become their
    // sum over the ranks, and all others' are spent. all: its own all-reduce, t = its sum. What is to be waited
    // for.
    void *(*start_reduce)(const struct comm *comm, struct device *device, struct tensor t,
                          const struct row_range *owned, bool all);
    // Ends the processes of all ranks now, this one's too: the reason has been written. NULL: there is one process.
    void (*abort)(const struct comm *comm);
    // Of the comm of all ranks, after its last use. NULL: nothing.
    void (*close)(const struct comm *comm);
};

struct trace;
struct comm {
    const struct comm_ops *ops;
    size_t rank, size;
    size_t first, stride; // rank r is number first + r * stride of all there are
    size_t node;          // so many, one after another, are nearer to each other; 0, 1: nobody is
    void *backend;        // the transport's own
    struct trace *trace;  // of a rank without data, what it says; borrowed; NULL: nobody asks
};

// Its number of all there are.
static inline size_t comm_world_rank(const struct comm *comm, size_t rank)
{
    return comm->first + rank * comm->stride;
}

// One rank alone: there is nobody to send to.
extern const struct comm comm_self;
// One of several ranks without data: what it would send is counted.
struct comm comm_planned(size_t rank, size_t size);

// Rank's ranks [first, first + size) of a comm, `stride` apart; the comm's own rank must be among them. Nodes are
// forgotten.
struct comm comm_part(const struct comm *comm, size_t first, size_t stride, size_t size);

// Messages on their way, whose tensors, contiguous and on the device, are the transport's until they have been
// waited for. Each counts its bytes and messages on the device, and does nothing once that has failed. Zeroed it is
// none, and nobody waits.
struct delivery {
    bool going;
    void *started;
    size_t event, events; // of the trace: the first, and how many
};
struct delivery comm_start_send(const struct comm *comm, struct device *device, size_t peer, struct tensor t);
struct delivery comm_start_receive(const struct comm *comm, struct device *device, size_t peer, struct tensor t);
// Messages of all ranks of the comm at once, of each any number.
struct delivery comm_start_exchange(const struct comm *comm, struct device *device, const struct message *sends,
                                    size_t send_count, const struct message *receives, size_t receive_count);
void comm_wait(const struct comm *comm, struct device *device, struct delivery *delivery);
// Messages to and from other ranks of the comm, which all exchange some, at once; when it returns what came may be
// read, and what went be overwritten.
void comm_exchange(const struct comm *comm, struct device *device, const struct message *sends, size_t send_count,
                   const struct message *receives, size_t receive_count);
// Rank's share of so many, in order: as even as may be, the first ranks' one larger.
struct row_range comm_share(size_t count, size_t ranks, size_t rank);
// Where there are nodes, gathers and sums are first between the ranks of each, then between those that have the
// same place in their nodes, which carry a node's share of what all would send each other. Sums then run over a
// node's ranks in order, and over the nodes in order, rounded once on each level: both numbers alone fix their
// bits.

// Rank r holds rows owned[r] of t; then every rank holds all of them.
void comm_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                      const struct row_range *owned);
// The same, not waited for, but where there are nodes.
struct delivery comm_start_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                                       const struct row_range *owned);
// Rank r's rows become their sum over the ranks, rank 0's first, rounded once; all others' are left as they were,
// or, where there are nodes, those of its like in the other nodes as the sum over its own node. Takes at most
// COMM_SCRATCH_BYTES of workspace, or one row of each other rank.
#define COMM_SCRATCH_BYTES ((size_t)32 << 20)
void comm_sum_rows(const struct comm *comm, struct device *device, struct tensor t, const struct row_range *owned);
// The same in two halves, with the same bits, where there are no nodes: the others' parts of this rank's rows come
// while the ranks compute, and are added in the second. t is the transport's in between. Takes workspace for all of
// these parts; where t is bf16 the second half takes some for the rows in f32, too.
struct row_sum {
    struct delivery delivery;
    struct tensor mine, others;
};
struct row_sum comm_start_sum_rows(const struct comm *comm, struct device *device, struct tensor t,
                                   const struct row_range *owned);
void comm_finish_sum_rows(const struct comm *comm, struct device *device, struct row_sum *sum);
// t = its sum over the ranks, the same bits on all.
void comm_sum(const struct comm *comm, struct device *device, struct tensor t);
// The transport's own sum over the ranks, in an order and of roundings that it chooses: of each rank's rows alone,
// owned as comm_share has it, of which all others are spent; or with `all` of t on every rank. Counted is what a
// ring of them sends, the least that any way does: once or twice the others' rows.
struct delivery comm_start_reduce_rows(const struct comm *comm, struct device *device, struct tensor t,
                                       const struct row_range *owned, bool all);
