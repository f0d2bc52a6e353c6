// Comm: ranks that share a step, and the tensors that they send each other. A transport only provides `start` and
// `wait`; collectives are built on them here. Sums add in rank order with the device's own operations, so their
// bits depend only on the number of ranks, not on the transport. On request the transport's own reductions run
// instead.
#pragma once
#include "kernels/device/ops.h"

struct message {
    size_t peer; // rank in the comm
    struct tensor t;
};

// The rows of a tensor that one rank owns.
struct row_range {
    size_t start, count;
};

struct comm;
// Starts all sends and receives at once, of any length including 0, without waiting. Returns what `wait` takes.
typedef void *comm_start(const struct comm *comm, struct device *device, const struct message *sends,
                         size_t send_count, const struct message *receives, size_t receive_count);
struct comm_ops {
    const char *name; // "self", "mpi", "nccl", "plan"
    // Point to point: only two ranks take part. Messages of one sender to one receiver arrive in order.
    comm_start *start_message;
    // Collective: all ranks of the comm take part, in the same order of exchanges.
    comm_start *start_exchange;
    // Waits for `started` and releases it: received data can be read and sent data overwritten.
    void (*wait)(const struct comm *comm, struct device *device, void *started);
    // The transport's own reduce-scatter: the rows owned[r] of t, contiguous over the ranks, become their sum on
    // rank r, and its other rows are undefined. all: all-reduce, t = its sum. Returns what `wait` takes.
    void *(*start_reduce)(const struct comm *comm, struct device *device, struct tensor t,
                          const struct row_range *owned, bool all);
    // Ends the processes of all ranks, this one's too; the reason has been printed. NULL: there is one process.
    void (*abort)(const struct comm *comm);
    // Closes the comm of all ranks after its last use. NULL: nothing to do.
    void (*close)(const struct comm *comm);
};

struct trace;
struct comm {
    const struct comm_ops *ops;
    size_t rank, size;
    size_t first, stride; // rank r has world rank first + r * stride
    size_t node;          // size of a node, consecutive ranks with faster links; 0, 1: no nodes
    void *backend;        // owned by the transport
    struct trace *trace;  // of a rank without data: records its communication; borrowed; NULL: off
};

// World rank of a rank of the comm.
static inline size_t comm_world_rank(const struct comm *comm, size_t rank)
{
    return comm->first + rank * comm->stride;
}

// A single rank, which sends to none.
extern const struct comm comm_self;
// One of several ranks without data: its messages are only counted.
struct comm comm_planned(size_t rank, size_t size);

// Ranks [first, first + size) of a comm, `stride` apart, which include the comm's own rank. Drops nodes.
struct comm comm_part(const struct comm *comm, size_t first, size_t stride, size_t size);

// Messages in transit. Their tensors are contiguous on the device and belong to the transport until comm_wait. The
// start functions count bytes and messages on the device and do nothing after its failure. A zeroed delivery is
// none, and waiting for it does nothing.
struct delivery {
    bool going;
    void *started;
    size_t event, events; // of the trace: the first, and their number
};
struct delivery comm_start_send(const struct comm *comm, struct device *device, size_t peer, struct tensor t);
struct delivery comm_start_receive(const struct comm *comm, struct device *device, size_t peer, struct tensor t);
// Messages between all ranks of the comm at once, any number per rank.
struct delivery comm_start_exchange(const struct comm *comm, struct device *device, const struct message *sends,
                                    size_t send_count, const struct message *receives, size_t receive_count);
void comm_wait(const struct comm *comm, struct device *device, struct delivery *delivery);
// A blocking exchange: on return received data can be read and sent data overwritten.
void comm_exchange(const struct comm *comm, struct device *device, const struct message *sends, size_t send_count,
                   const struct message *receives, size_t receive_count);
// A rank's contiguous share of `count`, as even as possible, larger for the first ranks.
struct row_range comm_share(size_t count, size_t ranks, size_t rank);
// With nodes, gathers and sums run first between the ranks of a node, then between ranks with the same index in
// their nodes, which carry a node's share of the traffic. Sums add over a node's ranks in order, then over the
// nodes in order, rounded once per level: node size and node number determine their bits.

// All-gather: rank r contributes rows owned[r] of t; afterwards every rank has all of them.
void comm_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                      const struct row_range *owned);
// The same without waiting, except with nodes.
struct delivery comm_start_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                                       const struct row_range *owned);
// Reduce-scatter: a rank's rows become their sum over the ranks in order, rounded once. Its other rows keep their
// values, except that with nodes the rows of ranks with its index in other nodes become sums over its own node.
// Uses at most COMM_SCRATCH_BYTES of workspace, or one row of each other rank.
#define COMM_SCRATCH_BYTES ((size_t)32 << 20)
void comm_sum_rows(const struct comm *comm, struct device *device, struct tensor t, const struct row_range *owned);
// The same in two halves, with the same bits, without nodes: other ranks' parts of this rank's rows arrive during
// computation and are added in the second half. t belongs to the transport in between. Uses workspace for all these
// parts; for bf16 the second half also for the rows in f32.
struct row_sum {
    struct delivery delivery;
    struct tensor mine, others;
};
struct row_sum comm_start_sum_rows(const struct comm *comm, struct device *device, struct tensor t,
                                   const struct row_range *owned);
void comm_finish_sum_rows(const struct comm *comm, struct device *device, struct row_sum *sum);
// All-reduce: t = its sum over the ranks, with the same bits on all.
void comm_sum(const struct comm *comm, struct device *device, struct tensor t);
// The transport's own sum, in its own order and rounding: a reduce-scatter with the shares of comm_share, after
// which other rows are undefined; with `all` an all-reduce. Counts the traffic of a ring, the minimum: once or
// twice the other ranks' rows.
struct delivery comm_start_reduce_rows(const struct comm *comm, struct device *device, struct tensor t,
                                       const struct row_range *owned, bool all);
