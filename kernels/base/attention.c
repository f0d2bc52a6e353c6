// The fronts of attention: the pairs that the causal mask leaves are its FLOPs; queries are taken in parts, and
// those that see all keys apart from those before them; the backward's workspace is taken here.
#include "kernels/base/front.h"

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
    CHECK(k.rows >= attention_keys(s) * s.batch && k.cols == s.kv_heads * s.head_dim && same_shape(k, v));
}

static double attention_bytes(struct attention_shape s, struct tensor q, struct tensor k)
{
    return 2 * bytes(q) + 2.0 * attention_keys(s) * s.batch * k.cols * dtype_bytes(k.dtype);
}

static struct range attention(enum work work, const char *name, struct attention_shape s)
{
    struct range range = operation(work, name);
    range.queries = s.queries, range.keys = attention_keys(s), range.head_dim = s.head_dim;
    return range;
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    double pairs = causal_pairs(shape, 0, attention_keys(shape)) * shape.batch * shape.heads;
    if (begin(device, attention(WORK_ATTENTION_FORWARD, "attention_forward", shape), 4 * pairs * shape.head_dim,
              attention_bytes(shape, q, k) + bytes(logsumexp))) {
        device->ops->attention_forward(device, shape, o, logsumexp, q, k, v);
        range_pop(device);
    }
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               bool accumulate, const struct key_segment *segments, size_t segment_count,
                               struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                               struct tensor k, struct tensor v)
{
    double heads = (double)shape.batch * shape.heads * shape.head_dim;
    double flops = 6 * causal_pairs(shape, 0, attention_keys(shape)) * heads;
    double moved = attention_bytes(shape, q, k) + (accumulate ? 3 : 2) * bytes(q) + bytes(logsumexp);
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        flops += 4 * causal_pairs(shape, segment->start, segment->count) * heads;
        moved += 2 * (bytes(segment->grad_k) + bytes(segment->grad_v));
    }
    const struct device_rules *rules = device->ops->rules;
    size_t wanted = rules->attention_backward_workspace(device, shape, segments, segment_count);
    struct tensor workspace = tensor_new(device, 1, wanted / sizeof(double) + 1, DTYPE_F64, CATEGORY_WORKSPACE);
    if (failed(device)) {
        return;
    }
    if (rules->attention_backward_glue) {
        device->counters.glue_bytes += rules->attention_backward_glue(device, shape, segments, segment_count);
    }
    if (begin(device, attention(WORK_ATTENTION_BACKWARD, "attention_backward", shape), flops, moved)) {
        device->ops->attention_backward(device, shape, grad_q, accumulate, segments, segment_count, grad_o, o,
                                        logsumexp, q, k, v, workspace);
        range_pop(device);
    }
    tensor_free(device, &workspace);
}

// The keys and values that the queries see cannot be taken in parts.
static bool holds_keys(struct device *device, struct attention_shape shape, struct tensor k)
{
    return holds(device, tensor_rows(k, 0, attention_keys(shape) * shape.batch), "attention");
}

// The queries from `first` on that are taken together: as many as the device takes, at least one, all of one kind.
static struct attention_shape part_from(const struct device *device, struct attention_shape shape, size_t first)
{
    size_t keys = attention_keys(shape),
           most = part_rows(device, shape.queries, shape.batch * shape.heads * shape.head_dim);
    size_t masked = keys > shape.start + 1 ? keys - shape.start : 0; // that do not see all keys, and one more
    struct attention_shape part = shape;
    part.start += first;
    part.queries = smaller(larger(most, 1), shape.queries - first);
    if (first < masked) {
        part.queries = smaller(part.queries, masked - first);
    }
    part.keys = smaller(keys, part.start + part.queries);
    return part;
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
    struct attention_shape part;
    for (size_t first = 0; first < shape.queries && !failed(device); first += part.queries) {
        part = part_from(device, shape, first);
        size_t row = first * shape.batch, rows = part.queries * shape.batch;
        attention_forward(device, part, tensor_rows(o, row, rows), tensor_rows(statistics, row, rows),
                          tensor_rows(q, row, rows), k, v);
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
                           bool accumulate, const struct key_segment *segments, size_t segment_count,
                           struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                           struct tensor k, struct tensor v)
{
    if (failed(device)) {
        return;
    }
    check_attention(shape, q, k, v);
    CHECK(same_shape(grad_q, q) && same_shape(grad_o, q) && same_shape(o, q));
    CHECK(tensor_count(logsumexp) == q.rows * shape.heads);
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        CHECK(segment->start + segment->count <= attention_keys(shape));
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
    struct attention_shape part;
    for (size_t first = 0; first < shape.queries && !failed(device); first += part.queries) {
        part = part_from(device, shape, first);
        size_t row = first * shape.batch, rows = part.queries * shape.batch;
        size_t seen_count = segments_before(seen, segments, segment_count, part.keys, shape.batch);
        attention_backward(device, part, tensor_rows(grad_q, row, rows), accumulate, seen, seen_count,
                           tensor_rows(grad_o, row, rows), tensor_rows(o, row, rows),
                           tensor_rows(statistics, row, rows), tensor_rows(q, row, rows), k, v);
    }
    free(seen);
}

void op_attention_merge(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                        struct tensor other_logsumexp)
{
    if (failed(device)) {
        return;
    }
    CHECK(same_shape(o, other_o) && tensor_count(logsumexp) == tensor_count(other_logsumexp));
    CHECK(tensor_count(o) == 0 || tensor_count(o) % tensor_count(logsumexp) == 0);
    double moved = 3 * bytes(o) + 3 * bytes(logsumexp);
    if (begin(device, operation(WORK_ATTENTION_FORWARD, "attention_merge"), 0, moved)) {
        device->ops->attention_merge(device, o, logsumexp, other_o, other_logsumexp);
        range_pop(device);
    }
}
