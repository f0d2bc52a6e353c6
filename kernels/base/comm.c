#include "kernels/base/comm.h"

static void nothing(const struct comm *comm, const struct message *sends, size_t send_count,
                    const struct message *receives, size_t receive_count)
{
    (void)comm, (void)sends, (void)send_count, (void)receives, (void)receive_count;
}

static const struct comm_ops self = {.name = "self", .exchange = nothing};
const struct comm comm_self = {.ops = &self, .size = 1, .stride = 1};
static const struct comm_ops plan = {.name = "plan", .exchange = nothing};

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

static void exchange(const struct comm *comm, struct device *device, const struct message *sends, size_t send_count,
                     const struct message *receives, size_t receive_count)
{
    if (device->status.code != STATUS_OK) {
        return;
    }
    device->counters.sent_bytes += total_bytes(comm, sends, send_count);
    device->counters.received_bytes += total_bytes(comm, receives, receive_count);
    device->counters.messages += send_count;
    if (!device->ops->dataless) {
        if (device->ops->synchronize) {
            device->ops->synchronize(device);
        }
        comm->ops->exchange(comm, sends, send_count, receives, receive_count);
    }
}

void comm_send(const struct comm *comm, struct device *device, size_t peer, struct tensor t)
{
    exchange(comm, device, &(struct message){peer, t}, 1, NULL, 0);
}

void comm_receive(const struct comm *comm, struct device *device, size_t peer, struct tensor t)
{
    exchange(comm, device, NULL, 0, &(struct message){peer, t}, 1);
}

// Messages to or from every other rank, as they come up.
struct post {
    struct message *items;
    size_t count;
};

static struct post post_open(const struct comm *comm)
{
    struct post post = {calloc(comm->size, sizeof *post.items), 0};
    CHECK(post.items);
    return post;
}

static void post_add(struct post *post, size_t peer, struct tensor t)
{
    if (t.rows > 0) {
        post->items[post->count++] = (struct message){peer, t};
    }
}

static void post_exchange(const struct comm *comm, struct device *device, struct post *sends, struct post *receives)
{
    exchange(comm, device, sends->items, sends->count, receives->items, receives->count);
    free(sends->items);
    free(receives->items);
}

void comm_gather_rows(const struct comm *comm, struct device *device, struct tensor t,
                      const struct row_range *owned)
{
    struct post sends = post_open(comm), receives = post_open(comm);
    struct row_range own = owned[comm->rank];
    for (size_t peer = 0; peer < comm->size; peer++) {
        if (peer != comm->rank) {
            post_add(&sends, peer, tensor_rows(t, own.start, own.count));
            post_add(&receives, peer, tensor_rows(t, owned[peer].start, owned[peer].count));
        }
    }
    post_exchange(comm, device, &sends, &receives);
}

// Of a rank's rows those from `first` on, at most `most`.
static struct tensor block_of(struct tensor t, struct row_range rows, size_t first, size_t most)
{
    size_t left = rows.count > first ? rows.count - first : 0;
    return tensor_rows(t, rows.start + (left ? first : 0), left < most ? left : most);
}

// mine = the sum of all ranks' parts, in their order. others: of the ranks below and above, one after another.
static void add_in_order(const struct comm *comm, struct device *device, struct tensor mine, struct tensor others,
                         struct tensor wide)
{
    struct tensor sum = comm->rank == 0 ? mine : tensor_rows(others, 0, mine.rows);
    if (wide.data) {
        wide = tensor_rows(wide, 0, mine.rows);
        op_copy(device, wide, sum);
        sum = wide;
    }
    for (size_t r = 1; r < comm->size; r++) {
        size_t other = r < comm->rank ? r : r - 1;
        op_accumulate(device, sum, r == comm->rank ? mine : tensor_rows(others, other * mine.rows, mine.rows));
    }
    if (sum.data != mine.data) {
        op_copy(device, mine, sum);
    }
}

void comm_sum_rows(const struct comm *comm, struct device *device, struct tensor t, const struct row_range *owned)
{
    if (comm->size == 1) {
        return;
    }
    size_t own = owned[comm->rank].count, largest = 0, row_bytes = t.cols * dtype_bytes(t.dtype);
    for (size_t r = 0; r < comm->size; r++) {
        largest = owned[r].count > largest ? owned[r].count : largest;
    }
    // Of every rank's rows as many as find room here, so that all take as many turns.
    bool narrow = t.dtype == DTYPE_BF16;
    size_t most = COMM_SCRATCH_BYTES / ((comm->size - 1 + (narrow ? 2 : 0)) * row_bytes);
    most = most == 0 ? 1 : most < largest ? most : largest;
    size_t block = own < most ? own : most;
    struct tensor others = tensor_new(device, (comm->size - 1) * block, t.cols, t.dtype, CATEGORY_WORKSPACE);
    struct tensor wide = narrow ? tensor_new(device, block, t.cols, DTYPE_F32, CATEGORY_WORKSPACE) : tensor_none();
    for (size_t first = 0; first < largest; first += most) {
        struct post sends = post_open(comm), receives = post_open(comm);
        struct tensor mine = block_of(t, owned[comm->rank], first, most);
        for (size_t peer = 0, r = 0; peer < comm->size; peer++) {
            if (peer != comm->rank) {
                post_add(&sends, peer, block_of(t, owned[peer], first, most));
                post_add(&receives, peer, tensor_rows(others, r++ * mine.rows, mine.rows));
            }
        }
        post_exchange(comm, device, &sends, &receives);
        if (mine.rows > 0) {
            add_in_order(comm, device, mine, others, wide);
        }
    }
    tensor_free(device, &wide);
    tensor_free(device, &others);
}

void comm_sum(const struct comm *comm, struct device *device, struct tensor t)
{
    struct row_range *owned = calloc(comm->size, sizeof *owned);
    size_t count = tensor_count(t);
    CHECK(owned);
    for (size_t r = 0; r < comm->size; r++) {
        owned[r] = comm_share(count, comm->size, r);
    }
    t = tensor_reshape(t, count, 1);
    comm_sum_rows(comm, device, t, owned);
    comm_gather_rows(comm, device, t, owned);
    free(owned);
}
