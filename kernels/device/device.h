// Device: a place where tensors live and operations run. One table of functions per device and dtype; each
// operation's signature, formula and gradient contract (what is =, what is +=) is stated here, once.
// The core calls the fronts in ops.h, which check the shapes, count the cost and then call the table.
#pragma once
#include "kernels/base/random.h"
#include "kernels/device/quantisation.h"
#include "kernels/device/sequence_objective.h"
#include "kernels/device/tensor.h"
#include "kernels/device/update.h"

// What a device is asked for runs in one of three queues: operations, copies out to the host, and copies in from
// it. Each keeps its order; between them only events do (kernels/device/queue.h).
enum queue { QUEUE_COMPUTE, QUEUE_OUT, QUEUE_IN, QUEUE_COUNT };

// The moment when all that a queue was asked for before is done. Zeroed, it is in the past: nobody waits for it.
struct event {
    uint64_t serial; // of those of the queue, from 1
    enum queue queue;
    double clock_s; // of the queue, by the roofline
};

// What was asked of a device since the last reset. Exact, and equal on every device for the same walk.
struct counters {
    double flops;                      // counted FLOPs: of all GEMM and attention that was run (methods/README.md)
    double bytes_moved;                // each operation's operands read once and results written once
    double glue_bytes;                 // what attention moves besides those, where its blocks are put together
    uint64_t launches;                 // operations
    double sent_bytes, received_bytes; // to and from other ranks
    uint64_t messages;                 // sent to them
    double link_bytes[QUEUE_COUNT];    // copied out to the host, and in from it
    double estimate_s;                 // with a roofline: the sum over operations of what each would take at least
    double clock_s[QUEUE_COUNT];       // with a roofline: when each queue is done, waits for events included
};

// With a roofline: when all queues are done. Infinite: something was copied over a link of no known rate.
static inline double counters_clock_s(const struct counters *counters)
{
    double last = 0;
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        last = counters->clock_s[queue] > last ? counters->clock_s[queue] : last;
    return last;
}

// Rates that a time estimate is made from: an operation takes as long as its FLOPs or its bytes do, whichever is
// longer, and a launch; a copy as long as the link needs, in one direction, and a launch. All zero: no estimate. An
// operation that has a measured rate takes as long as that says (kernels/device/rates.h); what is computed in f32
// though the dtype is another, of which that rate need not be, no less than by the others.
struct rates;
struct roofline {
    double flops_per_s, bytes_per_s, launch_s, link_bytes_per_s;
    double f32_flops_per_s;    // of what is computed in f32 though the dtype is another; 0: as all else
    const struct rates *rates; // borrowed; NULL: none
    bool min; // a bound: in f32 is only what is so however queries are cut, and keys are taken at once
};

// q: [queries * batch, heads * head_dim], k and v: [keys * batch, kv_heads * head_dim] at least.
// Row t * batch + b is token t of sequence b. Query i of a sequence stands at position start + i and sees the
// keys 0 .. min(start + i, keys - 1). Query head h reads key head h / (heads / kv_heads). Scale: 1 /
// sqrt(head_dim). Positions count from the first key that is given: attention over a block of keys that begins at
// key a of the context is that over rows of k and v from a on, with a taken from start; such blocks are put
// together by attention_merge. Devices are handed two kinds alone: keys = start + queries (causal), and keys <=
// start (all queries see all keys); the fronts cut what lies between. Either may have a mask, which takes keys from
// what a query sees; without any effect it is not handed on.
//
// Documents of a sequence. Where several continue one prefix, as completions of a prompt do, its tokens stand in
// the sequence once: a causal mask with a gap is all that tells this from the sequences one by one, so that every
// walk has it, and a prefix's keys take the gradients of all that see them as those of any key that later chunks
// see.
struct documents {
    // By row, the first token of its document, counted as positions are: not beyond the row's own, and from one
    // token of a sequence to the next it does not fall. [tokens * batch] on the host, and [tokens * batch, 1] i32
    // on the device. NULL and no tensor: 0.
    const int32_t *starts;
    struct tensor device_starts;
    // By sequence, the tokens of its first document, all of them, where the others continue it: theirs stand after
    // its last, and see it; else 0. [batch] and [batch, 1] i32. NULL and no tensor: 0.
    const int32_t *prefixes;
    struct tensor device_prefixes;
};
struct attention_mask {
    // A query at position p of its document, and of what that continues, sees no key before p - window + 1; 0: any.
    size_t window;
    // A query sees no key before its document, but for the prefix that this continues.
    struct documents documents;
};
struct attention_shape {
    size_t queries, start, batch, heads, kv_heads, head_dim;
    size_t keys;                // 0: start + queries
    struct attention_mask mask; // zeroed: none
};
static inline size_t attention_keys(struct attention_shape shape)
{
    size_t end = shape.start + shape.queries;
    return shape.keys && shape.keys < end ? shape.keys : end;
}
// Else all queries see all keys.
static inline bool attention_is_causal(struct attention_shape shape)
{
    return attention_keys(shape) == shape.start + shape.queries;
}
static inline bool attention_is_masked(struct attention_shape shape)
{
    return shape.mask.window > 0 || shape.mask.documents.starts;
}

// The keys that a query sees: [first, end) of a prefix, none where first >= end; and [own, itself], where own does
// not fall from one query of a sequence to the next.
struct seen_keys {
    uint32_t first, end, own; // in 32 bits, as positions are: a card has few registers
};
// Of the query at position `next` - 1, in a document that begins at `start`.
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
// Of query i of a sequence.
static inline struct seen_keys attention_seen_keys(const struct attention_shape *shape, size_t i, size_t sequence)
{
    const struct documents *of = &shape->mask.documents;
    return seen_keys_of((uint32_t)(shape->start + i + 1), shape->mask.window,
                        of->starts ? (uint32_t)of->starts[i * shape->batch + sequence] : 0,
                        of->prefixes ? (uint32_t)of->prefixes[sequence] : 0);
}

// How sums in bf16 of gradients of keys and values are rounded. Stochastic: by random bits of their own for each
// element of the context and for each block of queries that is added, told by its first, so that they depend on no
// device, thread or order of chunks.
struct key_rounding {
    bool stochastic;
    struct random grad_k, grad_v; // of a layer, in a step
    size_t origin;                // the position in the context of the first key that is given
};

// Keys [start, start + count) of the context take gradients into grad_k, grad_v: [count * batch, kv_heads *
// head_dim].
struct key_segment {
    size_t start, count;
    struct tensor grad_k, grad_v;
    struct key_rounding rounding; // zeroed: to nearest
};

// Chunks that share random bits: rows of keys have whole groups.
#define KEY_ROUNDING_GROUP 8
HOST_DEVICE static inline uint64_t key_rounding_groups(size_t cols)
{
    return (cols + KEY_ROUNDING_GROUP - 1) / KEY_ROUNDING_GROUP;
}
// The rounding of the sums when a block of queries is added. query: the position of its first, counted as keys are;
// first: the group of the segment's first element, `random` of grad_k or grad_v.
static inline struct bf16_rounding key_rounding_of(const struct key_rounding *rounding, struct random random,
                                                   size_t query, uint64_t first)
{
    random.stream[0] ^= (uint32_t)(rounding->origin + query);
    random.stream[1] ^= (uint32_t)((rounding->origin + query) >> 32);
    return (struct bf16_rounding){rounding->stochastic, random, first};
}

enum transpose { NO_TRANSPOSE, TRANSPOSE };

// Moments of a step that a device remembers at a time.
#define DEVICE_MARKS 1026

struct device;
struct observer;
struct memo;

// The operations. A device's functions for them, and their fronts, are declared by these types: `zero_op
// op_zero;`.

// t[i] = mean + deviation * random_normal(random, i), rounded to `rounding`, then to t's dtype: the same bits
// on every device. f64, f32 and bf16.
typedef void random_normal_op(struct device *device, struct tensor t, struct random random, double mean,
                              double deviation, enum dtype rounding);

// t = 0
typedef void zero_op(struct device *device, struct tensor t);
// dst = src, converting the dtype
typedef void copy_op(struct device *device, struct tensor dst, struct tensor src);
// dst += src, converting the dtype; added in the dtype that the device sums in, rounded once. Both may be f64
typedef void accumulate_op(struct device *device, struct tensor dst, struct tensor src);
// dst[r][to + j] = src[r][from + j], j < cols, in every row; of one dtype
typedef void copy_columns_op(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t from,
                             size_t cols);
// t = factor * t
typedef void scale_op(struct device *device, struct tensor t, double factor);

// c = alpha * op(a) * op(b) + beta * c;  c: [m, n], op(a): [m, k], op(b): [k, n]
typedef void gemm_op(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                     struct tensor b, enum transpose transpose_b, double alpha, double beta);
// d = c + op(a) * op(b);  shapes as above, d of c's dtype and apart from it
typedef void gemm_onto_op(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                          enum transpose transpose_a, struct tensor b, enum transpose transpose_b);
// A narrow product with wide, and a gradient of its factor, in one pass over wide: product = alpha * wide *
// op(factor), if it is a tensor; and if grad is one, grad += alpha * wide^T coefficients, or the transpose of that
// for a factor that is.  wide: [n, d], product and coefficients: [n, rank], op(factor): [d, rank], grad as factor.
// coefficients are read for grad alone. Sums of grad may be rounded to its dtype once for each few thousand rows.
typedef void low_rank_op(struct device *device, struct tensor product, struct tensor grad, struct tensor wide,
                         struct tensor factor, enum transpose transpose, struct tensor coefficients, double alpha);
// y += bias, for every row.  y: [n, d], bias: [1, d]
typedef void bias_forward_op(struct device *device, struct tensor y, struct tensor bias);
// grad_bias += chunk sums of grad_y
typedef void bias_backward_op(struct device *device, struct tensor grad_bias, struct tensor grad_y);

// rstd = 1 / sqrt(mean(x^2) + epsilon), y = x * rstd * (offset + gain), by row.  x, y: [n, d], gain: [1, d], rstd:
// [n, 1]. y may be x. rstd may be no tensor.
typedef void rmsnorm_forward_op(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                                struct tensor gain, double offset, double epsilon);
// u = grad_y * (offset + gain);  g = rstd * (u - x * rstd^2 * mean(u * x));  grad_x = g, or += g if accumulate, if
// it is a tensor. grad_gain += sum over rows of grad_y * x * rstd, if it is one. Without accumulate grad_x may be x
// or grad_y.
typedef void rmsnorm_backward_op(struct device *device, struct tensor grad_x, bool accumulate,
                                 struct tensor grad_gain, struct tensor grad_y, struct tensor x, struct tensor gain,
                                 double offset, struct tensor rstd);

// Rotates, in place, the pairs (j, j + D/2) of every head of x: [n * batch, heads * D] by the angle
// direction * position * frequencies[j]; row r stands at position start + r / batch - starts[r], with starts[r] > 0
// so much further on as its prefix is long. direction: +1, or -1 for the gradient. frequencies: [1, D/2], f64.
typedef void rope_op(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
                     struct documents documents, int direction);

// o = softmax(q k^T * scale + causal + mask) v;  logsumexp: [queries * batch, heads], natural logarithm. Of a query
// that sees none of the keys o is 0 and logsumexp -infinity.
typedef void attention_forward_op(struct device *device, struct attention_shape shape, struct tensor o,
                                  struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v);
// P = exp(S - logsumexp), delta = rowsum(grad_o * o), dS = P * (grad_o v^T - delta) * scale;
// grad_q = dS k, or += if accumulate; per segment grad_k += dS^T q, grad_v += P^T grad_o, for its keys alone.
// Without accumulate grad_q may be grad_o. With the o and logsumexp of attention over all keys, those over blocks
// of them add up to its gradients. workspace: of attention_backward_workspace bytes.
typedef void attention_backward_op(struct device *device, struct attention_shape shape, struct tensor grad_q,
                                   bool accumulate, const struct key_segment *segments, size_t segment_count,
                                   struct tensor grad_o, struct tensor o, struct tensor logsumexp, struct tensor q,
                                   struct tensor k, struct tensor v, struct tensor workspace);

// Attention over two sets of keys, put together: with m = log(exp(logsumexp) + exp(other_logsumexp)),
// o = exp(logsumexp - m) o + exp(other_logsumexp - m) other_o, and logsumexp = m (Dao 2023, arXiv 2307.08691,
// section 3.1). One of the two may be -infinity: of no keys. o: [n, heads * head_dim], logsumexp: n * heads.
typedef void attention_merge_op(struct device *device, struct tensor o, struct tensor logsumexp,
                                struct tensor other_o, struct tensor other_logsumexp);

// What a gate g goes through: g / (1 + exp(-z)), z = g for SiLU, 2 sqrt(2 / pi) (g + 0.044715 g^3) for GELU in the
// form with a tanh (Hendrycks & Gimpel 2016).
enum activation { ACTIVATION_SILU, ACTIVATION_GELU_TANH, ACTIVATION_COUNT };
// y = activation(gate) * up.  All [n, f].
typedef void swiglu_forward_op(struct device *device, struct tensor y, struct tensor gate, struct tensor up,
                               enum activation activation);
// In place, with y the value above: gate becomes the gradient of gate, up that of up, and grad_y becomes y.
typedef void swiglu_backward_op(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y,
                                enum activation activation);

// y[r] = table[ids[r]].  table: [vocab, d], ids: [n, 1] i32
typedef void embedding_forward_op(struct device *device, struct tensor y, struct tensor table, struct tensor ids);
// grad_table[ids[r]] += grad_y[r], rows in order, but for those of the id `padding` (-1: of none)
typedef void embedding_backward_op(struct device *device, struct tensor grad_table, struct tensor grad_y,
                                   struct tensor ids, int32_t padding);
// For every row with targets[r] >= 0:  loss += loss_weight * (logsumexp(logits) - logits[target]) and
// logits = grad_weight * (softmax(logits) - onehot(target)). Rows without a target become 0.
// logits: [n, vocab], targets: [n, 1] i32, loss: [1, 1] f64
typedef void cross_entropy_op(struct device *device, struct tensor logits, struct tensor targets,
                              struct tensor loss, double loss_weight, double grad_weight);

// The same in three, for objectives that are another function of the rows' log-probs. log_prob, logsumexp and
// grad: [n, 1], of the statistics' dtype. Rows without a target have log_prob, logsumexp, grad and logits 0.
// logsumexp = log(sum over the row of exp(logits)), log_prob = logits[target] - logsumexp. distribution: [n,
// DISTRIBUTION] (kernels/device/row_objective.h), of which OF_MEAN = the row's mean of log p and OF_ENTROPY = its
// -sum of p log p, p = softmax(logits), the rest 0; no tensor: neither is wanted.
typedef void log_prob_op(struct device *device, struct tensor log_prob, struct tensor logsumexp,
                         struct tensor distribution, struct tensor logits, struct tensor targets);
// A block of rows and what objectives read of them. No tensor: not given. of: [n, 1] i32, the sequence that a row
// is one of; not given: (first + r) % sequences. log_prob, weights, shares, old, reference: [n, 1], and advantages:
// [sequences, 1], or token_advantages: [n, 1], in its place, of the statistics' dtype; shares: what a row counts in
// its sequence's sums, not given: 1; counts: [sequences, 1] i32, the sequence's rows with a target; slopes:
// [sequences, 1] f64. logsumexp and distribution as log_prob has them, where the terms read them.
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
// loss += loss_weight * sum of w f(log_prob), grad = grad_weight * (w f'(log_prob) + share * slope of the
// sequence, or, under ROW_RATIO, no more: then slopes are the sequences' ratios), f the terms'. w: the row's
// weight, or 1 / its sequence's count, or 1. old not given: log_prob; advantages: 1; slopes: 0. grad: [n, 1], and
// may be log_prob. loss: [1, 1], or [OBJECTIVE_SUMS, 1], which has metrics below (kernels/device/objective_sums.h):
// these += loss_weight * sum of the rows' own, each counting 1. A distribution becomes the gradient by itself.
typedef void objective_rows_op(struct device *device, struct row_terms terms, struct tensor grad,
                               struct tensor loss, struct objective_block block, double loss_weight,
                               double grad_weight);
// sums += sum over the sequence's rows with a target of share * (log_prob - base), rows in order, in f64; so
// cutting rows into blocks does not change a bit. sums: [sequences, 1] f64; base: [n, 1], no tensor: 0.
typedef void sequence_sums_op(struct device *device, struct tensor sums, struct objective_block block,
                              struct tensor base);
// loss += loss_weight * what the sequences cost by their sums, and sums = that cost's derivative by the log_probs.
// sums: [sequences, 1] f64, a multiple of sequence_stride; counts and loss as above;
// advantages: [sequences, sequence_gains], of the statistics' dtype.
typedef void sequence_costs_op(struct device *device, struct sequence_terms terms, struct tensor sums,
                               struct tensor loss, struct tensor counts, struct tensor advantages,
                               double loss_weight);
// logits = grad * (onehot(target) - softmax), or, with the gradient by a distribution, as objective_rows leaves it,
// grad * onehot(target) + p (OF_SOFTMAX - OF_ENTROPY log p) + OF_MEAN / vocabulary
typedef void log_prob_backward_op(struct device *device, struct tensor logits, struct tensor logsumexp,
                                  struct tensor targets, struct tensor grad, struct tensor distribution);

// Updates of weights (kernels/device/update.h). master: w before it was rounded, in the sums' dtype, which is then
// what moves; no tensor: w moves. g, m, v: each in the sums' dtype or w's, m and v alike.
// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w as the form says
typedef void adamw_op(struct device *device, struct tensor w, struct tensor master, struct tensor g,
                      struct tensor m, struct tensor v, const struct adam_step *step);
// As adamw, with moments that are stored in 8 bits and a step that is made with them before they are.
typedef void adamw_coded_op(struct device *device, struct tensor w, struct tensor g, struct coded_moments moments,
                            const struct adam_step *step);
// g' = g + decay w, or g with decoupled decay;  m = momentum m + g', without m g';
// w = (1 - rate decay) w - rate m, or w - rate m with coupled decay   (torch.optim.SGD)
typedef void sgd_op(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
                    const struct sgd_step *step);

// w = what codes and scales stand for (kernels/device/quantisation.h).  codes: [words, 1] i32, scales: [blocks, 1]
// f32
typedef void dequantise_op(struct device *device, struct tensor w, enum quantisation quantisation,
                           struct tensor codes, struct tensor scales);

// The operations by name: NAME_op is the type of its functions, device_ops.NAME a device's, op_NAME its front. What
// declares or lists them all does so by this, so that a new one is five files on all devices together:
//     kernels/device/device.h             its contract, as NAME_op, and its place here
//     kernels/device/ops.c                its front: what it checks, what it counts
//     kernels/cpu/real/<file>.c         NAME(NAME), for every dtype
//     kernels/cuda/plugin/<file>.cu     cuda_NAME
//     tests/cases/<file>.c              NAME_cases, to which every device is held
// clang-format off
#define DEVICE_OPERATIONS_WITHOUT_WORKSPACE(OPERATION) \
    OPERATION(random_normal) OPERATION(zero) OPERATION(copy) OPERATION(copy_columns) OPERATION(accumulate) OPERATION(scale) \
    OPERATION(gemm) OPERATION(gemm_onto) OPERATION(bias_forward) OPERATION(bias_backward) OPERATION(rmsnorm_forward) OPERATION(rmsnorm_backward) \
    OPERATION(rope) OPERATION(attention_forward) OPERATION(attention_merge) OPERATION(swiglu_forward) \
    OPERATION(swiglu_backward) OPERATION(embedding_forward) OPERATION(embedding_backward) OPERATION(cross_entropy) OPERATION(log_prob) \
    OPERATION(objective_rows) OPERATION(sequence_sums) OPERATION(sequence_costs) OPERATION(log_prob_backward) OPERATION(adamw) OPERATION(adamw_coded) \
    OPERATION(sgd) \
    OPERATION(dequantise)
// clang-format on
// Whose front has no workspace among its parameters, for it takes it from the arena itself.
#define DEVICE_OPERATIONS_WITH_WORKSPACE(OPERATION) OPERATION(attention_backward)
#define DEVICE_OPERATIONS_OF_ALL(OPERATION)                                                                        \
    DEVICE_OPERATIONS_WITHOUT_WORKSPACE(OPERATION) DEVICE_OPERATIONS_WITH_WORKSPACE(OPERATION)
// A device without rules->takes_low_rank has no function: the front runs GEMMs.
#define DEVICE_OPERATIONS(OPERATION) DEVICE_OPERATIONS_OF_ALL(OPERATION) OPERATION(low_rank)

// The share of the device's multiprocessors that an operation fills, the bytes that it moves besides its operands
// and results, and kernels beyond the first.
struct attention_run {
    double fill, glue_bytes, further_launches;
};

// What a device takes besides operands and results, and how it cuts its work: constants and pure functions of
// shapes, dtypes, what the device may do, its multiprocessors and compute capability. A plan has the rules of the
// device that it is like.
struct device_rules {
    size_t workspace_bytes; // of device->workspace, which lives as long as the device
    // The most elements of a tensor that gemm and attention are handed: the fronts hand them longer ones in parts.
    // 0: any number. All other operations take any.
    size_t elements_max;
    // How attention_forward runs; NULL: at once, and fills the device.
    struct attention_run (*attention_forward_run)(const struct device *device, struct attention_shape shape);
    // Bytes of attention_backward's workspace.
    size_t (*attention_backward_workspace)(const struct device *device, struct attention_shape shape,
                                           const struct key_segment *segments, size_t segment_count);
    // Bytes that attention_backward moves besides its operands and results, where it is put together of other
    // operations; NULL: none.
    double (*attention_backward_glue)(const struct device *device, struct attention_shape shape,
                                      const struct key_segment *segments, size_t segment_count);
    // The share of attention's FLOPs that the device computes in f32, though its dtype is another; NULL: none.
    double (*attention_f32_share)(const struct device *device, struct attention_shape shape, bool backward);
    // Rows of a block whose GEMMs with so many chunks fill the device.
    size_t (*block_rows)(const struct device *device, size_t cols);
    // Whether low_rank is an operation of the device for a factor of so many chunks and rank; NULL: never.
    bool (*takes_low_rank)(const struct device *device, size_t cols, size_t rank);
};

struct device_ops {
    const char *name; // "cpu"
    enum dtype dtype; // of weights and activations
    const struct device_rules *rules;
    struct arena_source source, host_source; // of its own memory; of the host's beside it
    // Tensors have no data (a plan): nothing is written, read or computed, and the table has no operations.
    bool dataless;
    // What a device needs beyond its arena; NULL: nothing. False and a status if this machine cannot serve it. A
    // limit_bytes of 0 becomes what the device has free.
    bool (*open)(struct device *device, struct status *status);
    void (*close)(struct device *device);
    // Marks, below DEVICE_MARKS: when all that was asked for before is done, by the device's own clock; and the
    // milliseconds between two of them, for which it waits. NULL: the host's clock must do
    // (kernels/measure/timer.h).
    void (*mark)(struct device *device, size_t mark);
    double (*marks_ms)(struct device *device, size_t from, size_t to);
    // Bytes of the device's memory that are taken, by whomever, as its driver counts them; NULL: no such figure.
    size_t (*used_bytes)(struct device *device);
    size_t (*total_bytes)(struct device *device); // all of it, likewise
    // The most of it that this process's allocator has held at any time; NULL: no such figure.
    size_t (*reserved_bytes)(struct device *device);
    // Host memory to the tensor's and back; src and dst hold tensor_bytes(t) bytes.
    void (*upload)(struct device *device, struct tensor t, const void *src);
    void (*download)(struct device *device, void *dst, struct tensor t);
    // Waits until all that was asked for, in all queues, is done. NULL: it always is.
    void (*synchronize)(struct device *device);
    // In QUEUE_OUT a copy of src, on the device, to dst, on the host; in QUEUE_IN the other way round.
    void (*transfer)(struct device *device, enum queue queue, struct tensor dst, struct tensor src);
    // The event is recorded in its queue; what the queue is asked for from here on happens after the event, which
    // is of another one. NULL: all queues are done at once.
    void (*record)(struct device *device, struct event event);
    void (*wait)(struct device *device, enum queue queue, struct event event);
#define OPERATION(name) name##_op *name;
    DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
};

struct device {
    const struct device_ops *ops;
    size_t card;              // of several of this kind, counted from 0
    struct arena arena, host; // PLACE_DEVICE, PLACE_HOST
    // The host's tensors are mappings of files in this folder, where the device can; NULL: in memory. Borrowed.
    const char *host_folder;
    struct counters counters;
    uint64_t recorded[QUEUE_COUNT]; // events
    // Sticky: after the first failure the fronts do nothing, so a walk needs no error paths and ends at once.
    struct status status;
    struct roofline roofline;
    // Sums of GEMM and attention run over their terms in another order: the noise floor of an error is the
    // difference that this alone makes. 0: the usual order; N: another, in which GEMM on the CPU adds the first
    // 1 / (1 + N) of the terms last.
    unsigned reverse_sums;
    // Every operation has the same bits in every run, at whatever cost. The CPU's always have.
    bool deterministic;
    // cuDNN was asked, and has no deterministic backward of attention here; where it was not, a rule says.
    bool no_deterministic_attention;
    // Attention behind a mask is left to the device's own kernels, where a library could take it, too.
    bool own_masked_attention;
    // Factors of GEMM in f32 may be rounded to TF32 (10 bits of mantissa), where the device has units for it.
    bool tf32;
    // Attention's backward may run at once where the device would cut it into blocks: fewer bytes moved, for a
    // workspace that grows with queries and keys.
    bool whole_attention;
    // Queries of such a block, at most; 0: as the device has it.
    size_t attention_queries;
    // Attention's forward runs over all keys at once where the device would cut them: to time one against the
    // other.
    bool whole_keys;
    // Passes over memory that others could spare are made all the same: to time one against the other.
    bool unfused;
    // A file of GEMM's fastest algorithms; products that it lacks are timed and added, but in a deterministic run.
    // A card's alone. Borrowed; NULL: the library's first choice.
    const char *gemm_algorithms;
    // Of the card, 86 for 8.6; of a plan what its profile says. 0: not known, or no card.
    size_t multiprocessors, compute_capability;
    struct observer *observers;     // kernels/device/observer.h; NULL: nobody looks on
    struct memo *memo;              // of a device without data: kernels/device/memo.h; borrowed; NULL: none
    int64_t marks_ns[DEVICE_MARKS]; // by the host's clock
    struct tensor workspace;        // of rules->workspace_bytes, for one operation at a time
    char description[512];          // the card, its driver and libraries; what multiplies; empty: nothing to say
    char bus_id[32];                // of the card, by which kernels/base/sensors.h finds it; empty: not a card
    void *backend;                  // the device's own
};

static inline struct arena *device_arena(struct device *device, enum place place)
{
    return place == PLACE_HOST ? &device->host : &device->arena;
}

// What a device's name consists of: "cuda:1" is card 1 of device "cuda", which alone is its card 0.
struct device_name {
    const char *device;
    size_t card;
};
// False and a status (unsupported) if there is no such device, the number is none, or the device has no cards to
// number.
bool device_name_parse(struct device_name *parsed, const char *name, struct status *status);

// Opens a device by name for a dtype. Returns NULL and sets status if this program has no such device, the device
// no such dtype, or the machine no such card. limit_bytes 0: the memory that the machine has free; a plan has no
// limit. The host's arena begins with what the machine has free as its limit; where host and device are one memory,
// what is free is both's together. Release with device_close.
// A thread computes on the card that it opened last.
struct device *device_open(const char *name, enum dtype dtype, size_t limit_bytes, struct status *status);
void device_close(struct device *device);
// Names of the devices this program has, ending in NULL.
const char *const *device_names(void);
