#include "kernels/comm/comm.h"
#include "kernels/device/memo.h"
#include "kernels/measure/trace.h"

static void *start_nothing(const struct comm *comm, struct device *device, const struct message *sends,
                           size_t send_count, const struct message *receives, size_t receive_count)
{
    (void)comm, (void)device, (void)sends, (void)send_count, (void)receives, (void)receive_count;
    return NULL;
}

static void wait_for_nothing(const struct comm *comm, struct device *device, void *started)
{
    (void)comm, (void)device, (void)started;
}

static const struct comm_ops self = {
    .name = "self", .start_message = start_nothing, .start_exchange = start_nothing, .wait = wait_for_nothing};
const struct comm comm_self = {.ops = &self, .size = 1, .stride = 1};
static const struct comm_ops plan = {
    .name = "plan", .start_message = start_nothing, .start_exchange = start_nothing, .wait = wait_for_nothing};

struct comm comm_planned(size_t rank, size_t size)
{
    return (struct comm){.ops = &plan, .rank = rank, .size = size, .stride = 1};
}

struct comm comm_part(const struct comm *comm, size_t first, size_t stride, size_t size)
{
    CHECK(stride > 0 && comm->rank >= first && (comm->rank - first) % stride == 0);
    struct comm part = *comm;
    part.rank = (comm->rank - first) / stride;
    part.size = size;
    part.node = 0;
    part.first = comm->first + first * comm->stride;
    part.stride = comm->stride * stride;
    CHECK(part.rank < size && first + (size - 1) * stride < comm->size);
    return part;
}

struct row_range comm_share(size_t count, size_t ranks, size_t rank)
{
    size_t each = count / ranks, larger = count % ranks;
    return (struct row_range){rank * each + (rank < larger ? rank : larger), each + (rank < larger)};
}

static bool failed(const struct device *device)
{
    return device->status.code != STATUS_OK;
}

// Bytes that a rank sends and receives in one exchange.
struct traffic {
    double sent_bytes, received_bytes;
    size_t messages;
};

static void count(struct device *device, struct traffic traffic)
{
    device->counters.sent_bytes += traffic.sent_bytes;
    device->counters.received_bytes += traffic.received_bytes;
    device->counters.messages += traffic.messages;
}

// Traces an event and returns its number.
static size_t note(const struct comm *comm, const struct device *device, struct trace_event event)
{
    return comm->trace && !failed(device) ? trace_add(comm->trace, device, event) : 0;
}

// Counts an exchange of all ranks of the comm on a device without data.
static struct delivery meet(const struct comm *comm, struct device *device, struct traffic traffic)
{
    CHECK(comm->size > 0 && comm->stride > 0);
    CHECK(trace_group(comm_world_rank(comm, comm->rank), comm->stride, comm->size) == comm->first);
    count(device, traffic);
    size_t event = note(comm, device,
                        (struct trace_event){.kind = TRACE_MEET,
                                             .sent_bytes = traffic.sent_bytes,
                                             .received_bytes = traffic.received_bytes,
                                             .stride = comm->stride,
                                             .size = comm->size});
    return (struct delivery){.going = true, .event = event, .events = 1};
}

static double total_bytes(const struct comm *comm, const struct message *messages, size_t count)
{
    double bytes = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(messages[i].peer < comm->size && messages[i].peer != comm->rank);
        CHECK(messages[i].t.place == PLACE_DEVICE);
        bytes += (double)tensor_bytes(messages[i].t);
    }
    return bytes;
}

static void note_messages(const struct comm *comm, const struct device *device, struct delivery *delivery,
                          enum trace_kind kind, const struct message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t event = note(comm, device,
                            (struct trace_event){.kind = kind,
                                                 .peer = comm_world_rank(comm, messages[i].peer),
                                                 .sent_bytes = (double)tensor_bytes(messages[i].t)});
        delivery->event = delivery->events++ ? delivery->event : event;
    }
}

// Counts messages and starts them; `started` is NULL on a device without data.
static struct delivery begin(const struct comm *comm, struct device *device, comm_start *start,
                             const struct message *sends, size_t send_count, const struct message *receives,
                             size_t receive_count)
{
    struct delivery delivery = {.going = !failed(device)};
    if (delivery.going) {
        count(device, (struct traffic){total_bytes(comm, sends, send_count),
                                       total_bytes(comm, receives, receive_count), send_count});
        if (!device->ops->dataless)
            delivery.started = start(comm, device, sends, send_count, receives, receive_count);
        note_messages(comm, device, &delivery, TRACE_SEND, sends, send_count);
        note_messages(comm, device, &delivery, TRACE_RECEIVE, receives, receive_count);
    }
    return delivery;
}

struct delivery comm_start_send(const struct comm *comm, struct device *device, size_t peer, struct tensor t)
{
    return begin(comm, device, comm->ops->start_message, &(struct message){peer, t}, 1, NULL, 0);
}

struct delivery comm_start_receive(const struct comm *comm, struct device *device, size_t peer, struct tensor t)
{
    return begin(comm, device, comm->ops->start_message, NULL, 0, &(struct message){peer, t}, 1);
}

struct delivery comm_start_exchange(const struct comm *comm, struct device *device, const struct message *sends,
                                    size_t send_count, const struct message *receives, size_t receive_count)
{
    return begin(comm, device, comm->ops->start_exchange, sends, send_count, receives, receive_count);
}

void comm_wait(const struct comm *comm, struct device *device, struct delivery *delivery)
{
    if (delivery->going && !failed(device)) { // otherwise all ranks end
        for (size_t i = 0; i < delivery->events; i++)
            note(comm, device, (struct trace_event){.kind = TRACE_WAIT, .event = delivery->event + i});
        if (!device->ops->dataless)
            comm->ops->wait(comm, device, delivery->started);
    }
    *delivery = (struct delivery){0};
}

// A growing list of messages to or from other ranks.
struct post {
    struct message *items;
    size_t count;
};

static struct post post_open(const struct comm *comm)
{
    return (struct post){calloc(comm->size, sizeof(struct message)), 0};
}

static void post_add(struct post *post, size_t peer, struct tensor t)
{
    if (t.rows > 0)
        post->items[post->count++] = (struct message){peer, t};
}

void comm_exchange(const struct comm *comm, struct device *device, const struct message *sends, size_t send_count,
                   const struct message *receives, size_t receive_count)
{
    if (failed(device))
        return;
    struct traffic traffic = {total_bytes(comm, sends, send_count), total_bytes(comm, receives, receive_count),
                              send_count};
    struct delivery delivery = device->ops->dataless
                                   ? meet(comm, device, traffic)
                                   : comm_start_exchange(comm, device, sends, send_count, receives, receive_count);
    comm_wait(comm, device, &delivery);
}

static struct delivery post_start(const struct comm *comm, struct device *device, struct post *sends,
                                  struct post *receives)
{
    struct delivery delivery =
        comm_start_exchange(comm, device, sends->items, sends->count, receives->items, receives->count);
    free(sends->items);
    free(receives->items);
    return delivery;
}

// ---- nodes: first within each node, then between ranks with the same index in their nodes

// The ranks of this node; the ranks with this index in every node, and the rows that they own.
struct levels {
    struct comm within, between;
    struct row_range *between_owned; // [between.size]
};

static struct levels levels_of(const struct comm *comm, const struct row_range *owned)
{
    size_t node = comm->node, nodes = comm->size / node, place = comm->rank % node;
    CHECK(comm->size % node == 0);
    struct levels levels = {comm_part(comm, comm->rank - place, 1, node), comm_part(comm, place, node, nodes),
                            calloc(nodes, sizeof *levels.between_owned)};
    for (size_t i = 0; i < nodes; i++)
        levels.between_owned[i] = owned[i * node + place];
    return levels;
}

static void sum_rows_by_nodes(const struct comm *comm, struct device *device, struct tensor t,
                              const struct row_range *owned)
{
    struct levels levels = levels_of(comm, owned);
    // Sums, for each index in a node, the rows that ranks with this index own in all nodes.
    for (size_t first = 0; first < comm->size; first += comm->node)
        comm_sum_rows(&levels.within, device, t, owned + first);
    comm_sum_rows(&levels.between, device, t, levels.between_owned);
    free(levels.between_owned);
}

static void gather_rows_by_nodes(const struct comm *comm, struct device *device, struct tensor t,
                                 const struct row_range *owned)
{
    struct levels levels = levels_of(comm, owned);
    comm_gather_rows(&levels.between, device, t, levels.between_owned);
    for (size_t first = 0; first < comm->size; first += comm->node)
        comm_gather_rows(&levels.within, device, t, owned + first);
    free(levels.between_owned);
}

// ---- gathers and sums

static size_t row_bytes(struct tensor t)
{
    return t.cols * dtype_bytes(t.dtype);
}

// The same traffic for planned ranks, computed without a message list, because there may be very many.
static struct traffic gather_traffic(const struct comm *comm, struct tensor t, const struct row_range *owned)
{
    double row = (double)row_bytes(t), own = (double)owned[comm->rank].count, all = 0;
    for (size_t peer = 0; peer < comm->size; peer++)
        all += (double)owned[peer].count;
    return (struct traffic){row * own * (double)(comm->size - 1), row * (all - own), own > 0 ? comm->size - 1 : 0};
}

struct delivery comm_start_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                                       const struct row_range *owned)
{
    if (comm->size == 1 || failed(device))
        return (struct delivery){0};
    if (comm->node > 1) {
        gather_rows_by_nodes(comm, device, t, owned);
        return (struct delivery){0};
    }
    if (device->ops->dataless)
        return meet(comm, device, gather_traffic(comm, t, owned));
    struct post sends = post_open(comm), receives = post_open(comm);
    struct row_range own = owned[comm->rank];
    for (size_t peer = 0; peer < comm->size; peer++) {
        if (peer != comm->rank) {
            post_add(&sends, peer, tensor_rows(t, own.start, own.count));
            post_add(&receives, peer, tensor_rows(t, owned[peer].start, owned[peer].count));
        }
    }
    return post_start(comm, device, &sends, &receives);
}

void comm_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                      const struct row_range *owned)
{
    struct delivery delivery = comm_start_gather_rows(comm, device, t, owned);
    comm_wait(comm, device, &delivery);
}

static size_t block_rows(struct row_range rows, size_t first, size_t max)
{
    size_t left = rows.count > first ? rows.count - first : 0;
    return left < max ? left : max;
}

// At most `max` of a rank's rows, from `first` on.
static struct tensor block_of(struct tensor t, struct row_range rows, size_t first, size_t max)
{
    size_t count = block_rows(rows, first, max);
    return tensor_rows(t, rows.start + (count ? first : 0), count);
}

// Counts the addition of `times` parts of equal size, for ranks without data.
static void accumulate_planned(struct device *device, struct tensor sum, struct tensor part, size_t times)
{
    struct counters before = device->counters;
    op_accumulate(device, sum, part);
    counters_repeat(&device->counters, &before, (double)(times - 1));
}

// mine = the sum of all ranks' parts in rank order. others: the parts of the other ranks in that order.
static void add_in_order(const struct comm *comm, struct device *device, struct tensor mine, struct tensor others,
                         struct tensor wide)
{
    struct tensor sum = comm->rank == 0 ? mine : tensor_rows(others, 0, mine.rows);
    if (wide.data) {
        wide = tensor_rows(wide, 0, mine.rows);
        op_copy(device, wide, sum);
        sum = wide;
    }
    bool planned = device->ops->dataless && !device->observers;
    if (planned)
        accumulate_planned(device, sum, mine, comm->size - 1);
    for (size_t r = 1; !planned && r < comm->size; r++) {
        size_t other = r < comm->rank ? r : r - 1;
        op_accumulate(device, sum, r == comm->rank ? mine : tensor_rows(others, other * mine.rows, mine.rows));
    }
    if (sum.data != mine.data)
        op_copy(device, mine, sum);
}

static struct traffic block_traffic(const struct comm *comm, struct tensor t, const struct row_range *owned,
                                    size_t first, size_t max)
{
    double row = (double)row_bytes(t), mine = (double)block_rows(owned[comm->rank], first, max);
    struct traffic traffic = {.received_bytes = row * mine * (double)(comm->size - 1)};
    for (size_t peer = 0; peer < comm->size; peer++) {
        size_t rows = peer == comm->rank ? 0 : block_rows(owned[peer], first, max);
        traffic.sent_bytes += row * (double)rows;
        traffic.messages += rows > 0;
    }
    return traffic;
}

// Sends each rank its block of t; others receives the other ranks' versions of this rank's block.
static struct delivery start_blocks(const struct comm *comm, struct device *device, struct tensor t,
                                    const struct row_range *owned, size_t first, size_t max, struct tensor others)
{
    if (failed(device))
        return (struct delivery){0};
    if (device->ops->dataless)
        return meet(comm, device, block_traffic(comm, t, owned, first, max));
    struct post sends = post_open(comm), receives = post_open(comm);
    size_t mine = block_rows(owned[comm->rank], first, max);
    for (size_t peer = 0, r = 0; peer < comm->size; peer++) {
        if (peer != comm->rank) {
            post_add(&sends, peer, block_of(t, owned[peer], first, max));
            post_add(&receives, peer, tensor_rows(others, r++ * mine, mine));
        }
    }
    return post_start(comm, device, &sends, &receives);
}

static size_t largest_share(const struct comm *comm, const struct row_range *owned)
{
    size_t largest = 0;
    for (size_t r = 0; r < comm->size; r++)
        largest = owned[r].count > largest ? owned[r].count : largest;
    return largest;
}

// Buffer that sums bf16 rows in f32; no tensor for other dtypes.
static struct tensor wide_rows(struct device *device, struct tensor t, size_t rows)
{
    return t.dtype == DTYPE_BF16 ? tensor_new(device, rows, t.cols, DTYPE_F32, CATEGORY_WORKSPACE) : tensor_none();
}

void comm_sum_rows(const struct comm *comm, struct device *device, struct tensor t, const struct row_range *owned)
{
    if (comm->size == 1 || failed(device))
        return;
    if (comm->node > 1) {
        sum_rows_by_nodes(comm, device, t, owned);
        return;
    }
    size_t own = owned[comm->rank].count, largest = largest_share(comm, owned);
    // The largest block that fits the workspace, so that all ranks take equally many blocks.
    size_t wide_parts = t.dtype == DTYPE_BF16 ? 2 : 0;
    size_t max = COMM_SCRATCH_BYTES / ((comm->size - 1 + wide_parts) * row_bytes(t));
    max = max == 0 ? 1 : max < largest ? max : largest;
    size_t block = own < max ? own : max;
    struct tensor others = tensor_new(device, (comm->size - 1) * block, t.cols, t.dtype, CATEGORY_WORKSPACE);
    struct tensor wide = wide_rows(device, t, block);
    for (size_t first = 0; first < largest; first += max) {
        struct tensor mine = block_of(t, owned[comm->rank], first, max);
        struct delivery delivery = start_blocks(comm, device, t, owned, first, max, others);
        comm_wait(comm, device, &delivery);
        if (mine.rows > 0)
            add_in_order(comm, device, mine, others, wide);
    }
    tensor_free(device, &wide);
    tensor_free(device, &others);
}

struct row_sum comm_start_sum_rows(const struct comm *comm, struct device *device, struct tensor t,
                                   const struct row_range *owned)
{
    struct row_range own = owned[comm->rank];
    if (comm->size == 1 || failed(device))
        return (struct row_sum){0};
    CHECK(comm->node <= 1); // overlap is refused with nodes
    struct row_sum sum = {.mine = tensor_rows(t, own.start, own.count)};
    sum.others = tensor_new(device, (comm->size - 1) * own.count, t.cols, t.dtype, CATEGORY_WORKSPACE);
    sum.delivery = start_blocks(comm, device, t, owned, 0, largest_share(comm, owned), sum.others);
    return sum;
}

void comm_finish_sum_rows(const struct comm *comm, struct device *device, struct row_sum *sum)
{
    comm_wait(comm, device, &sum->delivery);
    if (sum->mine.rows > 0) {
        struct tensor wide = wide_rows(device, sum->mine, sum->mine.rows);
        add_in_order(comm, device, sum->mine, sum->others, wide);
        tensor_free(device, &wide);
    }
    tensor_free(device, &sum->others);
}

void comm_sum(const struct comm *comm, struct device *device, struct tensor t)
{
    struct row_range *owned = calloc(comm->size, sizeof *owned);
    size_t count = tensor_count(t);
    for (size_t r = 0; r < comm->size; r++)
        owned[r] = comm_share(count, comm->size, r);
    t = tensor_reshape(t, count, 1);
    comm_sum_rows(comm, device, t, owned);
    comm_gather_rows(comm, device, t, owned);
    free(owned);
}

// A ring: every other rank's rows pass once as partial sums and, for an all-reduce, once more as sums.
static struct traffic reduce_traffic(const struct comm *comm, struct tensor t, const struct row_range *owned,
                                     bool all)
{
    size_t times = all ? 2 : 1;
    double bytes = (double)(times * (t.rows - owned[comm->rank].count) * row_bytes(t));
    return (struct traffic){bytes, bytes, times * (comm->size - 1)};
}

struct delivery comm_start_reduce_rows(const struct comm *comm, struct device *device, struct tensor t,
                                       const struct row_range *owned, bool all)
{
    if (comm->size <= 1 || failed(device))
        return (struct delivery){0};
    for (size_t r = 0, end = 0; r < comm->size; end += owned[r++].count)
        CHECK(owned[r].start == end);
    struct traffic traffic = reduce_traffic(comm, t, owned, all);
    if (device->ops->dataless)
        return meet(comm, device, traffic);
    count(device, traffic);
    return (struct delivery){.going = true, .started = comm->ops->start_reduce(comm, device, t, owned, all)};
}
