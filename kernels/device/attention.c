// Fronts of attention. FLOPs count the pairs that masks leave. Queries run in parts, those that see all keys
// separate from those before them; keys run in blocks, which attention_merge combines. The backward allocates its
// workspace here.
#include "kernels/device/front.h"
#include "kernels/device/ops.h"

// Pairs with keys [first, first + keys) for all queries at positions below `end`.
static double keys_seen(size_t end, size_t first, size_t keys)
{
    double n = end > first ? end - first : 0, k = keys;
    return n < k ? n * (n + 1) / 2 : k * (k + 1) / 2 + k * (n - k);
}

// Pairs (query, key) of a sequence that the causal mask leaves over keys [first, first + keys), with every query
// moved `left` positions to the left.
static double causal_pairs(struct attention_shape s, size_t left, size_t first, size_t keys)
{
    size_t start = s.start > left ? s.start - left : 0;
    size_t end = s.start + s.queries > left ? s.start + s.queries - left : 0;
    return keys_seen(end, first, keys) - keys_seen(start, first, keys);
}

// Pairs of all sequences that the masks leave over these keys. A window removes the pairs that queries further left
// would see.
static double pairs_seen(struct attention_shape s, size_t first, size_t keys)
{
    double pairs = 0;
    if (!s.mask.documents.starts) {
        pairs = causal_pairs(s, 0, first, keys) - (s.mask.window ? causal_pairs(s, s.mask.window, first, keys) : 0);
        return pairs * s.batch;
    }
    for (size_t i = 0; i < s.queries; i++) {
        size_t end = smaller(s.start + i + 1, first + keys);
        for (size_t b = 0; b < s.batch; b++) {
            struct seen_keys seen = attention_seen_keys(&s, i, b);
            size_t from = larger(seen.own, first);
            pairs += end > from ? end - from : 0;
            from = larger(seen.first, first), seen.end = smaller(seen.end, first + keys);
            pairs += seen.end > from ? seen.end - from : 0;
        }
    }
    return pairs;
}

// The first key that any query of a sequence sees. Without a prefix it is that of the first query.
static size_t first_key_of(const struct attention_shape *s, size_t sequence)
{
    size_t first = attention_keys(*s);
    for (size_t i = 0; i < (s->mask.documents.prefixes ? s->queries : 1); i++) {
        struct seen_keys seen = attention_seen_keys(s, i, sequence);
        first = smaller(first, seen.first < seen.end ? seen.first : seen.own);
    }
    return first;
}

// Number of sequences with masks of their own.
static size_t sequences_apart(const struct attention_shape *s)
{
    return s->mask.documents.starts ? s->batch : 1;
}

static size_t first_key(const struct attention_shape *s)
{
    size_t first = attention_keys(*s);
    for (size_t b = 0; b < sequences_apart(s); b++)
        first = smaller(first, first_key_of(s, b));
    return first;
}

// Keys between prefix and documents that no query of a sequence sees.
static size_t keys_left_out(const struct attention_shape *s, size_t sequence)
{
    struct seen_keys seen = attention_seen_keys(s, 0, sequence);
    size_t keys = attention_keys(*s), end = seen.first < seen.end ? seen.end : seen.own;
    return s->mask.documents.prefixes ? smaller(seen.own, keys) - smaller(end, keys) : 0;
}

static void check_attention(struct attention_shape s, struct tensor q, struct tensor k, struct tensor v)
{
    const struct documents *of = &s.mask.documents;
    CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0 && s.cap >= 0);
    CHECK(!of->starts == !of->device_starts.data && !of->prefixes == !of->device_prefixes.data);
    check_documents(of, q.rows, s.batch);
    CHECK(q.rows == s.queries * s.batch && q.cols == s.heads * s.head_dim);
    CHECK(k.rows >= attention_keys(s) * s.batch && k.cols == s.kv_heads * s.head_dim);
    CHECK(v.rows == k.rows && v.cols == s.kv_heads * attention_value_dim(s) && v.dtype == k.dtype);
}

// Whether o, or its gradient, has a row for each of q.
static bool is_output(struct attention_shape s, struct tensor o, struct tensor q)
{
    return o.rows == q.rows && o.cols == s.heads * attention_value_dim(s) && o.dtype == q.dtype;
}

// The longer of a head's rows.
static size_t longest_head(struct attention_shape s)
{
    return larger(s.head_dim, attention_value_dim(s));
}

// FLOPs of a pair and all heads: of products with keys, and of such with values.
static double pair_flops(struct attention_shape s, size_t keys, size_t values)
{
    return 2.0 * (double)(s.heads * (keys * s.head_dim + values * attention_value_dim(s)));
}

// Keys read, summed over sequences.
static size_t keys_read(struct attention_shape s)
{
    size_t keys = 0, apart = sequences_apart(&s);
    CHECK(apart > 0);
    for (size_t b = 0; b < apart; b++)
        keys += attention_keys(s) - first_key_of(&s, b) - keys_left_out(&s, b);
    return keys * (s.batch / apart);
}

// Bytes of o.
static double output_bytes(struct attention_shape s, struct tensor q)
{
    return 1.0 * q.rows * s.heads * attention_value_dim(s) * dtype_bytes(q.dtype);
}

static double attention_bytes(struct attention_shape s, struct tensor q, struct tensor k, struct tensor v)
{
    return bytes(q) + output_bytes(s, q) + 1.0 * keys_read(s) * (k.cols + v.cols) * dtype_bytes(k.dtype) +
           bytes(s.mask.documents.device_starts) + bytes(s.mask.documents.device_prefixes);
}

static struct range attention(enum work work, const char *name, struct attention_shape s)
{
    struct range range = operation(work, name);
    range.queries = s.queries, range.keys = keys_read(s) / s.batch, range.head_dim = s.head_dim;
    return range;
}

// For operations computed in f32 because of a mask: the share of queries affected by the window; the others could
// run separately. 0 with documents, because they may begin anywhere.
static double windowed_share(struct attention_shape s)
{
    size_t keys = attention_keys(s), others = s.mask.window > s.start ? s.mask.window - s.start : 0;
    struct attention_shape late = s;
    if (s.mask.documents.starts || others >= s.queries)
        return 0;
    late.start += others, late.queries -= others, late.keys = keys;
    double all = pairs_seen(s, 0, keys);
    return all > 0 ? pairs_seen(late, 0, keys) / all : 0;
}

static double f32_share(const struct device *device, struct attention_shape shape, bool backward)
{
    const struct device_rules *rules = device->ops->rules;
    if (!rules->attention_f32_share || device->roofline.f32_flops_per_s == 0)
        return 0;
    double share = rules->attention_f32_share(device, shape, backward);
    if (!device->roofline.min)
        return share;
    struct attention_shape unmasked = shape;
    unmasked.mask = (struct attention_mask){0};
    return rules->attention_f32_share(device, unmasked, backward) == 1 ? 1 : share == 1 ? windowed_share(shape) : 0;
}

// extra: FLOPs executed beyond the counted ones, if all run in f32. done: executed FLOPs, whether or not the keys
// have a gradient.
static struct cost attention_cost(const struct device *device, struct attention_shape shape, bool backward,
                                  double flops, double extra, double moved)
{
    double share = f32_share(device, shape, backward);
    double done = backward ? pair_flops(shape, 3, 2) : pair_flops(shape, 1, 1);
    return (struct cost){.flops = flops,
                         .bytes = moved,
                         .f32_counted = share * flops,
                         .f32_done = share * (flops + extra),
                         .done = done * pairs_seen(shape, 0, attention_keys(shape)),
                         .pair_flops = done * (double)shape.batch,
                         .fill = 1,
                         .causal = attention_is_causal(shape)};
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    double flops = pairs_seen(shape, 0, attention_keys(shape)) * pair_flops(shape, 1, 1);
    struct cost cost =
        attention_cost(device, shape, false, flops, 0, attention_bytes(shape, q, k, v) + bytes(logsumexp));
    const struct device_rules *rules = device->ops->rules;
    if (rules->attention_forward_run && !device->roofline.min) {
        struct attention_run run = rules->attention_forward_run(device, shape);
        cost.fill = run.fill, cost.glue_bytes = run.glue_bytes, cost.further_launches = run.further_launches;
        device->counters.glue_bytes += run.glue_bytes;
    }
    if (begin_cost(device, attention(WORK_ATTENTION_FORWARD, "attention_forward", shape), cost)) {
        device->ops->attention_forward(device, shape, o, logsumexp, q, k, v);
        range_pop(device);
    }
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               bool accumulate, const struct key_segment *segments, size_t segment_count,
                               struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                               struct tensor k, struct tensor v)
{
    double flops = pairs_seen(shape, 0, attention_keys(shape)) * pair_flops(shape, 2, 1);
    const double of_queries = flops;
    double moved = attention_bytes(shape, q, k, v) + output_bytes(shape, q) + (accumulate ? 2 : 1) * bytes(q) +
                   bytes(logsumexp);
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        flops += pairs_seen(shape, segment->start, segment->count) * pair_flops(shape, 1, 1);
        moved += 2 * (bytes(segment->grad_k) + bytes(segment->grad_v));
    }
    const struct device_rules *rules = device->ops->rules;
    size_t wanted = rules->attention_backward_workspace(device, shape, segments, segment_count);
    struct tensor workspace = tensor_new(device, 1, wanted / sizeof(double) + 1, DTYPE_F64, CATEGORY_WORKSPACE);
    if (failed(device))
        return;
    // One pass over the queries and one over the keys, both of which compute scores and their gradients.
    struct cost cost = attention_cost(device, shape, true, flops, flops - of_queries, moved);
    if (rules->attention_backward_glue) {
        cost.glue_bytes = rules->attention_backward_glue(device, shape, segments, segment_count);
        device->counters.glue_bytes += cost.glue_bytes;
    }
    if (begin_cost(device, attention(WORK_ATTENTION_BACKWARD, "attention_backward", shape), cost)) {
        device->ops->attention_backward(device, shape, grad_q, accumulate, segments, segment_count, grad_o, o,
                                        logsumexp, q, k, v, workspace);
        range_pop(device);
    }
    tensor_free(device, &workspace);
}

// A part's mask. Drops a window longer than what the last query could see, and documents that begin before the keys
// or at the end of their prefix.
static struct attention_mask mask_of(const struct attention_shape *shape, size_t first, size_t queries)
{
    size_t row = first * shape->batch, rows = queries * shape->batch;
    struct attention_mask mask = shape->mask;
    struct documents *of = &mask.documents;
    if (mask.window >= shape->start + first + queries)
        mask.window = 0;
    bool later = false;
    for (size_t b = 0; of->starts && b < shape->batch; b++)
        later |= of->starts[row + rows - shape->batch + b] > (of->prefixes ? of->prefixes[b] : 0);
    if (later) {
        of->starts += row;
        of->device_starts = tensor_rows(of->device_starts, row, rows);
    } else {
        *of = (struct documents){0};
    }
    return mask;
}

// The queries from `first` on that run together: as many as the device takes, at least one, all of one kind.
static struct attention_shape part_from(const struct device *device, struct attention_shape shape, size_t first)
{
    size_t keys = attention_keys(shape),
           max = part_rows(device, shape.queries, shape.batch * shape.heads * longest_head(shape));
    size_t masked = keys > shape.start + 1 ? keys - shape.start : 0; // queries that do not see all keys, plus one
    struct attention_shape part = shape;
    part.start += first;
    part.queries = smaller(larger(max, 1), shape.queries - first);
    if (first < masked)
        part.queries = smaller(part.queries, masked - first);
    part.keys = smaller(keys, part.start + part.queries);
    part.mask = mask_of(&shape, first, part.queries);
    return part;
}

// Keys that run with a part's queries: as many as the device takes, before key `end`. The last block has the keys
// of the part's own queries, which fit a block; all queries see the other blocks.
struct key_block {
    struct attention_shape shape; // positions counted from the block's first key
    size_t first, end;
};
static struct key_block block_before(const struct device *device, struct attention_shape part, size_t end)
{
    size_t max = larger(part_rows(device, end, part.batch * part.kv_heads * longest_head(part)), 1);
    size_t first = smaller(end > max ? end - max : 0, part.start);
    struct key_block block = {part, first, end};
    block.shape.start -= first;
    block.shape.keys = end - first;
    if (block.shape.mask.window >= block.shape.start + part.queries)
        block.shape.mask.window = 0;
    return block;
}

bool attention_holds_heads(struct device *device, size_t longest)
{
    size_t max = device->ops->rules->head_max;
    return max == 0 || longest <= max ||
           status_set(&device->status, STATUS_UNSUPPORTED,
                      "attention on device %s holds heads of at most %zu numbers, not %zu", device->ops->name, max,
                      longest);
}

// Refuses matrices that cannot be cut: documents refer to key positions, and one head's keys at one position are
// never split.
static bool holds_keys(struct device *device, struct attention_shape shape, struct tensor k)
{
    size_t keys = shape.mask.documents.starts ? attention_keys(shape) : 1;
    return holds(device, tensor_rows(k, 0, keys * shape.batch), "attention");
}

// Rows from the block's first key on.
static struct tensor block_rows(struct tensor t, const struct key_block *block)
{
    size_t row = block->first * block->shape.batch;
    return tensor_rows(t, row, t.rows - row);
}

// Runs one part of the queries over all keys that it sees, block by block.
static void forward_blocks(struct device *device, struct attention_shape part, struct tensor o,
                           struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    struct key_block block = block_before(device, part, part.keys);
    struct tensor other_o = tensor_none(), other_logsumexp = tensor_none();
    attention_forward(device, block.shape, o, logsumexp, q, block_rows(k, &block), block_rows(v, &block));
    if (block.first > first_key(&part)) {
        other_o = tensor_new(device, o.rows, o.cols, o.dtype, CATEGORY_WORKSPACE);
        other_logsumexp = tensor_new(device, logsumexp.rows, logsumexp.cols, logsumexp.dtype, CATEGORY_WORKSPACE);
    }
    while (block.first > first_key(&part) && !failed(device)) {
        block = block_before(device, part, block.first);
        attention_forward(device, block.shape, other_o, other_logsumexp, q, block_rows(k, &block),
                          block_rows(v, &block));
        op_attention_merge(device, o, logsumexp, other_o, other_logsumexp);
    }
    tensor_free(device, &other_logsumexp);
    tensor_free(device, &other_o);
}

void op_attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                          struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    if (failed(device))
        return;
    check_attention(shape, q, k, v);
    CHECK(is_output(shape, o, q) && tensor_count(logsumexp) == q.rows * shape.heads);
    if (!attention_holds_heads(device, longest_head(shape)) || !holds_keys(device, shape, k))
        return;
    struct tensor statistics = tensor_reshape(logsumexp, q.rows, shape.heads);
    struct attention_shape part;
    for (size_t first = 0; first < shape.queries && !failed(device); first += part.queries) {
        part = part_from(device, shape, first);
        size_t row = first * shape.batch, rows = part.queries * shape.batch;
        forward_blocks(device, part, tensor_rows(o, row, rows), tensor_rows(statistics, row, rows),
                       tensor_rows(q, row, rows), k, v);
    }
}

// Clips the segments to the keys of the block that the queries see, with positions relative to the block. Returns
// how many remain.
static size_t segments_seen(struct key_segment *to, const struct key_segment *from, size_t segment_count,
                            struct attention_shape part, const struct key_block *block)
{
    size_t kept = 0, begin = larger(first_key(&part), block->first), end = block->end;
    for (size_t i = 0; i < segment_count && from[i].start < end; i++) {
        struct key_segment segment = from[i];
        size_t first = larger(segment.start, begin), last = smaller(segment.start + segment.count, end);
        if (last <= first && begin > segment.start)
            continue;
        size_t row = (first - segment.start) * part.batch, rows = (last - first) * part.batch;
        segment.rounding.origin += block->first;
        to[kept++] =
            (struct key_segment){first - block->first, last - first, tensor_rows(segment.grad_k, row, rows),
                                 tensor_rows(segment.grad_v, row, rows), segment.rounding};
    }
    return kept;
}

// The rows of a part in the operands and results of the backward.
struct backward_part {
    struct attention_shape shape;
    struct tensor grad_q, grad_o, o, logsumexp, q;
};

static void backward_blocks(struct device *device, struct backward_part part, bool accumulate,
                            const struct key_segment *segments, size_t segment_count, struct tensor k,
                            struct tensor v)
{
    struct key_segment *seen = calloc(segment_count + 1, sizeof *seen);
    struct key_block block = block_before(device, part.shape, part.shape.keys);
    struct tensor kept = tensor_none(); // a copy of grad_o, which the first block would overwrite
    if (block.first > first_key(&part.shape) && part.grad_q.data == part.grad_o.data) {
        kept = tensor_new(device, part.grad_o.rows, part.grad_o.cols, part.grad_o.dtype, CATEGORY_WORKSPACE);
        op_copy(device, kept, part.grad_o);
        part.grad_o = kept;
    }
    for (;;) {
        size_t count = segments_seen(seen, segments, segment_count, part.shape, &block);
        attention_backward(device, block.shape, part.grad_q, accumulate, seen, count, part.grad_o, part.o,
                           part.logsumexp, part.q, block_rows(k, &block), block_rows(v, &block));
        if (block.first <= first_key(&part.shape) || failed(device))
            break;
        accumulate = true;
        block = block_before(device, part.shape, block.first);
    }
    tensor_free(device, &kept);
    free(seen);
}

void op_attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                           bool accumulate, const struct key_segment *segments, size_t segment_count,
                           struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                           struct tensor k, struct tensor v)
{
    if (failed(device))
        return;
    check_attention(shape, q, k, v);
    CHECK(same_shape(grad_q, q) && is_output(shape, grad_o, q) && is_output(shape, o, q));
    CHECK(grad_q.data != grad_o.data || grad_q.cols == grad_o.cols || grad_q.rows == 0);
    CHECK(tensor_count(logsumexp) == q.rows * shape.heads);
    for (size_t i = 0; i < segment_count; i++) {
        const struct key_segment *segment = &segments[i];
        CHECK(segment->start + segment->count <= attention_keys(shape));
        CHECK(i == 0 || segments[i - 1].start + segments[i - 1].count <= segment->start);
        CHECK(segment->grad_k.rows == segment->count * shape.batch && segment->grad_v.rows == segment->grad_k.rows);
        CHECK(segment->grad_k.cols == k.cols && segment->grad_v.cols == v.cols);
        CHECK(!segment->rounding.stochastic || segment->grad_k.dtype == DTYPE_BF16);
    }
    if (!attention_holds_heads(device, longest_head(shape)) || !holds_keys(device, shape, k))
        return;
    struct tensor statistics = tensor_reshape(logsumexp, q.rows, shape.heads);
    struct attention_shape part;
    for (size_t first = 0; first < shape.queries && !failed(device); first += part.queries) {
        part = part_from(device, shape, first);
        size_t row = first * shape.batch, rows = part.queries * shape.batch;
        struct backward_part of_part = {part,
                                        tensor_rows(grad_q, row, rows),
                                        tensor_rows(grad_o, row, rows),
                                        tensor_rows(o, row, rows),
                                        tensor_rows(statistics, row, rows),
                                        tensor_rows(q, row, rows)};
        backward_blocks(device, of_part, accumulate, segments, segment_count, k, v);
    }
}

void op_attention_merge(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor other_o,
                        struct tensor other_logsumexp)
{
    if (failed(device))
        return;
    CHECK(same_shape(o, other_o) && tensor_count(logsumexp) == tensor_count(other_logsumexp));
    CHECK(o.dtype == other_o.dtype || o.dtype == logsumexp.dtype);
    CHECK(tensor_count(o) == 0 || tensor_count(o) % tensor_count(logsumexp) == 0);
    RUN(device, WORK_ATTENTION_FORWARD, attention_merge, 2 * bytes(o) + bytes(other_o) + 3 * bytes(logsumexp), o,
        logsumexp, other_o, other_logsumexp);
}

// Whether o has a row of `heads` heads for each row of their logsumexps.
static bool has_heads(struct tensor o, struct tensor logsumexp, size_t heads)
{
    return heads > 0 && tensor_count(logsumexp) == o.rows * heads && o.cols % heads == 0;
}

void op_attention_sink_forward(struct device *device, struct tensor o, struct tensor logsumexp, struct tensor sinks)
{
    if (failed(device))
        return;
    CHECK(sinks.rows == 1 && has_heads(o, logsumexp, sinks.cols));
    RUN(device, WORK_ATTENTION_FORWARD, attention_sink_forward, 2 * bytes(o) + 2 * bytes(logsumexp) + bytes(sinks),
        o, logsumexp, sinks);
}

void op_attention_sink_backward(struct device *device, struct tensor grad_sinks, struct tensor grad_o,
                                struct tensor o, struct tensor logsumexp, struct tensor sinks)
{
    if (failed(device))
        return;
    CHECK(sinks.rows == 1 && same_shape(grad_sinks, sinks) && same_shape(grad_o, o) &&
          has_heads(o, logsumexp, sinks.cols));
    RUN(device, WORK_ATTENTION_BACKWARD, attention_sink_backward,
        bytes(grad_o) + bytes(o) + bytes(logsumexp) + bytes(sinks) + 2 * bytes(grad_sinks), grad_sinks, grad_o, o,
        logsumexp, sinks);
}
