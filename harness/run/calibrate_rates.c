// What a step comes back to late, weights, their gradients, keys and values, is taken in turn from as many sets as
// exceed the caches; what the operation before has just written stays the same. A sample is a batch of runs that is
// long enough for the clock, and a rate that of the median sample.
#include "harness/run/calibrate_rates.h"
#include "kernels/base/clock.h"
#include "kernels/base/ops.h"
#include "kernels/base/timer.h"
#include <math.h>
#include <string.h>

#define SETS_MAX    24
#define SETS_BYTES  ((size_t)64 << 20)
#define TENSORS     10
#define SAMPLES_MIN 3
#define SAMPLES_MAX 25
#define SAMPLE_S    2e-4
#define COLS        256 // of what is worked on row by row
#define HEADS       4
#define KV_HEADS    2
#define CARD_SCALE  8   // a card's shapes are so much larger in every dimension
#define FLOPS_MAX   6e9 // of a point on the CPU in a minute for all; beyond it the rate is that of its neighbour

// One run's operands.
struct operands {
    struct device *device;
    struct tensor t[TENSORS];
    struct attention_shape shape;
    struct key_segment segment;
};

struct probe {
    const char *operation;
    size_t dimensions;
    const size_t *axes[RATE_DIMENSIONS]; // ending in 0
    void (*open)(struct operands *o, const size_t *at);
    void (*run)(struct operands *o);
    unsigned late; // bits: the tensors that a step comes back to late
};

// --- operands

static void add(struct operands *o, size_t i, size_t rows, size_t cols, enum dtype dtype)
{
    o->t[i] = tensor_new(o->device, rows, cols, dtype, CATEGORY_WORKSPACE);
    op_random_normal(o->device, o->t[i], random_named(i, "rates"), 0, 1, dtype);
}

static enum dtype dtype_of(const struct operands *o)
{
    return o->device->ops->dtype;
}

static enum dtype sums_of(const struct operands *o)
{
    return dtype_accumulator(dtype_of(o));
}

static void add_ids(struct operands *o, size_t i, size_t rows)
{
    double *ids = malloc(rows * sizeof *ids);
    CHECK(ids);
    for (size_t r = 0; r < rows; r++)
        ids[r] = (double)(r * 7 % COLS);
    o->t[i] = tensor_new(o->device, rows, 1, DTYPE_I32, CATEGORY_WORKSPACE);
    tensor_write(o->device, o->t[i], ids);
    free(ids);
}

static void open_gemm(struct operands *o, const size_t *at, bool transpose_a, bool transpose_b)
{
    size_t m = at[0], n = at[1], k = at[2];
    add(o, 0, m, n, transpose_a ? sums_of(o) : dtype_of(o));
    add(o, 1, transpose_a ? k : m, transpose_a ? m : k, dtype_of(o));
    add(o, 2, transpose_b ? n : k, transpose_b ? k : n, dtype_of(o));
}
static void open_nt(struct operands *o, const size_t *at)
{
    open_gemm(o, at, false, true);
}
static void open_nn(struct operands *o, const size_t *at)
{
    open_gemm(o, at, false, false);
}
static void open_tn(struct operands *o, const size_t *at)
{
    open_gemm(o, at, true, false);
}
static void run_nt(struct operands *o)
{
    op_gemm(o->device, o->t[0], o->t[1], NO_TRANSPOSE, o->t[2], TRANSPOSE, 1, 0);
}
static void run_nn(struct operands *o)
{
    op_gemm(o->device, o->t[0], o->t[1], NO_TRANSPOSE, o->t[2], NO_TRANSPOSE, 1, 0);
}
static void run_tn(struct operands *o) // adds to a weight's gradient
{
    op_gemm(o->device, o->t[0], o->t[1], TRANSPOSE, o->t[2], NO_TRANSPOSE, 1, 1);
}

// 0 to 4: q, k, v, o, logsumexp; 5 to 8: the gradients of o, q, k, v.
static void open_attention(struct operands *o, const size_t *at)
{
    size_t queries = at[0], keys = at[0] * at[1], dim = at[2];
    o->shape = (struct attention_shape){.queries = queries,
                                        .start = keys - queries,
                                        .batch = 1,
                                        .heads = HEADS,
                                        .kv_heads = KV_HEADS,
                                        .head_dim = dim};
    add(o, 0, queries, HEADS * dim, dtype_of(o));
    add(o, 1, keys, KV_HEADS * dim, dtype_of(o));
    add(o, 2, keys, KV_HEADS * dim, dtype_of(o));
    add(o, 3, queries, HEADS * dim, dtype_of(o));
    add(o, 4, queries, HEADS, dtype_statistic(dtype_of(o)));
    op_attention_forward(o->device, o->shape, o->t[3], o->t[4], o->t[0], o->t[1], o->t[2]);
}
static void open_attention_backward(struct operands *o, const size_t *at)
{
    open_attention(o, at);
    size_t queries = at[0], keys = at[0] * at[1], dim = at[2];
    add(o, 5, queries, HEADS * dim, dtype_of(o));
    add(o, 6, queries, HEADS * dim, dtype_of(o));
    add(o, 7, keys, KV_HEADS * dim, sums_of(o));
    add(o, 8, keys, KV_HEADS * dim, sums_of(o));
    o->segment = (struct key_segment){0, keys, o->t[7], o->t[8]};
}
static void run_attention(struct operands *o)
{
    op_attention_forward(o->device, o->shape, o->t[3], o->t[4], o->t[0], o->t[1], o->t[2]);
}
static void run_attention_backward(struct operands *o)
{
    op_attention_backward(o->device, o->shape, o->t[6], false, &o->segment, 1, o->t[5], o->t[3], o->t[4], o->t[0],
                          o->t[1], o->t[2]);
}

// Three tensors of which two or three are moved, a vector of gains and its gradient, a statistic per row, ids, a
// loss, and a table; rows so that an operation on all three moves about at[0] bytes.
static void open_rows(struct operands *o, const size_t *at)
{
    size_t rows = at[0] / (3 * COLS * dtype_bytes(dtype_of(o))) + 1;
    for (size_t i = 0; i < 3; i++)
        add(o, i, rows, COLS, dtype_of(o));
    add(o, 3, 1, COLS, dtype_of(o));
    add(o, 4, 1, COLS, sums_of(o));
    add(o, 5, rows, 1, dtype_statistic(dtype_of(o)));
    add_ids(o, 6, rows);
    add(o, 7, 1, 1, DTYPE_F64);
    add(o, 8, COLS, COLS, dtype_of(o));
    add(o, 9, COLS, COLS, sums_of(o));
}
static void run_zero(struct operands *o)
{
    op_zero(o->device, o->t[0]);
}
static void run_copy(struct operands *o)
{
    op_copy(o->device, o->t[0], o->t[1]);
}
static void run_scale(struct operands *o)
{
    op_scale(o->device, o->t[0], 1);
}
static void run_bias_forward(struct operands *o)
{
    op_bias_forward(o->device, o->t[0], o->t[3]);
}
static void run_bias_backward(struct operands *o)
{
    op_bias_backward(o->device, o->t[4], o->t[0]);
}
static void run_rmsnorm_forward(struct operands *o)
{
    op_rmsnorm_forward(o->device, o->t[0], o->t[5], o->t[1], o->t[3], 0, 1e-5);
}
static void run_rmsnorm_backward(struct operands *o)
{
    op_rmsnorm_backward(o->device, o->t[0], true, o->t[4], o->t[1], o->t[2], o->t[3], 0, o->t[5]);
}
static void run_swiglu_forward(struct operands *o)
{
    op_swiglu_forward(o->device, o->t[0], o->t[1], o->t[2], ACTIVATION_SILU);
}
// In place: from other gradients than 0 the numbers, run after run, grow beyond what the exponential takes at its
// speed.
static void open_swiglu_backward(struct operands *o, const size_t *at)
{
    open_rows(o, at);
    op_zero(o->device, o->t[2]);
}
static void run_swiglu_backward(struct operands *o)
{
    op_swiglu_backward(o->device, o->t[0], o->t[1], o->t[2], ACTIVATION_SILU);
}
static void run_embedding_forward(struct operands *o)
{
    op_embedding_forward(o->device, o->t[0], o->t[8], o->t[6]);
}
static void run_embedding_backward(struct operands *o)
{
    op_embedding_backward(o->device, o->t[9], o->t[0], o->t[6]);
}
static void run_cross_entropy(struct operands *o)
{
    op_cross_entropy(o->device, o->t[0], o->t[6], o->t[7], 1, 1);
}

static void open_rope(struct operands *o, const size_t *at)
{
    size_t rows = at[0] / (2 * COLS * dtype_bytes(dtype_of(o))) + 1;
    add(o, 0, rows, COLS, dtype_of(o));
    add(o, 1, 1, 32, DTYPE_F64);
}
static void run_rope(struct operands *o)
{
    op_rope(o->device, o->t[0], o->t[1], 0, 1, (struct documents){0}, 1);
}

static void open_adamw(struct operands *o, const size_t *at)
{
    size_t rows = at[0] / (7 * COLS * dtype_bytes(sums_of(o))) + 1;
    add(o, 0, rows, COLS, dtype_of(o));
    for (size_t i = 1; i < 4; i++)
        add(o, i, rows, COLS, sums_of(o));
    op_zero(o->device, o->t[3]);
}
static void run_adamw(struct operands *o)
{
    const struct adam_step step = {.rate = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .t = 1};
    op_adamw(o->device, o->t[0], tensor_none(), o->t[1], o->t[2], o->t[3], &step);
}

// --- what is measured

static const size_t extents[] = {8, 32, 128, 256, 512, 1024, 2048, 0}, queries[] = {16, 64, 256, 1024, 0},
                    per_query[] = {1, 2, 4, 16, 0}, dims[] = {32, 64, 128, 0},
                    sizes[] = {8 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20, 0};

#define BIT(i) (1u << (i))
#define PROBE_GEMM(name, kind, late)                                                                               \
    {                                                                                                              \
        name, 3, {extents, extents, extents}, open_##kind, run_##kind, late                                        \
    }
#define PROBE_ATTENTION(name, kind, late)                                                                          \
    {                                                                                                              \
        name, 3, {queries, per_query, dims}, open_##kind, run_##kind, late                                         \
    }
#define PROBE_ROWS(name, kind, late)                                                                               \
    {                                                                                                              \
#name, 1, {sizes }, open_##kind, run_##name, late                                                          \
    }
static const struct probe probes[] = {
    PROBE_GEMM("gemm_nt", nt, BIT(2)),
    PROBE_GEMM("gemm_nn", nn, BIT(2)),
    PROBE_GEMM("gemm_tn", tn, BIT(0)),
    PROBE_ATTENTION("attention_forward", attention, BIT(1) | BIT(2)),
    PROBE_ATTENTION("attention_backward", attention_backward, BIT(1) | BIT(2) | BIT(7) | BIT(8)),
    PROBE_ROWS(rmsnorm_forward, rows, 0),
    PROBE_ROWS(rmsnorm_backward, rows, BIT(2)),
    PROBE_ROWS(swiglu_forward, rows, 0),
    PROBE_ROWS(swiglu_backward, swiglu_backward, 0),
    PROBE_ROWS(copy, rows, 0),
    PROBE_ROWS(zero, rows, BIT(0)),
    PROBE_ROWS(scale, rows, 0),
    PROBE_ROWS(bias_forward, rows, 0),
    PROBE_ROWS(bias_backward, rows, 0),
    PROBE_ROWS(embedding_forward, rows, 0),
    PROBE_ROWS(embedding_backward, rows, 0),
    PROBE_ROWS(cross_entropy, rows, 0),
    {"rope", 1, {sizes}, open_rope, run_rope, 0},
    {"adamw", 1, {sizes}, open_adamw, run_adamw, BIT(0) | BIT(1) | BIT(2) | BIT(3)},
};
#define PROBES (sizeof probes / sizeof *probes)

// The samples of all points, each over its point's median.
struct spread {
    size_t count, capacity;
    double *values;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double batch_s(struct operands *sets, size_t set_count, const struct probe *probe, size_t runs, size_t *turn)
{
    device_timer_start(sets->device);
    for (size_t i = 0; i < runs; i++)
        probe->run(&sets[(*turn)++ % set_count]);
    return 1e-3 * device_timer_stop_ms(sets->device) / (double)runs;
}

// Seconds of a run, the median over samples that fit into `budget_s`.
static double time_sets(struct operands *sets, size_t set_count, const struct probe *probe, double budget_s,
                        struct spread *spread)
{
    double samples[SAMPLES_MAX], start_s = clock_s();
    size_t turn = 0, count = 0;
    for (size_t i = 0; i < set_count; i++) // what is touched for the first time
        probe->run(&sets[i]);
    double first_s = batch_s(sets, set_count, probe, 1, &turn);
    size_t runs = first_s < SAMPLE_S ? (size_t)(SAMPLE_S / fmax(first_s, 1e-8)) + 1 : 1;
    do
        samples[count++] = batch_s(sets, set_count, probe, runs, &turn);
    while (count < SAMPLES_MIN || (count < SAMPLES_MAX && clock_s() - start_s < budget_s));
    qsort(samples, count, sizeof *samples, by_value);
    double median = count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
    if (spread->count + count > spread->capacity) {
        spread->capacity = 2 * spread->capacity + SAMPLES_MAX;
        spread->values = realloc(spread->values, spread->capacity * sizeof *spread->values);
        CHECK(spread->values);
    }
    for (size_t i = 0; i < count; i++)
        spread->values[spread->count++] = samples[i] / median;
    return median;
}

// The tensors of a set that are not late are those of the first.
static void share(struct operands *o, const struct operands *first, unsigned late)
{
    for (size_t i = 0; i < TENSORS; i++) {
        if (late & BIT(i))
            continue;
        tensor_free(o->device, &o->t[i]);
        o->t[i] = first->t[i];
    }
}

static void free_set(struct operands *o, unsigned own)
{
    for (size_t i = 0; i < TENSORS; i++)
        if (own & BIT(i))
            tensor_free(o->device, &o->t[i]);
}

// FLOPs, of what has none bytes, per second at one point. 0 and the device's status if it failed.
static double measure_point(struct device *device, const struct probe *probe, const size_t *at, double budget_s,
                            struct spread *spread)
{
    struct operands sets[SETS_MAX];
    size_t live = device->arena.live_bytes, count = 0;
    double start_s = clock_s();
    do {
        sets[count] = (struct operands){.device = device};
        probe->open(&sets[count], at);
        if (count++)
            share(&sets[count - 1], &sets[0], probe->late);
    } while (device->status.code == STATUS_OK && probe->late && count < SETS_MAX &&
             device->arena.live_bytes - live < SETS_BYTES && clock_s() - start_s < budget_s);
    device->counters = (struct counters){0};
    probe->run(&sets[0]);
    double flops = device->counters.flops, bytes = device->counters.bytes_moved, seconds = 0;
    if (device->status.code == STATUS_OK)
        seconds = time_sets(sets, count, probe, budget_s, spread);
    for (size_t i = 0; i < count; i++)
        free_set(&sets[i], i ? probe->late : ~0u);
    return seconds > 0 ? (flops > 0 ? flops : bytes) / seconds : 0;
}

// --- the grids

static size_t points_of(struct rate *rate, const struct probe *probe, size_t scale)
{
    size_t points = 1;
    snprintf(rate->operation, sizeof rate->operation, "%s", probe->operation);
    rate->dimensions = probe->dimensions;
    for (size_t d = 0; d < probe->dimensions; d++) {
        bool scaled = probe->axes[d] != per_query && probe->axes[d] != dims;
        for (rate->counts[d] = 0; probe->axes[d][rate->counts[d]]; rate->counts[d]++)
            rate->axes[d][rate->counts[d]] = (double)(probe->axes[d][rate->counts[d]] * (scaled ? scale : 1));
        points *= rate->counts[d];
    }
    return points;
}

// Where a point of the grid lies, and the neighbour that is smaller in its longest extent.
static size_t place_at(const struct rate *rate, size_t place, size_t at[RATE_DIMENSIONS])
{
    size_t stride = 1, neighbour = place;
    double longest = 0;
    for (size_t d = rate->dimensions, left = place; d-- > 0;) {
        size_t i = left % rate->counts[d];
        left /= rate->counts[d];
        at[d] = (size_t)rate->axes[d][i];
        if (i > 0 && rate->axes[d][i] > longest) {
            longest = rate->axes[d][i];
            neighbour = place - stride;
        }
        stride *= rate->counts[d];
    }
    return neighbour;
}

static double flops_at(const struct rate *rate, const size_t *at)
{
    if (rate->dimensions == 1)
        return 0;
    bool gemm = strncmp(rate->operation, "gemm", 4) == 0;
    double product = (double)at[0] * (double)at[1] * (double)at[2];
    return gemm ? 2 * product : 10 * HEADS * product * (double)at[0]; // attention: keys are queries times at[1]
}

bool calibrate_rates(struct rates *rates, const char *name, enum dtype dtype, double seconds, struct status *status)
{
    *rates = (struct rates){0};
    struct device *device = device_open(name, dtype, 0, status);
    if (!device)
        return false;
    size_t scale = strncmp(name, "cpu", 3) == 0 ? 1 : CARD_SCALE, all = 0;
    double flops_max = FLOPS_MAX * pow((double)scale, 3) * fmin(seconds / 60, 1);
    struct spread spread = {0};
    for (size_t p = 0; p < PROBES; p++)
        all += points_of(&rates->items[p], &probes[p], scale);
    for (size_t p = 0; p < PROBES && device->status.code == STATUS_OK; p++) {
        struct rate *rate = &rates->items[rates->count++];
        size_t points = points_of(rate, &probes[p], scale), at[RATE_DIMENSIONS] = {0};
        for (size_t i = 0; i < points && device->status.code == STATUS_OK; i++) {
            size_t neighbour = place_at(rate, i, at);
            bool measured = flops_at(rate, at) <= flops_max || neighbour == i;
            rate->values[i] = measured ? measure_point(device, &probes[p], at, seconds / (double)all, &spread)
                                       : rate->values[neighbour];
        }
    }
    if (device->status.code != STATUS_OK)
        status_set(status, device->status.code, "%s", device->status.message);
    device_close(device);
    if (spread.count) {
        qsort(spread.values, spread.count, sizeof *spread.values, by_value);
        rates->low = spread.values[spread.count / 20];
        rates->high = spread.values[spread.count - 1 - spread.count / 20];
    }
    free(spread.values);
    return status->code == STATUS_OK;
}
