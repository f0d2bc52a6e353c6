#include "kernels/base/ops.h"
#include "kernels/base/observer.h"

static bool failed(const struct device *device)
{
    return device->status.code != STATUS_OK;
}

// Whether there is anything to write, read or compute.
static bool holds_data(const struct device *device)
{
    return !failed(device) && !device->ops->dataless;
}

// One operation: its FLOPs, and its operands' bytes, those of updated tensors twice.
static void count(struct device *device, double flops, double bytes)
{
    const struct roofline *roof = &device->roofline;
    if (roof->bytes_per_s > 0) {
        double compute_s = flops / roof->flops_per_s, memory_s = bytes / roof->bytes_per_s;
        double seconds = (compute_s > memory_s ? compute_s : memory_s) + roof->launch_s;
        device->counters.estimate_s += seconds;
        device->counters.clock_s[QUEUE_COMPUTE] += seconds;
    }
    device->counters.flops += flops;
    device->counters.bytes_moved += bytes;
    device->counters.launches++;
}

static struct range operation(enum work work, const char *name)
{
    return (struct range){.level = RANGE_OPERATION, .name = name, .work = work};
}

// Counts an operation and begins its range. True: the device is to be asked for it, and then the range to be
// popped. False: there is no data, and the operation is over.
static bool begin(struct device *device, struct range range, double flops, double bytes)
{
    count(device, flops, bytes);
    range_push(device, range);
    if (device->ops->dataless) {
        range_pop(device);
        return false;
    }
    return true;
}

// What an operation reads or writes is on the device.
static double bytes(struct tensor t)
{
    CHECK(t.place == PLACE_DEVICE);
    return t.data ? (double)tensor_bytes(t) : 0;
}
static bool same_shape(struct tensor a, struct tensor b)
{
    return a.rows == b.rows && a.cols == b.cols;
}
static bool is_vector(struct tensor t, size_t length)
{
    return t.rows == 1 && t.cols == length;
}

// Random numbers belong to set-up: they are not part of a step's cost.
void op_random_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                      enum dtype rounding)
{
    if (holds_data(device)) {
        device->ops->random_normal(device, t, random, mean, deviation, rounding);
    }
}

void op_zero(struct device *device, struct tensor t)
{
    if (failed(device)) {
        return;
    }
    if (begin(device, operation(WORK_COPY, "zero"), 0, bytes(t))) {
        device->ops->zero(device, t);
        range_pop(device);
    }
}

void op_copy(struct device *device, struct tensor dst, struct tensor src)
{
    if (failed(device)) {
        return;
    }
    CHECK(tensor_count(dst) == tensor_count(src));
    if (begin(device, operation(WORK_COPY, "copy"), 0, bytes(dst) + bytes(src))) {
        device->ops->copy(device, dst, src);
        range_pop(device);
    }
}

void op_scale(struct device *device, struct tensor t, double factor)
{
    if (failed(device)) {
        return;
    }
    if (begin(device, operation(WORK_COPY, "scale"), 0, 2 * bytes(t))) {
        device->ops->scale(device, t, factor);
        range_pop(device);
    }
}

// Parts are of a multiple of this many rows, where one of them fits: tiles and blocks stay whole.
#define PART_ROWS 2048

// Rows of a part of tensors of up to `cols` columns, of which the longest has so many rows.
static size_t part_rows(const struct device *device, size_t rows, size_t cols)
{
    size_t most = device->ops->elements_max;
    if (most == 0 || rows <= most / cols) {
        return rows;
    }
    most /= cols;
    return most < PART_ROWS ? most : most / PART_ROWS * PART_ROWS;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}
static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// False and a status if the tensor, which cannot be taken in parts, is too long.
static bool holds(struct device *device, struct tensor t, const char *what)
{
    size_t most = device->ops->elements_max;
    return most == 0 || tensor_count(t) <= most ||
           status_set(&device->status, STATUS_UNSUPPORTED,
                      "%s on device %s takes matrices of at most %zu elements, not of %zu x %zu", what,
                      device->ops->name, most, t.rows, t.cols);
}

static void gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                 struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    if (!holds(device, a, "gemm") || !holds(device, b, "gemm") || !holds(device, c, "gemm")) {
        return;
    }
    struct range range = operation(WORK_GEMM, "gemm");
    range.m = c.rows, range.n = c.cols, range.k = transpose_a ? a.rows : a.cols;
    if (begin(device, range, 2.0 * c.rows * c.cols * range.k,
              bytes(a) + bytes(b) + bytes(c) * (beta != 0 ? 2 : 1))) {
        device->ops->gemm(device, c, a, transpose_a, b, transpose_b, alpha, beta);
        range_pop(device);
    }
}

// In parts of the rows of a, which are those of c or, where a is transposed, what is summed over.
void op_gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a, struct tensor b,
             enum transpose transpose_b, double alpha, double beta)
{
    if (failed(device)) {
        return;
    }
    size_t m = transpose_a ? a.cols : a.rows, k = transpose_a ? a.rows : a.cols;
    size_t kb = transpose_b ? b.cols : b.rows, n = transpose_b ? b.rows : b.cols;
    CHECK(k == kb && c.rows == m && c.cols == n);
    size_t most = part_rows(device, a.rows, larger(a.cols, n));
    if (most == a.rows || most == 0 || (transpose_a && transpose_b)) {
        gemm(device, c, a, transpose_a, b, transpose_b, alpha, beta);
        return;
    }
    for (size_t row = 0; row < a.rows && !failed(device); row += most) {
        size_t rows = smaller(most, a.rows - row);
        struct tensor a_part = tensor_rows(a, row, rows);
        if (transpose_a) {
            gemm(device, c, a_part, transpose_a, tensor_rows(b, row, rows), transpose_b, alpha,
                 row == 0 ? beta : 1);
        } else {
            gemm(device, tensor_rows(c, row, rows), a_part, transpose_a, b, transpose_b, alpha, beta);
        }
    }
}

void op_bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    if (failed(device)) {
        return;
    }
    CHECK(is_vector(bias, y.cols));
    if (begin(device, operation(WORK_BIAS, "bias_forward"), 0, 2 * bytes(y) + bytes(bias))) {
        device->ops->bias_forward(device, y, bias);
        range_pop(device);
    }
}

void op_bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    if (failed(device)) {
        return;
    }
    CHECK(is_vector(grad_bias, grad_y.cols));
    if (begin(device, operation(WORK_BIAS, "bias_backward"), 0, bytes(grad_y) + 2 * bytes(grad_bias))) {
        device->ops->bias_backward(device, grad_bias, grad_y);
        range_pop(device);
    }
}

void op_rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                        struct tensor gain, double epsilon)
{
    if (failed(device)) {
        return;
    }
    CHECK(same_shape(x, y) && is_vector(gain, x.cols));
    CHECK(!rstd.data || tensor_count(rstd) == x.rows);
    if (begin(device, operation(WORK_NORM, "rmsnorm_forward"), 0,
              bytes(x) + bytes(y) + bytes(gain) + bytes(rstd))) {
        device->ops->rmsnorm_forward(device, y, rstd, x, gain, epsilon);
        range_pop(device);
    }
}

void op_rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                         struct tensor grad_y, struct tensor x, struct tensor gain, struct tensor rstd)
{
    if (failed(device)) {
        return;
    }
    CHECK(same_shape(grad_x, x) && same_shape(grad_y, x) && is_vector(gain, x.cols));
    CHECK(tensor_count(rstd) == x.rows && (!grad_gain.data || is_vector(grad_gain, x.cols)));
    CHECK(!accumulate || (grad_x.data != x.data && grad_x.data != grad_y.data));
    if (begin(device, operation(WORK_NORM, "rmsnorm_backward"), 0,
              bytes(grad_x) * (accumulate ? 2 : 1) + bytes(grad_y) + bytes(x) + bytes(gain) + bytes(rstd) +
                  2 * bytes(grad_gain))) {
        device->ops->rmsnorm_backward(device, grad_x, accumulate, grad_gain, grad_y, x, gain, rstd);
        range_pop(device);
    }
}

void op_rope(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
             int direction)
{
    if (failed(device)) {
        return;
    }
    CHECK(x.cols % (2 * frequencies.cols) == 0 && x.rows % batch == 0 && (direction == 1 || direction == -1));
    if (begin(device, operation(WORK_ROPE, "rope"), 0, 2 * bytes(x))) {
        device->ops->rope(device, x, frequencies, start, batch, direction);
        range_pop(device);
    }
}

// Keys of [first, first + keys) seen by the queries at positions below `end`, together.
static double keys_seen(size_t end, size_t first, size_t keys)
{
    double n = end > first ? end - first : 0, k = keys;
    return n < k ? n * (n + 1) / 2 : k * (k + 1) / 2 + k * (n - k);
}

// Pairs (query, key) that the causal mask leaves, over keys [first, first + keys) alone.
static double causal_pairs(struct attention_shape s, size_t first, size_t keys)
{
    return keys_seen(s.start + s.queries, first, keys) - keys_seen(s.start, first, keys);
}

static void check_attention(struct attention_shape s, struct tensor q, struct tensor k, struct tensor v)
{
    CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0);
    CHECK(q.rows == s.queries * s.batch && q.cols == s.heads * s.head_dim);
    CHECK(k.rows >= (s.start + s.queries) * s.batch && k.cols == s.kv_heads * s.head_dim && same_shape(k, v));
}

static double attention_bytes(struct attention_shape s, struct tensor q, struct tensor k)
{
    return 2 * bytes(q) + 2.0 * (s.start + s.queries) * s.batch * k.cols * dtype_bytes(k.dtype);
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    double pairs = causal_pairs(shape, 0, shape.start + shape.queries) * shape.batch * shape.heads;
    if (begin(device, operation(WORK_ATTENTION_FORWARD, "attention_forward"), 4 * pairs * shape.head_dim,
              attention_bytes(shape, q, k) + bytes(logsumexp))) {
        device->ops->attention_forward(device, shape, o, logsumexp, q, k, v);
        range_pop(device);
    }
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                               struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                               struct tensor v)
{
    double heads = (double)shape.batch * shape.heads * shape.head_dim;
    double flops = 6 * causal_pairs(shape, 0, shape.start + shape.queries) * heads;
    double moved = attention_bytes(shape, q, k) + 2 * bytes(q) + bytes(logsumexp);
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        flops += 4 * causal_pairs(shape, segment->start, segment->count) * heads;
        moved += 2 * (bytes(segment->grad_k) + bytes(segment->grad_v));
    }
    size_t wanted = device->ops->attention_backward_workspace(device, shape, segments, segment_count);
    struct tensor workspace = tensor_new(device, 1, wanted / sizeof(double) + 1, DTYPE_F64, CATEGORY_WORKSPACE);
    if (failed(device)) {
        return;
    }
    if (device->ops->attention_backward_glue) {
        device->counters.glue_bytes += device->ops->attention_backward_glue(device, shape, segments, segment_count);
    }
    if (begin(device, operation(WORK_ATTENTION_BACKWARD, "attention_backward"), flops, moved)) {
        device->ops->attention_backward(device, shape, grad_q, segments, segment_count, grad_o, o, logsumexp, q, k,
                                        v, workspace);
        range_pop(device);
    }
    tensor_free(device, &workspace);
}

// The keys and values that the queries see cannot be taken in parts.
static bool holds_keys(struct device *device, struct attention_shape shape, struct tensor k)
{
    return holds(device, tensor_rows(k, 0, (shape.start + shape.queries) * shape.batch), "attention");
}

// Queries of a part, whose rows are whole: at least one.
static size_t part_queries(const struct device *device, struct attention_shape shape)
{
    size_t most = part_rows(device, shape.queries, shape.batch * shape.heads * shape.head_dim);
    return larger(most, 1);
}

// Queries [first, first + count) of the shape. They see the keys up to their own.
static struct attention_shape shape_part(struct attention_shape shape, size_t first, size_t count)
{
    shape.start += first;
    shape.queries = count;
    return shape;
}

void op_attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                          struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    if (failed(device)) {
        return;
    }
    check_attention(shape, q, k, v);
    CHECK(same_shape(o, q) && tensor_count(logsumexp) == q.rows * shape.heads);
    if (!holds_keys(device, shape, k)) {
        return;
    }
    struct tensor statistics = tensor_reshape(logsumexp, q.rows, shape.heads);
    size_t most = part_queries(device, shape);
    for (size_t first = 0; first < shape.queries && !failed(device); first += most) {
        size_t queries = smaller(most, shape.queries - first), row = first * shape.batch,
               rows = queries * shape.batch;
        attention_forward(device, shape_part(shape, first, queries), tensor_rows(o, row, rows),
                          tensor_rows(statistics, row, rows), tensor_rows(q, row, rows), k, v);
    }
}

// The segments as far as the keys before `end` go, into `to`; how many those are.
static size_t segments_before(struct key_segment *to, const struct key_segment *from, size_t segment_count,
                              size_t end, size_t batch)
{
    size_t kept = 0;
    for (; kept < segment_count && from[kept].start < end; kept++) {
        const struct key_segment *segment = &from[kept];
        size_t keys = smaller(segment->count, end - segment->start);
        to[kept] = (struct key_segment){segment->start, keys, tensor_rows(segment->grad_k, 0, keys * batch),
                                        tensor_rows(segment->grad_v, 0, keys * batch)};
    }
    return kept;
}

void op_attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                           const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                           struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                           struct tensor v)
{
    if (failed(device)) {
        return;
    }
    check_attention(shape, q, k, v);
    CHECK(same_shape(grad_q, q) && same_shape(grad_o, q) && same_shape(o, q));
    CHECK(tensor_count(logsumexp) == q.rows * shape.heads);
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        CHECK(segment->start + segment->count <= shape.start + shape.queries);
        CHECK(i == 0 || segments[i - 1].start + segments[i - 1].count <= segment->start);
        CHECK(segment->grad_k.rows == segment->count * shape.batch && same_shape(segment->grad_k, segment->grad_v));
        CHECK(segment->grad_k.cols == k.cols);
    }
    if (!holds_keys(device, shape, k)) {
        return;
    }
    struct key_segment *seen = calloc(segment_count + 1, sizeof *seen);
    CHECK(seen);
    struct tensor statistics = tensor_reshape(logsumexp, q.rows, shape.heads);
    size_t most = part_queries(device, shape);
    for (size_t first = 0; first < shape.queries && !failed(device); first += most) {
        size_t queries = smaller(most, shape.queries - first), row = first * shape.batch,
               rows = queries * shape.batch;
        struct attention_shape part = shape_part(shape, first, queries);
        size_t seen_count = segments_before(seen, segments, segment_count, part.start + queries, shape.batch);
        attention_backward(device, part, tensor_rows(grad_q, row, rows), seen, seen_count,
                           tensor_rows(grad_o, row, rows), tensor_rows(o, row, rows),
                           tensor_rows(statistics, row, rows), tensor_rows(q, row, rows), k, v);
    }
    free(seen);
}

void op_swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    if (failed(device)) {
        return;
    }
    CHECK(same_shape(y, gate) && same_shape(y, up));
    if (begin(device, operation(WORK_SWIGLU, "swiglu_forward"), 0, 3 * bytes(y))) {
        device->ops->swiglu_forward(device, y, gate, up);
        range_pop(device);
    }
}

void op_swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    if (failed(device)) {
        return;
    }
    CHECK(same_shape(grad_y, gate) && same_shape(grad_y, up));
    if (begin(device, operation(WORK_SWIGLU, "swiglu_backward"), 0, 6 * bytes(grad_y))) {
        device->ops->swiglu_backward(device, gate, up, grad_y);
        range_pop(device);
    }
}

void op_embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    if (failed(device)) {
        return;
    }
    CHECK(y.rows == tensor_count(ids) && y.cols == table.cols);
    if (begin(device, operation(WORK_EMBEDDING, "embedding_forward"), 0, 2 * bytes(y) + bytes(ids))) {
        device->ops->embedding_forward(device, y, table, ids);
        range_pop(device);
    }
}

void op_embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y, struct tensor ids)
{
    if (failed(device)) {
        return;
    }
    CHECK(grad_y.rows == tensor_count(ids) && grad_y.cols == grad_table.cols);
    if (begin(device, operation(WORK_EMBEDDING, "embedding_backward"), 0, 3 * bytes(grad_y) + bytes(ids))) {
        device->ops->embedding_backward(device, grad_table, grad_y, ids);
        range_pop(device);
    }
}

void op_cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                      double loss_weight, double grad_weight)
{
    if (failed(device)) {
        return;
    }
    CHECK(logits.rows == tensor_count(targets) && tensor_count(loss) == 1 && loss.dtype == DTYPE_F64);
    if (begin(device, operation(WORK_HEAD, "cross_entropy"), 0, 2 * bytes(logits) + bytes(targets))) {
        device->ops->cross_entropy(device, logits, targets, loss, loss_weight, grad_weight);
        range_pop(device);
    }
}

static bool is_statistic(const struct device *device, struct tensor t, size_t rows)
{
    return t.rows == rows && t.cols == 1 && t.dtype == dtype_statistic(device->ops->dtype);
}

void op_log_prob(struct device *device, struct tensor log_prob, struct tensor logsumexp, struct tensor logits,
                 struct tensor targets)
{
    if (failed(device)) {
        return;
    }
    CHECK(logits.rows == tensor_count(targets) && is_statistic(device, log_prob, logits.rows) &&
          is_statistic(device, logsumexp, logits.rows));
    if (begin(device, operation(WORK_HEAD, "log_prob"), 0,
              bytes(logits) + bytes(targets) + bytes(log_prob) + bytes(logsumexp))) {
        device->ops->log_prob(device, log_prob, logsumexp, logits, targets);
        range_pop(device);
    }
}

void op_objective_rows(struct device *device, enum row_objective objective, struct tensor grad, struct tensor loss,
                       struct tensor log_prob, struct tensor weights, struct tensor targets, double loss_weight,
                       double grad_weight)
{
    if (failed(device)) {
        return;
    }
    size_t rows = tensor_count(targets);
    CHECK(is_statistic(device, grad, rows) && is_statistic(device, log_prob, rows));
    CHECK(!weights.data || is_statistic(device, weights, rows));
    CHECK(tensor_count(loss) == 1 && loss.dtype == DTYPE_F64);
    if (begin(device, operation(WORK_HEAD, "objective_rows"), 0,
              bytes(log_prob) + bytes(weights) + bytes(targets) + bytes(grad))) {
        device->ops->objective_rows(device, objective, grad, loss, log_prob, weights, targets, loss_weight,
                                    grad_weight);
        range_pop(device);
    }
}

void op_log_prob_backward(struct device *device, struct tensor logits, struct tensor logsumexp,
                          struct tensor targets, struct tensor grad)
{
    if (failed(device)) {
        return;
    }
    CHECK(logits.rows == tensor_count(targets) && is_statistic(device, logsumexp, logits.rows) &&
          is_statistic(device, grad, logits.rows));
    if (begin(device, operation(WORK_HEAD, "log_prob_backward"), 0,
              2 * bytes(logits) + bytes(logsumexp) + bytes(targets) + bytes(grad))) {
        device->ops->log_prob_backward(device, logits, logsumexp, targets, grad);
        range_pop(device);
    }
}

void op_adamw(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
              double rate, double beta1, double beta2, double epsilon, double decay, size_t t)
{
    if (failed(device)) {
        return;
    }
    CHECK(same_shape(w, g) && same_shape(w, m) && same_shape(w, v) && t > 0);
    if (begin(device, operation(WORK_OPTIMIZER, "adamw"), 0, 2 * (bytes(w) + bytes(m) + bytes(v)) + bytes(g))) {
        device->ops->adamw(device, w, g, m, v, rate, beta1, beta2, epsilon, decay, t);
        range_pop(device);
    }
}
