// Device: a processor or card that holds tensors and runs operations. One table of functions per device and dtype;
// each operation's signature, formula and gradient contract (what is =, what is +=) is stated here, once. The core
// calls the fronts in ops.h, which check the shapes, count the cost and then call the table.
#pragma once
#include "kernels/base/random.h"
#include "kernels/device/quantisation.h"
#include "kernels/device/routing.h"
#include "kernels/device/sequence_objective.h"
#include "kernels/device/tensor.h"
#include "kernels/device/update.h"

// A device runs work in three queues: operations, copies out to the host, and copies in from it. Each keeps its
// order; only events order them against each other (kernels/device/queue.h).
enum queue { QUEUE_COMPUTE, QUEUE_OUT, QUEUE_IN, QUEUE_COUNT };

// The moment when all work issued to a queue so far is done. Zeroed: in the past, so waiting does nothing.
struct event {
    uint64_t serial; // within the queue, from 1
    enum queue queue;
    double clock_s; // of the queue, by the roofline
};

// Work issued to a device since the last reset. Exact, and the same on every device for the same schedule.
struct counters {
    double flops;                      // counted FLOPs of GEMM and attention (methods/README.md)
    double bytes_moved;                // each operation's operands read once and results written once
    double glue_bytes;                 // further bytes of attention, to combine its blocks
    uint64_t launches;                 // operations
    double sent_bytes, received_bytes; // to and from other ranks
    uint64_t messages;                 // sent to them
    double link_bytes[QUEUE_COUNT];    // copied out to the host and in from it
    double estimate_s;                 // with a roofline: sum of the operations' minimum times
    double clock_s[QUEUE_COUNT];       // with a roofline: end time of each queue, with waits for events
};

// With a roofline: when all queues are done. Infinite if data was copied over a link of unknown rate.
static inline double counters_clock_s(const struct counters *counters)
{
    double last = 0;
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        last = counters->clock_s[queue] > last ? counters->clock_s[queue] : last;
    return last;
}

// Rates for time estimates: an operation takes the longer of its FLOPs' and its bytes' time, and a launch; a copy
// takes the link's time in its direction, and a launch. All zero: no estimate. An operation with a measured rate
// takes the time of that rate (kernels/device/rates.h); f32 work in another dtype takes no less than by the peak
// rates, because that rate need not cover it.
struct rates;
struct roofline {
    double flops_per_s, bytes_per_s, launch_s, link_bytes_per_s;
    double f32_flops_per_s;    // for work computed in f32 within another dtype; 0: as other work
    const struct rates *rates; // borrowed; NULL: none
    bool min; // lower bound: f32 work only as far as every cut of queries needs it, and keys taken at once
};

// q: [queries * batch, heads * head_dim]; k: at least [keys * batch, kv_heads * head_dim]; o and v alike, of
// value_dim numbers a head.
// Row t * batch + b is token t of sequence b. Query i of a sequence has position start + i and sees the keys 0 ..
// min(start + i, keys - 1). Query head h reads key head h / (heads / kv_heads). Scale: 1 / sqrt(head_dim). With a
// cap a score x = q k * scale becomes cap * tanh(x / cap) before it is masked (Gemma 2, arXiv 2408.00118, section
// 2). Positions count from the first key passed: for a block of keys from key a of the context on, pass rows of k
// and v from a on and subtract a from start; attention_merge combines such blocks. Devices get only two kinds: keys
// = start + queries (causal) and keys <= start (all queries see all keys); the fronts cut other shapes. Either may
// have a mask, which hides further keys; the fronts drop masks without effect.
//
// Several documents of a sequence may continue one prefix, as completions continue a prompt. The prefix's tokens
// are then stored once, and the causal mask has a gap. Every schedule supports this: the prefix's keys sum the
// gradients of all queries that see them, as any key does over later chunks.
struct documents {
    // Per row, the position of the first token of its document: at most the row's own, and non-decreasing along a
    // sequence. [tokens * batch] on the host, and [tokens * batch, 1] i32 on the device. NULL and no tensor: 0.
    const int32_t *starts;
    struct tensor device_starts;
    // Per sequence, the length of its first document if the others continue it: they follow it and see all of it;
    // else 0. [batch] and [batch, 1] i32. NULL and no tensor: 0.
    const int32_t *prefixes;
    struct tensor device_prefixes;
};
struct attention_mask {
    // A query at position p, counted within its document and the prefix before it, sees no key before p - window +
    // 1; 0: no window.
    size_t window;
    // A query sees no key before its document, except its prefix.
    struct documents documents;
};
struct attention_shape {
    size_t queries, start, batch, heads, kv_heads, head_dim;
    size_t keys;                // 0: start + queries
    struct attention_mask mask; // zeroed: none
    double cap;                 // of scores; 0: none
    size_t value_dim;           // of o and v; 0: head_dim
};
HOST_DEVICE static inline size_t attention_value_dim(struct attention_shape shape)
{
    return shape.value_dim ? shape.value_dim : shape.head_dim;
}
static inline size_t attention_keys(struct attention_shape shape)
{
    size_t end = shape.start + shape.queries;
    return shape.keys && shape.keys < end ? shape.keys : end;
}
// Otherwise all queries see all keys.
static inline bool attention_is_causal(struct attention_shape shape)
{
    return attention_keys(shape) == shape.start + shape.queries;
}
static inline bool attention_is_masked(struct attention_shape shape)
{
    return shape.mask.window > 0 || shape.mask.documents.starts;
}

// Keys that a query sees: [first, end) of a prefix, empty if first >= end, and [own, itself]; own does not decrease
// along a sequence.
struct seen_keys {
    uint32_t first, end, own; // 32 bits, as positions: a card has few registers
};
// For the query at position `next` - 1, in a document that begins at `start`.
HOST_DEVICE static inline struct seen_keys seen_keys_of(uint32_t next, size_t window, uint32_t start,
                                                        uint32_t prefix)
{
    struct seen_keys seen = {0, start > 0 ? prefix : 0, start};
    uint32_t all = next - start + seen.end; // that it sees without a window
    if (window > 0 && window < all) {
        uint32_t max = (uint32_t)window;
        seen.first = all - max;
        seen.own = next - start > max ? next - max : start;
    }
    return seen;
}
HOST_DEVICE static inline bool seen_keys_have(struct seen_keys seen, uint32_t key)
{
    return key >= seen.own || (key >= seen.first && key < seen.end);
}
// For query i of a sequence.
static inline struct seen_keys attention_seen_keys(const struct attention_shape *shape, size_t i, size_t sequence)
{
    const struct documents *of = &shape->mask.documents;
    return seen_keys_of((uint32_t)(shape->start + i + 1), shape->mask.window,
                        of->starts ? (uint32_t)of->starts[i * shape->batch + sequence] : 0,
                        of->prefixes ? (uint32_t)of->prefixes[sequence] : 0);
}

// A run: tokens that follow one another, of `batch` sequences. Row t * batch + b is token t of sequence b, at
// position start + t. What a recurrent layer keeps of the tokens before a run (a state, a convolution's last rows)
// it has of the document that the run's first token is one of. With each document it begins: at 0, or, of documents
// that continue a prefix, as `base`, which is what was behind the prefix's last token.
struct run_shape {
    size_t tokens, start, batch;
    struct documents documents;
};
// One sequence of a run. starts: of the run's rows, on whichever side reads them; NULL: 0.
struct run_sequence {
    const int32_t *starts;
    size_t tokens, start, batch, sequence, prefix;
};
HOST_DEVICE static inline struct run_sequence run_sequence_of(const struct run_shape *run, const void *starts,
                                                              const void *prefixes, size_t sequence)
{
    struct run_sequence s = {(const int32_t *)starts, run->tokens, run->start, run->batch, sequence, 0};
    s.prefix = prefixes ? (size_t)((const int32_t *)prefixes)[sequence] : 0;
    return s;
}
// The position at which the document of token t begins.
HOST_DEVICE static inline size_t run_document(const struct run_sequence *s, size_t t)
{
    return s->starts ? (size_t)s->starts[t * s->batch + s->sequence] : 0;
}
// The run's first token of that document.
HOST_DEVICE static inline size_t run_first(const struct run_sequence *s, size_t t)
{
    size_t document = run_document(s, t);
    return document > s->start ? document - s->start : 0;
}
// Whether a document begins with token t; whether it continues the prefix; whether token t is the last of its
// document, but not of the run; whether it is the last of the prefix.
HOST_DEVICE static inline bool run_begins(const struct run_sequence *s, size_t t)
{
    return run_document(s, t) == s->start + t;
}
HOST_DEVICE static inline bool run_continues(const struct run_sequence *s, size_t t)
{
    return s->prefix > 0 && run_document(s, t) > 0 && run_begins(s, t);
}
HOST_DEVICE static inline bool run_ends(const struct run_sequence *s, size_t t)
{
    return t + 1 < s->tokens && run_begins(s, t + 1);
}
HOST_DEVICE static inline bool run_ends_prefix(const struct run_sequence *s, size_t t)
{
    return s->start + t + 1 == s->prefix;
}

// The gated delta rule's heads, of a run. Value head h has key head h / (heads / key_heads).
struct delta_shape {
    struct run_shape run;
    size_t key_heads, heads, key_dim, value_dim;
};
// Tokens that the rule takes at once, of one document; and the longest part of a run, whose tokens are counted
// anew.
#define DELTA_BLOCK   64
#define DELTA_PART    2048
#define DELTA_DIM_MAX 256 // of key_dim and value_dim
// [begin, end) of the block that token t is one of.
HOST_DEVICE static inline size_t delta_block_begin(const struct run_sequence *s, size_t t)
{
    size_t first = run_first(s, t);
    return first + (t - first) / DELTA_BLOCK * DELTA_BLOCK;
}
HOST_DEVICE static inline size_t delta_block_end(const struct run_sequence *s, size_t t)
{
    size_t limit = delta_block_begin(s, t) + DELTA_BLOCK;
    limit = limit < s->tokens ? limit : s->tokens;
    if (!s->starts)
        return limit;
    while (++t < limit && !run_begins(s, t)) {
    }
    return t;
}
// States within a part that blocks begin with and no document does: that of the block of token t is number t /
// DELTA_BLOCK - 1, for they are at least a block apart.
static inline size_t delta_states(const struct delta_shape *shape)
{
    return (shape->run.tokens - 1) / DELTA_BLOCK;
}

// Rounding of dK and dV summed in bf16. Stochastic rounding has its own random bits for each element of the context
// and each added block of queries, identified by the block's first query, so that results do not depend on device,
// threads or the order of chunks.
struct key_rounding {
    bool stochastic;
    struct random grad_k, grad_v; // for one layer and step
    size_t origin;                // position in the context of the first key passed
};

// Gradients of keys [start, start + count) are added to grad_k and grad_v, [count * batch] rows of k and of v.
struct key_segment {
    size_t start, count;
    struct tensor grad_k, grad_v;
    struct key_rounding rounding; // zeroed: to nearest
};

// Elements that share random bits; rows of keys have whole groups.
#define KEY_ROUNDING_GROUP 8
HOST_DEVICE static inline uint64_t key_rounding_groups(size_t cols)
{
    return (cols + KEY_ROUNDING_GROUP - 1) / KEY_ROUNDING_GROUP;
}
// Rounding for the addition of one block of queries. query: position of its first, counted like keys; first: group
// of the segment's first element; `random`: of grad_k or grad_v.
static inline struct bf16_rounding key_rounding_of(const struct key_rounding *rounding, struct random random,
                                                   size_t query, uint64_t first)
{
    random.stream[0] ^= (uint32_t)(rounding->origin + query);
    random.stream[1] ^= (uint32_t)((rounding->origin + query) >> 32);
    return (struct bf16_rounding){rounding->stochastic, random, first};
}

enum transpose { NO_TRANSPOSE, TRANSPOSE };

// Maximum number of marks that a device holds.
#define DEVICE_MARKS 1026

struct device;
struct observer;
struct memo;

// The operations. These types declare a device's functions and their fronts: `zero_op op_zero;`.

// t[i] = mean + deviation * random_normal(random, i), rounded to `rounding`, then to t's dtype: the same bits
// on every device. f64, f32 and bf16.
typedef void random_normal_op(struct device *device, struct tensor t, struct random random, double mean,
                              double deviation, enum dtype rounding);

// t = 0
typedef void zero_op(struct device *device, struct tensor t);
// dst = src, converting the dtype
typedef void copy_op(struct device *device, struct tensor dst, struct tensor src);
// dst += src, converting the dtype; added in the device's accumulator dtype, rounded once. Both may be f64
typedef void accumulate_op(struct device *device, struct tensor dst, struct tensor src);
// dst[r][to + j] = src[r][from + j], j < cols, for every row; both of one dtype
typedef void copy_columns_op(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t from,
                             size_t cols);
// dst[r][h w + to + j] = src[r][j], j < src.cols, for every head h < heads of w = dst.cols / heads numbers: what
// all heads share; both of one dtype
typedef void copy_heads_op(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t heads);
// dst[r][j] += the sum over heads, in order, of src[r][h w + from + j], j < dst.cols, w = src.cols / heads; dtypes
// as of accumulate, rounded once
typedef void sum_heads_op(struct device *device, struct tensor dst, struct tensor src, size_t from, size_t heads);
// t = factor * t
typedef void scale_op(struct device *device, struct tensor t, double factor);
// t *= factor[0].  t, factor: [1, 1], of the device's dtype
typedef void scale_by_op(struct device *device, struct tensor t, struct tensor factor);

// c = alpha * op(a) * op(b) + beta * c;  c: [m, n], op(a): [m, k], op(b): [k, n]
typedef void gemm_op(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                     struct tensor b, enum transpose transpose_b, double alpha, double beta);
// d = c + op(a) * op(b);  shapes as above, d of c's dtype and not aliasing it
typedef void gemm_onto_op(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                          enum transpose transpose_a, struct tensor b, enum transpose transpose_b);
// A narrow product with wide and a gradient of its factor, in one pass over wide. product = alpha * wide *
// op(factor), if it is a tensor; grad += alpha * wide^T coefficients (transposed for a transposed factor), if it is
// one. wide: [n, d]; product and coefficients: [n, rank]; op(factor): [d, rank]; grad like factor. coefficients are
// read only for grad. grad's sums may be rounded to its dtype every few thousand rows.
typedef void low_rank_op(struct device *device, struct tensor product, struct tensor grad, struct tensor wide,
                         struct tensor factor, enum transpose transpose, struct tensor coefficients, double alpha);
// y += bias, for every row.  y: [n, d], bias: [1, d]
typedef void bias_forward_op(struct device *device, struct tensor y, struct tensor bias);
// grad_bias += column sums of grad_y
typedef void bias_backward_op(struct device *device, struct tensor grad_bias, struct tensor grad_y);

// RMSNorm, or centred: LayerNorm without a bias (Ba et al. 2016), whose x is first less its row's mean.
struct norm_shape {
    double offset, epsilon;
    bool centred;
};
// rstd = 1 / sqrt(mean(x^2) + epsilon), y = x * rstd * (offset + gain), by row.  x, y: [n, d]; gain: [1, d], or no
// tensor: y = x * rstd; rstd: [n, 1], or centred [n, 2], with the mean, or no tensor. y may be x.
typedef void rmsnorm_forward_op(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                                struct tensor gain, struct norm_shape shape);
// c = x, or centred x - mean(x);  u = grad_y * (offset + gain);  g = rstd * (u - c * rstd^2 * mean(u * c)), or
// centred less rstd * mean(u);  grad_x = g, or += g if accumulate, if it is a tensor. grad_gain += sum over rows of
// grad_y * c * rstd, if it is one. Without accumulate grad_x may be x or grad_y.
typedef void rmsnorm_backward_op(struct device *device, struct tensor grad_x, bool accumulate,
                                 struct tensor grad_gain, struct tensor grad_y, struct tensor x, struct tensor gain,
                                 struct norm_shape shape, struct tensor rstd);

// The first `rotary` numbers of a head turn, in pairs (j, j + rotary / 2), or (2 j, 2 j + 1) if interleaved, and
// are multiplied by gain; the others stay as they are. rotary: twice the number of frequencies.
struct rope_shape {
    size_t head_dim;
    bool interleaved;
    double gain;
};
// Rotates, in place, pair j of every head of x: [n * batch, heads * head_dim] by the angle direction * position *
// frequencies[j]; row r stands at position start + r / batch - starts[r], if starts[r] > 0
typedef void rope_op(struct device *device, struct tensor x, struct tensor frequencies, struct rope_shape shape,
                     size_t start, size_t batch, struct documents documents, int direction);

// Factor of a query at position p of its document: 1 + beta ln(1 + floor((p + offset) / length)) (Llama 4). length
// 0: 1.
struct position_scale {
    double beta;
    size_t length, offset;
};
HOST_DEVICE static inline double position_factor(struct position_scale scale, size_t position)
{
    return 1 + scale.beta * log1p((double)((position + scale.offset) / scale.length));
}
// Row r of x, at the position where rope has it, times its factor; in place.
typedef void position_scale_op(struct device *device, struct tensor x, struct position_scale scale, size_t start,
                               size_t batch, struct documents documents);

// S = q k^T * scale, capped, + causal + mask;  o = softmax(S) v;  logsumexp: of S, [queries * batch, heads],
// natural logarithm. A query that sees no key has o = 0 and logsumexp = -infinity.
typedef void attention_forward_op(struct device *device, struct attention_shape shape, struct tensor o,
                                  struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v);
// P = exp(S - logsumexp), delta = rowsum(grad_o * o), dS = P * (grad_o v^T - delta) * scale, with a cap times 1 -
// (S / cap)^2; grad_q = dS k, or += if accumulate; per segment grad_k += dS^T q, grad_v += P^T grad_o, for its keys
// only. Without accumulate grad_q may be grad_o, if they are as wide. Given o and logsumexp of attention over all
// keys, calls over blocks of keys add up to its gradients. workspace: attention_backward_workspace bytes.
typedef void attention_backward_op(struct device *device, struct attention_shape shape, struct tensor grad_q,
                                   bool accumulate, const struct key_segment *segments, size_t segment_count,
                                   struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                                   struct tensor k, struct tensor v, struct tensor workspace);

// Combines attention over two sets of keys: with m = log(exp(logsumexp) + exp(other_logsumexp)), o = exp(logsumexp
// - m) o + exp(other_logsumexp - m) other_o, and logsumexp = m (Dao 2023, arXiv 2307.08691, section 3.1). One of
// the two may be -infinity (no keys). o: [n, heads * value_dim], of other_o's dtype or the statistics', in which
// many sets are summed; logsumexp: n * heads.
typedef void attention_merge_op(struct device *device, struct tensor o, struct tensor logsumexp,
                                struct tensor other_o, struct tensor other_logsumexp);
// Adds a sink to each row's softmax, a key of that score without a value (gpt-oss; Xiao et al. 2023, arXiv
// 2309.17453): with m = log(exp(logsumexp) + exp(sink of the head)), o = exp(logsumexp - m) o, and logsumexp = m.
// o: [n, heads * head_dim], logsumexp: n * heads, which may be -infinity (no keys); sinks: [1, heads].
typedef void attention_sink_forward_op(struct device *device, struct tensor o, struct tensor logsumexp,
                                       struct tensor sinks);
// grad_sinks -= sum over rows of exp(sink - logsumexp) * rowsum(grad_o * o), by head, with o and logsumexp of the
// forward. attention_backward of these o and logsumexp is that of attention with sinks.
typedef void attention_sink_backward_op(struct device *device, struct tensor grad_sinks, struct tensor grad_o,
                                        struct tensor o, struct tensor logsumexp, struct tensor sinks);

// y = x / (1 + exp(-gate)).  All alike; y may be x.
typedef void gate_forward_op(struct device *device, struct tensor y, struct tensor x, struct tensor gate);
// With s = 1 / (1 + exp(-gate)): grad_x = grad_y * s and, in its place, gate = grad_y * x * s * (1 - s), its
// gradient. grad_x may be grad_y.
typedef void gate_backward_op(struct device *device, struct tensor grad_x, struct tensor gate, struct tensor grad_y,
                              struct tensor x);

// Activation of a gate g: g / (1 + exp(-z)), with z = g for SiLU and z = 2 sqrt(2 / pi) (g + 0.044715 g^3) for the
// tanh form of GELU (Hendrycks & Gimpel 2016).
enum activation { ACTIVATION_SILU, ACTIVATION_GELU_TANH, ACTIVATION_COUNT };
// y = activation(gate) * up.  All [n, f].
typedef void swiglu_forward_op(struct device *device, struct tensor y, struct tensor gate, struct tensor up,
                               enum activation activation);
// In place, with y from the forward: gate and up become their gradients, and grad_y becomes y.
typedef void swiglu_backward_op(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y,
                                enum activation activation);

// A mixture of experts of E experts; each of n tokens takes k. Slot t k + j is token t's choice j. The slots in the
// order of their experts, and within an expert in their own, are the permuted rows, of which operations take a
// block, rows [first, first + R). A block ends where it will: experts are cut by it.
// logits: [n, E] of the statistics' dtype, bias: [1, E] likewise, or no tensor. weights: [n, k] likewise. choices:
// [n, words] i32 (kernels/device/routing.h), NaN the greatest score; kept: read, and weights alone are written.
typedef void route_forward_op(struct device *device, struct routing routing, struct tensor choices,
                              struct tensor weights, struct tensor logits, struct tensor bias, bool kept);
// logits become their gradient, to which the router's losses add theirs (kernels/device/routing.h). Choices have
// none. totals: as route_count has summed them, unless terms.balance is 0. repeats: as there.
typedef void route_backward_op(struct device *device, struct routing routing, struct tensor logits,
                               struct tensor choices, struct tensor grad_weights, struct router_terms terms,
                               struct tensor totals, struct tensor repeats);
// totals: [S, E + E + 2] f64, of S sequences of which row t belongs to t mod S, or with S = 1 of all. Adds, of each
// token as often as repeats [n, 1] i32 says (no tensor: once), 1 to the counts of its experts, its p to the second
// E, 1, and logsumexp(logits)^2. row_sums: [n, 2] of the statistics' dtype, scratch.
typedef void route_count_op(struct device *device, struct routing routing, struct tensor totals,
                            struct tensor choices, struct tensor logits, bool softmax, struct tensor repeats,
                            struct tensor row_sums);
// rows: [n, k], the permuted row of each slot; slots: [n k, 1], the slot of each permuted row; starts: [E + 1, 1],
// the first permuted row of each expert, and n k. All i32.
typedef void permute_slots_op(struct device *device, struct routing routing, struct tensor rows,
                              struct tensor slots, struct tensor starts, struct tensor choices);
// dst[r] = src[slots[first + r] / k].  dst: [R, d], src: [n, d], of one dtype.
typedef void gather_slots_op(struct device *device, struct tensor dst, struct tensor src, struct tensor slots,
                             size_t chosen, size_t first);
// dst[t] += sum over t's slots in the block, in order, of weights[slot] * src[rows[slot] - first]. dst: [n, d] of
// the statistics' dtype, src: [R, d]. No weights: 1. What blocks there are changes no bit of the sum.
typedef void scatter_slots_op(struct device *device, struct tensor dst, struct tensor src, struct tensor rows,
                              struct tensor weights, size_t first);
// The product of a block's rows, each with the matrix of its expert: b holds E matrices [out, in] one below the
// other, as files do.
//     NO_TRANSPOSE, TRANSPOSE      c[r] = a[r] b_eT          c: [R, out], a: [R, in]
//     NO_TRANSPOSE, NO_TRANSPOSE   c[r] = a[r] b_e           c: [R, in], a: [R, out]
//     TRANSPOSE, NO_TRANSPOSE      c_e += alpha sum over the block's rows of e of a[r]T b[r]
//                                                            c: [E out, in], a: [R, out], b: [R, in]
// c of the first two is of a's dtype and of alpha 1; of the third of an accumulator's.
// The experts of `starts` may be consecutive ones of more: rows of the others are not touched.
struct expert_rows {
    struct tensor starts;
    size_t rows, first; // of all permuted rows: n k; of the block
    size_t experts;     // of the permuted rows; 0: those of starts
};
typedef void grouped_gemm_op(struct device *device, struct expert_rows experts, struct tensor c, struct tensor a,
                             enum transpose transpose_a, struct tensor b, enum transpose transpose_b, double alpha);
// y = activation(gate) * up; or with alpha (gpt-oss), g = min(gate, limit) and u = up within the limit on both
// sides, (u + 1) g / (1 + exp(-alpha g)). At the limit a gradient passes.
struct expert_act {
    enum activation activation;
    double alpha, limit; // 0: none
};
// gate_up = [gate | up].  y: [R, f], gate_up: [R, 2 f].
typedef void expert_act_forward_op(struct device *device, struct tensor y, struct tensor gate_up,
                                   struct expert_act act);
// In place, y the forward's, g = weights[slots[first + r]], grad the gradient of g * y: gate_up becomes its
// gradient, grad becomes g * y, and grad_weights[slot] = <grad, y>.
typedef void expert_act_backward_op(struct device *device, struct tensor gate_up, struct tensor grad,
                                    struct tensor grad_weights, struct tensor weights, struct tensor slots,
                                    size_t first, struct expert_act act);

// Depthwise causal convolution of 4 taps, and SiLU: y[t] = silu(sum over j < 4 of weight[., j] * x[t - 3 + j]),
// rows before t = 0 those of tail and rows before a document 0, or base's. x, y: [n, w], weight: [w, 4], tail,
// base: [3 batch, w], row i * batch + b the one 3 - i tokens before. tail becomes the three rows that a token
// behind the run sees; base those behind a sequence's prefix, where its last token is in the run. Neither is read
// where a document begins at 0. base may be no tensor if no sequence has a prefix. A token's bits do not depend on
// the run that it is one of.
typedef void short_conv_forward_op(struct device *device, struct run_shape run, struct tensor y, struct tensor x,
                                   struct tensor tail, struct tensor base, struct tensor weight);
// grad_x =, and may be grad_y. grad_weight +=, if it is a tensor. grad_tail: the gradient of what tail has become,
// becomes that of what it was; grad_base: that of the new base, read where it was written, and += where it was
// read. tail and base as the forward found it, or, where the prefix is in the run, left it. grad_tail, grad_base:
// of the statistics' dtype.
typedef void short_conv_backward_op(struct device *device, struct run_shape run, struct tensor grad_x,
                                    struct tensor grad_tail, struct tensor grad_base, struct tensor grad_weight,
                                    struct tensor grad_y, struct tensor x, struct tensor tail, struct tensor base,
                                    struct tensor weight);
// decay = -exp(a_log) softplus(a + dt_bias), the logarithm of what is kept of a state, and beta = scale sigmoid(b).
// a, b: [n, heads], a_log, dt_bias: [1, heads], decay, beta: [n, heads], of the statistics' dtype.
typedef void delta_gates_forward_op(struct device *device, struct tensor decay, struct tensor beta, struct tensor a,
                                    struct tensor b, struct tensor a_log, struct tensor dt_bias, double scale);
// grad_a, grad_b =, of a's dtype, and may be a and b. grad_a_log, grad_dt_bias +=, or both no tensors.
typedef void delta_gates_backward_op(struct device *device, struct tensor grad_a, struct tensor grad_b,
                                     struct tensor grad_a_log, struct tensor grad_dt_bias, struct tensor grad_decay,
                                     struct tensor grad_beta, struct tensor a, struct tensor b, struct tensor a_log,
                                     struct tensor dt_bias, double scale);
// The gated delta rule (Yang et al. 2024, arXiv 2412.06464, equation 10), per value head:
//     e = v - exp(decay) S^T k,  S = exp(decay) S + k (beta e)^T,  o = S^T q,
// q and k divided by sqrt(their sum of squares + 1e-6), and q by sqrt(key_dim). qkv: [n, 2 key_heads key_dim +
// heads value_dim], rows q, k, v; o: [n, heads value_dim], no tensor: the states alone, and q is not read; decay <=
// 0, beta: [n, heads]; state, base: [batch heads, key_dim value_dim], S by rows, of the statistics' dtype. state
// becomes that behind the run; state and base are read and written where short_conv_forward's tail and base are.
// Decays of more than a token are products of exp(decay) <= 1, never exp of a difference of sums, which loses the
// digits of what came before a token that forgets. Sums go by blocks (DELTA_BLOCK), which begin with runs, parts of
// a run and documents: the bits are the same for the same run, and for runs cut elsewhere equal up to rounding.
typedef void delta_rule_forward_op(struct device *device, struct delta_shape shape, struct tensor o,
                                   struct tensor state, struct tensor base, struct tensor qkv, struct tensor decay,
                                   struct tensor beta);
// grad_qkv, grad_decay, grad_beta =. state: before the run. grad_state and grad_base as grad_tail and grad_base of
// short_conv_backward. workspace: of delta_backward_workspace bytes.
typedef void delta_rule_backward_op(struct device *device, struct delta_shape shape, struct tensor grad_qkv,
                                    struct tensor grad_decay, struct tensor grad_beta, struct tensor grad_state,
                                    struct tensor grad_base, struct tensor grad_o, struct tensor state,
                                    struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta,
                                    struct tensor workspace);
// The identity of each head.  transition: [batch heads, key_dim key_dim]
typedef void delta_identity_op(struct device *device, struct tensor transition, size_t key_dim);
// The state behind the run is A S + B, S that before it. transition: [batch heads, key_dim key_dim], becomes
// A transition; 0 where a document begins, or what base has for a document that continues a prefix. base: read and
// written as delta_rule_forward's, or no tensor.
typedef void delta_transition_op(struct device *device, struct delta_shape shape, struct tensor transition,
                                 struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta);
// state = transition state, or a gradient = transition^T gradient, per head.  state: [batch heads, key_dim
// value_dim]
typedef void delta_carry_op(struct device *device, struct tensor state, struct tensor transition, size_t key_dim,
                            enum transpose transpose);

// y[r] = table[ids[r]].  table: [vocab, d], ids: [n, 1] i32
typedef void embedding_forward_op(struct device *device, struct tensor y, struct tensor table, struct tensor ids);
// grad_table[ids[r]] += grad_y[r], rows in order, except rows with the id `padding` (-1: none)
typedef void embedding_backward_op(struct device *device, struct tensor grad_table, struct tensor grad_y,
                                   struct tensor ids, int32_t padding);
// For every row with targets[r] >= 0:  loss += loss_weight * (logsumexp(logits) - logits[target]) and
// logits = grad_weight * (softmax(logits) - onehot(target)). Rows without a target become 0. With a cap above 0 the
// logits are y = cap * tanh(logits / cap), and the gradient, that of the uncapped ones, has the factor 1 - (y /
// cap)^2. logits: [n, vocab], targets: [n, 1] i32, loss: [1, 1] f64
typedef void cross_entropy_op(struct device *device, struct tensor logits, struct tensor targets,
                              struct tensor loss, double loss_weight, double grad_weight, double cap);

// The same in three operations, for objectives that are another function of the log-probs. log_prob, logsumexp and
// grad: [n, 1], in the statistics' dtype. Rows without a target get log_prob, logsumexp, grad and logits 0.
// logsumexp = log(sum over the row of exp(logits)), log_prob = logits[target] - logsumexp. distribution: [n,
// DISTRIBUTION] (kernels/device/row_objective.h): OF_MEAN = the row's mean of log p, OF_ENTROPY = -sum of p log p,
// p = softmax(logits), the rest 0; no tensor: not computed. cap: as above, for both.
typedef void log_prob_op(struct device *device, struct tensor log_prob, struct tensor logsumexp,
                         struct tensor distribution, struct tensor logits, struct tensor targets, double cap);
// A block of rows and the inputs of objectives. No tensor: not given. of: [n, 1] i32, each row's sequence; not
// given: (first + r) % sequences. log_prob, weights, shares, old, reference: [n, 1]; advantages: [sequences, 1], or
// in its place token_advantages: [n, 1]; all in the statistics' dtype. shares: a row's weight in its sequence's
// sums, default 1. counts: [sequences, 1] i32, rows with a target per sequence. slopes: [sequences, 1] f64.
// logsumexp and distribution: from log_prob, if the terms read them.
struct objective_block {
    size_t first, sequences;
    struct tensor of, targets, log_prob, logsumexp, distribution, weights, shares, old, reference, counts,
        advantages, token_advantages, slopes;
};
HOST_DEVICE static inline size_t objective_sequence(const struct objective_block *block, size_t row)
{
    const int32_t *of = (const int32_t *)block->of.data;
    return of ? (size_t)of[row] : (block->first + row) % block->sequences;
}
// loss += loss_weight * sum of w f(log_prob); grad = grad_weight * (w f'(log_prob) + share * slope of the
// sequence), without the second term under ROW_RATIO, whose slopes are the sequences' ratios. f: the terms'
// function. w: the row's weight, or 1 / its sequence's count, or 1. Defaults: old = log_prob, advantages = 1,
// slopes = 0. grad: [n, 1], may be log_prob. loss: [1, 1], or [OBJECTIVE_SUMS, 1] with metrics
// (kernels/device/objective_sums.h), which grow by loss_weight * the rows' sums, each row weighing 1. A
// distribution is replaced by its gradient.
typedef void objective_rows_op(struct device *device, struct row_terms terms, struct tensor grad,
                               struct tensor loss, struct objective_block block, double loss_weight,
                               double grad_weight);
// sums += sum over the sequence's rows with a target of share * (log_prob - base), in row order, in f64, so that
// cuts into blocks do not change a bit. sums: [sequences, 1] f64; base: [n, 1], no tensor: 0.
typedef void sequence_sums_op(struct device *device, struct tensor sums, struct objective_block block,
                              struct tensor base);
// loss += loss_weight * the cost of the sequences' sums, and sums = the cost's derivative by the log-probs. sums:
// [sequences, 1] f64, a multiple of sequence_stride; counts and loss as above; advantages: [sequences,
// sequence_gains], in the statistics' dtype.
typedef void sequence_costs_op(struct device *device, struct sequence_terms terms, struct tensor sums,
                               struct tensor loss, struct tensor counts, struct tensor advantages,
                               double loss_weight);
// logits = grad * (onehot(target) - softmax); with a distribution that objective_rows has replaced, grad *
// onehot(target) + p (OF_SOFTMAX - OF_ENTROPY log p) + OF_MEAN / vocabulary
typedef void log_prob_backward_op(struct device *device, struct tensor logits, struct tensor logsumexp,
                                  struct tensor targets, struct tensor grad, struct tensor distribution,
                                  double cap);

// Updates of weights (kernels/device/update.h). master: unrounded w in the accumulator dtype, which is updated and
// then rounded to w; no tensor: w is updated. g, m, v: in the accumulator dtype or w's, m and v alike.
// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w as the form says
typedef void adamw_op(struct device *device, struct tensor w, struct tensor master, struct tensor g,
                      struct tensor m, struct tensor v, const struct adam_step *step);
// adamw with moments stored in 8 bits; the step uses them before they are rounded.
typedef void adamw_coded_op(struct device *device, struct tensor w, struct tensor g, struct coded_moments moments,
                            const struct adam_step *step);
// g' = g + decay w, or g with decoupled decay;  m = momentum m + g', without m g';
// w = (1 - rate decay) w - rate m, or w - rate m with coupled decay   (torch.optim.SGD)
typedef void sgd_op(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
                    const struct sgd_step *step);

// w = the weights of codes and scales (kernels/device/quantisation.h).  codes, scales: [words, 1] i32 each
typedef void dequantise_op(struct device *device, struct tensor w, enum quantisation quantisation,
                           struct tensor codes, struct tensor scales);

// The operations by name: NAME_op is their functions' type, device_ops.NAME a device's function, op_NAME the front.
// All declarations and lists use this macro, so a new operation is five files for all devices:
//     kernels/device/device.h             its contract, as NAME_op, and its place here
//     kernels/device/ops.c                its front: what it checks, what it counts
//     kernels/cpu/real/<file>.c         NAME(NAME), for every dtype
//     kernels/cuda/plugin/<file>.cu     cuda_NAME
//     tests/cases/<file>.c              NAME_cases, to which every device is held
// clang-format off
#define DEVICE_OPERATIONS_WITHOUT_WORKSPACE(OPERATION) \
    OPERATION(random_normal) OPERATION(zero) OPERATION(copy) OPERATION(copy_columns) OPERATION(copy_heads) OPERATION(sum_heads) \
    OPERATION(accumulate) OPERATION(scale) OPERATION(scale_by) OPERATION(gemm) OPERATION(gemm_onto) OPERATION(bias_forward) OPERATION(bias_backward) OPERATION(rmsnorm_forward) OPERATION(rmsnorm_backward) \
    OPERATION(rope) OPERATION(position_scale) OPERATION(attention_forward) OPERATION(attention_merge) OPERATION(attention_sink_forward) \
    OPERATION(attention_sink_backward) OPERATION(gate_forward) OPERATION(gate_backward) OPERATION(swiglu_forward) \
    OPERATION(swiglu_backward) OPERATION(embedding_forward) OPERATION(embedding_backward) OPERATION(cross_entropy) OPERATION(log_prob) \
    OPERATION(objective_rows) OPERATION(sequence_sums) OPERATION(sequence_costs) OPERATION(log_prob_backward) OPERATION(adamw) OPERATION(adamw_coded) \
    OPERATION(sgd) \
    OPERATION(dequantise) OPERATION(short_conv_forward) OPERATION(short_conv_backward) OPERATION(delta_gates_forward) \
    OPERATION(delta_gates_backward) OPERATION(delta_rule_forward) OPERATION(delta_identity) OPERATION(delta_transition) OPERATION(delta_carry) \
    OPERATION(route_forward) OPERATION(route_backward) OPERATION(route_count) OPERATION(permute_slots) OPERATION(gather_slots) OPERATION(scatter_slots) \
    OPERATION(grouped_gemm) OPERATION(expert_act_forward) OPERATION(expert_act_backward)
// clang-format on
// Operations whose front takes no workspace parameter, because it allocates the workspace itself.
#define DEVICE_OPERATIONS_WITH_WORKSPACE(OPERATION) OPERATION(attention_backward) OPERATION(delta_rule_backward)
#define DEVICE_OPERATIONS_OF_ALL(OPERATION)                                                                        \
    DEVICE_OPERATIONS_WITHOUT_WORKSPACE(OPERATION) DEVICE_OPERATIONS_WITH_WORKSPACE(OPERATION)
// A device without rules->takes_low_rank has no such function: the front runs GEMMs.
#define DEVICE_OPERATIONS(OPERATION) DEVICE_OPERATIONS_OF_ALL(OPERATION) OPERATION(low_rank)

// The share of multiprocessors that an operation fills, bytes moved besides operands and results, and kernels
// beyond the first.
struct attention_run {
    double fill, glue_bytes, further_launches;
};

// A device's extra memory and the way it cuts its work: constants and pure functions of shapes, dtypes, permitted
// variants, multiprocessors and compute capability. A plan uses the rules of the device that it describes.
struct device_rules {
    size_t workspace_bytes; // size of device->workspace, which lives as long as the device
    // Maximum elements of a tensor for gemm and attention: the fronts cut longer ones. 0: no limit. Other
    // operations have none.
    size_t elements_max;
    size_t head_max; // the longest head that attention takes; 0: any
    // How attention_forward runs; NULL: as one kernel that fills the device.
    struct attention_run (*attention_forward_run)(const struct device *device, struct attention_shape shape);
    // Bytes of attention_backward's workspace.
    size_t (*attention_backward_workspace)(const struct device *device, struct attention_shape shape,
                                           const struct key_segment *segments, size_t segment_count);
    // Bytes that attention_backward moves besides operands and results if it consists of other operations; NULL:
    // none.
    double (*attention_backward_glue)(const struct device *device, struct attention_shape shape,
                                      const struct key_segment *segments, size_t segment_count);
    // The share of attention's FLOPs computed in f32 within another dtype; NULL: none.
    double (*attention_f32_share)(const struct device *device, struct attention_shape shape, bool backward);
    // Bytes of delta_rule_backward's workspace.
    size_t (*delta_backward_workspace)(const struct device *device, struct delta_shape shape);
    // Rows of a block whose GEMMs of this width fill the device.
    size_t (*block_rows)(const struct device *device, size_t cols);
    size_t expert_rows; // permuted rows of a block of a mixture of experts
    // Tells whether the device has a low_rank operation for a factor of this width and rank; NULL: never.
    bool (*takes_low_rank)(const struct device *device, size_t cols, size_t rank);
};

struct device_ops {
    const char *name; // "cpu"
    enum dtype dtype; // of weights and activations
    const struct device_rules *rules;
    struct arena_source source, host_source; // of its own memory; of the host's beside it
    // Tensors have no data (a plan): nothing is read, written or computed, and the table has no operations.
    bool dataless;
    // Opens what the device needs beyond its arena; NULL: nothing. Returns false and a status if this machine
    // cannot serve it. Replaces a limit_bytes of 0 by the free memory.
    bool (*open)(struct device *device, struct status *status);
    void (*close)(struct device *device);
    // Marks, numbered below DEVICE_MARKS: mark records when all work issued so far is done, by the device's clock;
    // marks_ms waits for two marks and returns the milliseconds between them. NULL: the host's clock is used
    // (kernels/measure/timer.h).
    void (*mark)(struct device *device, size_t mark);
    double (*marks_ms)(struct device *device, size_t from, size_t to);
    // Device memory used by all processes, according to the driver; NULL: unknown.
    size_t (*used_bytes)(struct device *device);
    size_t (*total_bytes)(struct device *device); // total memory, likewise
    // Maximum device memory held by this process's allocator so far; NULL: unknown.
    size_t (*reserved_bytes)(struct device *device);
    // Copies tensor_bytes(t) bytes from host memory to the tensor and back. NULL: the tensor is host memory.
    void (*upload)(struct device *device, struct tensor t, const void *src);
    void (*download)(struct device *device, void *dst, struct tensor t);
    // Waits for all work in all queues. NULL: work is synchronous.
    void (*synchronize)(struct device *device);
    // In QUEUE_OUT copies src, on the device, to dst, on the host; in QUEUE_IN the other way round.
    void (*transfer)(struct device *device, enum queue queue, struct tensor dst, struct tensor src);
    // record: records the event in its queue; wait: work issued to `queue` from now on runs after the event of
    // another queue. NULL: the queues are synchronous.
    void (*record)(struct device *device, struct event event);
    void (*wait)(struct device *device, enum queue queue, struct event event);
#define OPERATION(name) name##_op *name;
    DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
};

struct device {
    const struct device_ops *ops;
    size_t card;              // index among devices of this kind
    struct arena arena, host; // PLACE_DEVICE, PLACE_HOST
    // Host tensors are mappings of files in this folder, if the device supports it; NULL: in memory. Borrowed.
    const char *host_folder;
    struct counters counters;
    uint64_t recorded[QUEUE_COUNT]; // events
    // Sticky: after the first failure the fronts do nothing, so a schedule needs no error paths and ends at once.
    struct status status;
    struct roofline roofline;
    // Sums of GEMM and attention add their terms in another order; the resulting difference is the noise floor of
    // errors. 0: the usual order; N: another, in which GEMM on the CPU adds the first 1 / (1 + N) of the terms
    // last.
    unsigned reverse_sums;
    // Every operation gives the same bits in every run, at any cost. The CPU's always do.
    bool deterministic;
    // cuDNN reported that it has no deterministic attention backward here; devices without cuDNN have a rule.
    bool no_deterministic_attention;
    // Masked attention uses the device's own kernels even if a library supports it.
    bool own_masked_attention;
    // f32 GEMM may round its factors to TF32 (10 bits of mantissa) on devices with units for it.
    bool tf32;
    // Attention's backward may run at once instead of in blocks: fewer bytes moved, for a workspace that grows with
    // queries and keys.
    bool whole_attention;
    // Maximum queries of such a block; 0: the device's default.
    size_t attention_queries;
    // Attention's forward runs over all keys at once instead of in ranges; for comparing times.
    bool whole_keys;
    // Keeps memory passes that fused kernels avoid; for comparing times.
    bool unfused;
    // A file of the fastest GEMM algorithms, for cards. Missing products are timed and added, except in
    // deterministic runs. Borrowed; NULL: the library's first choice.
    const char *gemm_algorithms;
    // From the card (86 for 8.6), or from a plan's profile. 0: unknown, or no card.
    size_t multiprocessors, compute_capability;
    struct observer *observers;     // kernels/device/observer.h; NULL: none
    struct memo *memo;              // of a device without data (kernels/device/memo.h); borrowed; NULL: none
    int64_t marks_ns[DEVICE_MARKS]; // by the host's clock
    struct tensor workspace;        // of rules->workspace_bytes, for one operation at a time
    char description[512];          // the card, driver and libraries; the GEMM library; may be empty
    char bus_id[32];                // of the card, for kernels/base/sensors.h; empty: not a card
    void *backend;                  // owned by the device
};

static inline struct arena *device_arena(struct device *device, enum place place)
{
    return place == PLACE_HOST ? &device->host : &device->arena;
}

// The parts of a device's name: "cuda:1" is card 1 of device "cuda"; "cuda" is its card 0.
struct device_name {
    const char *device;
    size_t card;
};
// Returns false and a status (unsupported) if there is no such device, the number is invalid, or the device has no
// cards.
bool device_name_parse(struct device_name *parsed, const char *name, struct status *status);

// Opens a device by name for a dtype. Returns NULL and sets the status if the program lacks the device, the device
// the dtype, or the machine the card. limit_bytes 0: the machine's free memory; a plan has no limit. The host
// arena's limit is the machine's free memory, shared by both arenas if device and host are one memory. Release with
// device_close.
// A thread computes on the card that it opened last.
struct device *device_open(const char *name, enum dtype dtype, size_t limit_bytes, struct status *status);
void device_close(struct device *device);
// Names of the devices this program has, ending in NULL.
const char *const *device_names(void);
