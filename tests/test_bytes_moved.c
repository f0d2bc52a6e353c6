// Bytes moved: every operation counts the bytes that it reads and writes by its contract in
// kernels/device/device.h, each tensor once, an updated tensor twice; without numbers (the loss, RoPE's
// frequencies, a value per sequence). On the plan device, in bf16, so that every tensor's dtype shows, with sizes
// that no two tensors share.
#include "kernels/device/dynamic_map.h"
#include "kernels/device/ops.h"
#include "kernels/device/quantisation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MAX 16
#define LIST(...)                                                                                                  \
    (struct tensor[MAX])                                                                                           \
    {                                                                                                              \
        __VA_ARGS__                                                                                                \
    }

// The operations that were held to their contracts, by name, and the tensors that were made for them.
struct held {
    struct device *device;
    const char *names[128];
    struct tensor tensors[300];
    size_t count, tensor_count;
};

static struct tensor of(struct held *held, size_t rows, size_t cols, enum dtype dtype)
{
    struct tensor t = tensor_new(held->device, rows, cols, dtype, CATEGORY_WORKSPACE);
    assert_true(held->tensor_count < sizeof held->tensors / sizeof *held->tensors);
    return held->tensors[held->tensor_count++] = t;
}
static struct tensor bf16(struct held *held, size_t rows, size_t cols)
{
    return of(held, rows, cols, DTYPE_BF16);
}
static struct tensor f32(struct held *held, size_t rows, size_t cols)
{
    return of(held, rows, cols, DTYPE_F32);
}
static struct tensor i32(struct held *held, size_t rows)
{
    return of(held, rows, 1, DTYPE_I32);
}

static double bytes_of(const struct tensor list[MAX])
{
    double bytes = 0;
    for (size_t i = 0; i < MAX; i++)
        bytes += (double)tensor_bytes(list[i]);
    return bytes;
}

// Compares the calls since the last comparison, which were one operation.
static void expect(struct held *held, const char *name, const struct tensor reads[MAX],
                   const struct tensor writes[MAX])
{
    struct counters *counters = &held->device->counters;
    double expected = bytes_of(reads) + bytes_of(writes);
    if (counters->bytes_moved != expected || counters->launches != 1) {
        fail_msg("%s counts %.0f bytes in %d operations; it reads and writes %.0f", name, counters->bytes_moved,
                 (int)counters->launches, expected);
    }
    *counters = (struct counters){0};
    held->names[held->count++] = name;
}

static void copies(struct held *h)
{
    struct device *d = h->device;
    struct tensor a = bf16(h, 3, 5), b = f32(h, 3, 5);
    op_zero(d, a);
    expect(h, "zero", LIST({0}), LIST(a));
    op_copy(d, a, b);
    expect(h, "copy", LIST(b), LIST(a));
    struct tensor part = bf16(h, 3, 2), wide = bf16(h, 3, 7);
    op_copy_columns(d, wide, 4, a, 1, 2);
    expect(h, "copy_columns", LIST(part), LIST(part));
    struct tensor heads = bf16(h, 3, 4 * 7), some = bf16(h, 3, 4 * 5), sum = f32(h, 3, 5);
    op_copy_heads(d, heads, 2, a, 4);
    expect(h, "copy_heads", LIST(a), LIST(some));
    op_sum_heads(d, sum, heads, 2, 4);
    expect(h, "sum_heads", LIST(some, sum), LIST(sum));
    op_accumulate(d, b, a);
    expect(h, "accumulate", LIST(a, b), LIST(b));
    op_scale(d, b, 2);
    expect(h, "scale", LIST(b), LIST(b));
    struct tensor factor = bf16(h, 1, 1);
    op_scale_by(d, a, factor);
    expect(h, "scale_by", LIST(a, factor), LIST(a));
    struct tensor codes = i32(h, quantised_words(QUANTISATION_NF4, 200)),
                  scales = i32(h, quantised_scale_words(QUANTISATION_NF4, 200));
    struct tensor w = bf16(h, 10, 20);
    op_dequantise(d, w, QUANTISATION_NF4, codes, scales);
    expect(h, "dequantise", LIST(codes, scales), LIST(w));
}

static void products(struct held *h)
{
    struct device *d = h->device;
    struct tensor a = bf16(h, 3, 5), b = bf16(h, 7, 5), c = f32(h, 3, 7), bias = bf16(h, 1, 7), y = bf16(h, 3, 7);
    struct tensor grad_bias = f32(h, 1, 7);
    op_gemm(d, c, a, NO_TRANSPOSE, b, TRANSPOSE, 2, 0);
    expect(h, "gemm", LIST(a, b), LIST(c));
    op_gemm(d, c, a, NO_TRANSPOSE, b, TRANSPOSE, 2, 1);
    expect(h, "gemm", LIST(a, b, c), LIST(c));
    struct tensor sum = f32(h, 3, 7);
    op_gemm_onto(d, sum, c, a, NO_TRANSPOSE, b, TRANSPOSE);
    expect(h, "gemm_onto", LIST(a, b, c), LIST(sum));
    struct tensor wide = bf16(h, 9, 70), factor = bf16(h, 5, 70), u = bf16(h, 9, 5), grad_u = bf16(h, 9, 5);
    struct tensor grad = f32(h, 5, 70), none = {0};
    op_low_rank(d, u, none, wide, factor, TRANSPOSE, none, 1);
    expect(h, "low_rank", LIST(wide, factor), LIST(u));
    op_low_rank(d, none, grad, wide, factor, TRANSPOSE, grad_u, 1);
    expect(h, "low_rank", LIST(wide, grad_u, grad), LIST(grad));
    op_low_rank(d, u, grad, wide, factor, TRANSPOSE, grad_u, 1);
    expect(h, "low_rank", LIST(wide, factor, grad_u, grad), LIST(u, grad));
    op_bias_forward(d, y, bias);
    expect(h, "bias_forward", LIST(y, bias), LIST(y));
    op_bias_backward(d, grad_bias, y);
    expect(h, "bias_backward", LIST(y, grad_bias), LIST(grad_bias));
}

static void norms(struct held *h)
{
    struct device *d = h->device;
    struct tensor x = bf16(h, 3, 5), y = bf16(h, 3, 5), gain = bf16(h, 1, 5), rstd = f32(h, 3, 1), none = {0};
    struct tensor grad_gain = f32(h, 1, 5), grad_x = bf16(h, 3, 5), centred = f32(h, 3, 2);
    struct norm_shape norm = {.epsilon = 1e-5}, layer_norm = {.epsilon = 1e-5, .centred = true};
    op_rmsnorm_forward(d, y, rstd, x, gain, norm);
    expect(h, "rmsnorm_forward", LIST(x, gain), LIST(y, rstd));
    op_rmsnorm_forward(d, y, none, x, gain, norm);
    expect(h, "rmsnorm_forward", LIST(x, gain), LIST(y));
    op_rmsnorm_backward(d, grad_x, false, grad_gain, y, x, gain, norm, rstd);
    expect(h, "rmsnorm_backward", LIST(y, x, gain, rstd, grad_gain), LIST(grad_x, grad_gain));
    op_rmsnorm_backward(d, grad_x, true, grad_gain, y, x, gain, norm, rstd);
    expect(h, "rmsnorm_backward", LIST(y, x, gain, rstd, grad_gain, grad_x), LIST(grad_x, grad_gain));
    op_rmsnorm_backward(d, grad_x, false, none, y, x, gain, norm, rstd);
    expect(h, "rmsnorm_backward", LIST(y, x, gain, rstd), LIST(grad_x));
    op_rmsnorm_forward(d, y, centred, x, none, layer_norm);
    expect(h, "rmsnorm_forward", LIST(x), LIST(y, centred));
    op_rmsnorm_backward(d, grad_x, false, none, y, x, none, layer_norm, centred);
    expect(h, "rmsnorm_backward", LIST(y, x, centred), LIST(grad_x));
    struct tensor frequencies = of(h, 1, 3, DTYPE_F64), q = bf16(h, 8, 12);
    struct rope_shape heads = {.head_dim = 6, .gain = 1};
    op_rope(d, q, frequencies, heads, 5, 2, (struct documents){0}, 1);
    expect(h, "rope", LIST(q), LIST(q));
    struct documents documents = {.device_starts = i32(h, 8), .device_prefixes = i32(h, 2)};
    op_rope(d, q, frequencies, heads, 5, 2, documents, -1);
    expect(h, "rope", LIST(q, documents.device_starts, documents.device_prefixes), LIST(q));
    op_position_scale(d, q, (struct position_scale){.beta = 0.1, .length = 4}, 5, 2, documents);
    expect(h, "position_scale", LIST(q, documents.device_starts, documents.device_prefixes), LIST(q));
    struct tensor gate = bf16(h, 3, 11), up = bf16(h, 3, 11), product = bf16(h, 3, 11);
    op_swiglu_forward(d, product, gate, up, ACTIVATION_SILU);
    expect(h, "swiglu_forward", LIST(gate, up), LIST(product));
    op_swiglu_backward(d, gate, up, product, ACTIVATION_SILU);
    expect(h, "swiglu_backward", LIST(gate, up, product), LIST(gate, up, product));
    op_gate_forward(d, product, up, gate);
    expect(h, "gate_forward", LIST(up, gate), LIST(product));
    op_gate_backward(d, product, gate, product, up);
    expect(h, "gate_backward", LIST(gate, product, up), LIST(product, gate));
}

// Keys that some query sees, counted one by one.
static size_t keys_read(const struct attention_shape *s)
{
    size_t read = 0;
    for (size_t key = 0; key < s->start + s->queries; key++) {
        bool seen = false;
        for (size_t i = 0; i < s->queries; i++) {
            size_t position = s->start + i;
            seen |= key <= position && (!s->mask.window || position - key < s->mask.window);
        }
        read += seen;
    }
    return read;
}

static void attentions(struct held *h)
{
    struct device *d = h->device;
    for (size_t window = 0; window <= 8; window += 4) {
        struct attention_shape shape = {
            .queries = 9, .start = 6, .batch = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .mask.window = window};
        shape.value_dim = window == 4 ? 5 : 0;
        size_t value = attention_value_dim(shape);
        struct tensor q = bf16(h, 18, 24), o = bf16(h, 18, 4 * value), grad_o = bf16(h, 18, 4 * value);
        struct tensor k = bf16(h, 34, 12), v = bf16(h, 34, 2 * value), logsumexp = f32(h, 18, 4);
        struct tensor grad_q = bf16(h, 18, 24), grad_k = f32(h, 8, 12), grad_v = f32(h, 8, 2 * value);
        size_t rows = 2 * keys_read(&shape);
        struct tensor k_read = tensor_rows(k, 0, rows), v_read = tensor_rows(v, 0, rows);
        struct key_segment segment = {10, 4, grad_k, grad_v, {0}};
        op_attention_forward(d, shape, o, logsumexp, q, k, v);
        expect(h, "attention_forward", LIST(q, k_read, v_read), LIST(o, logsumexp));
        op_attention_backward(d, shape, grad_q, false, &segment, 1, grad_o, o, logsumexp, q, k, v);
        expect(h, "attention_backward", LIST(q, o, grad_o, k_read, v_read, logsumexp, grad_k, grad_v),
               LIST(grad_q, grad_k, grad_v));
        op_attention_backward(d, shape, grad_q, true, &segment, 1, grad_o, o, logsumexp, q, k, v);
        expect(h, "attention_backward", LIST(q, o, grad_o, k_read, v_read, logsumexp, grad_k, grad_v, grad_q),
               LIST(grad_q, grad_k, grad_v));
        struct tensor other = bf16(h, 18, 4 * value), other_logsumexp = f32(h, 18, 4), sum = f32(h, 18, 4 * value);
        op_attention_merge(d, o, logsumexp, other, other_logsumexp);
        expect(h, "attention_merge", LIST(o, other, logsumexp, other_logsumexp), LIST(o, logsumexp));
        op_attention_merge(d, sum, logsumexp, other, other_logsumexp);
        expect(h, "attention_merge", LIST(sum, other, logsumexp, other_logsumexp), LIST(sum, logsumexp));
        struct tensor sinks = bf16(h, 1, 4), grad_sinks = f32(h, 1, 4);
        op_attention_sink_forward(d, o, logsumexp, sinks);
        expect(h, "attention_sink_forward", LIST(o, logsumexp, sinks), LIST(o, logsumexp));
        op_attention_sink_backward(d, grad_sinks, grad_o, o, logsumexp, sinks);
        expect(h, "attention_sink_backward", LIST(grad_o, o, logsumexp, sinks, grad_sinks), LIST(grad_sinks));
    }
}

// Two sequences with prefixes and documents of several lengths read their own keys: 0 .. 2 and 5 .. 9, 0 and 6 ..
// 9.
static void documents(struct held *h)
{
    struct device *d = h->device;
    int32_t starts[] = {5, 6, 5, 6, 8, 6}, prefixes[] = {3, 1};
    struct documents of = {
        .starts = starts, .prefixes = prefixes, .device_starts = i32(h, 6), .device_prefixes = i32(h, 2)};
    struct attention_shape shape = {
        .queries = 3, .start = 7, .batch = 2, .heads = 2, .kv_heads = 2, .head_dim = 6, .mask.documents = of};
    struct tensor q = bf16(h, 6, 12), o = bf16(h, 6, 12), k = bf16(h, 20, 12), v = bf16(h, 20, 12);
    struct tensor logsumexp = f32(h, 6, 2);
    size_t rows = 3 + 5 + 1 + 4;
    op_attention_forward(d, shape, o, logsumexp, q, k, v);
    expect(h, "attention_forward",
           LIST(q, tensor_rows(k, 0, rows), tensor_rows(v, 0, rows), of.device_starts, of.device_prefixes),
           LIST(o, logsumexp));
}

static void heads(struct held *h)
{
    struct device *d = h->device;
    struct tensor table = bf16(h, 31, 5), ids = i32(h, 6), y = bf16(h, 6, 5), grad_table = f32(h, 31, 5);
    op_embedding_forward(d, y, table, ids);
    expect(h, "embedding_forward", LIST(y, ids), LIST(y)); // of the table as many rows as y has
    op_embedding_backward(d, grad_table, y, ids, -1);
    expect(h, "embedding_backward", LIST(y, y, ids), LIST(y));
    struct tensor logits = bf16(h, 6, 31), targets = i32(h, 6), loss = of(h, 1, 1, DTYPE_F64);
    struct tensor log_prob = f32(h, 6, 1), logsumexp = f32(h, 6, 1), grad = f32(h, 6, 1);
    op_cross_entropy(d, logits, targets, loss, 1, 1, 0);
    expect(h, "cross_entropy", LIST(logits, targets), LIST(logits));
    struct tensor whole = f32(h, 6, DISTRIBUTION), none = tensor_none();
    op_log_prob(d, log_prob, logsumexp, none, logits, targets, 0);
    expect(h, "log_prob", LIST(logits, targets), LIST(log_prob, logsumexp));
    op_log_prob(d, log_prob, logsumexp, whole, logits, targets, 0);
    expect(h, "log_prob", LIST(logits, targets), LIST(log_prob, logsumexp, whole));
    op_log_prob_backward(d, logits, logsumexp, targets, grad, none, 0);
    expect(h, "log_prob_backward", LIST(logits, logsumexp, targets, grad), LIST(logits));
    op_log_prob_backward(d, logits, logsumexp, targets, grad, whole, 0);
    expect(h, "log_prob_backward", LIST(logits, logsumexp, targets, grad, whole), LIST(logits));
    struct objective_block block = {.sequences = 2,
                                    .of = i32(h, 6),
                                    .targets = targets,
                                    .log_prob = log_prob,
                                    .weights = f32(h, 6, 1),
                                    .shares = f32(h, 6, 1),
                                    .old = f32(h, 6, 1),
                                    .reference = f32(h, 6, 1),
                                    .token_advantages = f32(h, 6, 1)};
    op_objective_rows(d, (struct row_terms){.beta = 1}, grad, loss, block, 1, 1);
    expect(h, "objective_rows",
           LIST(block.of, targets, log_prob, block.weights, block.shares, block.old, block.reference,
                block.token_advantages),
           LIST(grad));
    block.logsumexp = logsumexp;
    block.distribution = whole;
    op_objective_rows(d, (struct row_terms){.beta = 1, .z_loss = 1}, grad, loss, block, 1, 1);
    expect(h, "objective_rows",
           LIST(block.of, targets, log_prob, logsumexp, whole, block.weights, block.shares, block.old,
                block.reference, block.token_advantages),
           LIST(grad, whole));
    struct tensor sums = of(h, 2, 1, DTYPE_F64), counts = i32(h, 2), advantages = f32(h, 2, GAINS);
    op_sequence_sums(d, sums, block, block.reference);
    expect(h, "sequence_sums", LIST(block.of, targets, log_prob, block.reference, block.shares, sums), LIST(sums));
    struct sequence_terms terms = {.kind = SEQUENCE_RATIO};
    op_sequence_costs(d, terms, sums, loss, counts, advantages, 1);
    expect(h, "sequence_costs", LIST(sums, counts, advantages), LIST(sums));
}

static void recurrences(struct held *h)
{
    struct device *d = h->device;
    int32_t starts[] = {0, 0, 9, 0, 9, 10}, prefixes[] = {9, 10};
    struct documents documents = {
        .starts = starts, .prefixes = prefixes, .device_starts = i32(h, 6), .device_prefixes = i32(h, 2)};
    struct tensor s = documents.device_starts, p = documents.device_prefixes, none = {0};
    struct run_shape run = {3, 8, 2, documents};
    struct tensor x = bf16(h, 6, 22), y = bf16(h, 6, 22), tail = bf16(h, 6, 22), base = bf16(h, 6, 22);
    struct tensor weight = bf16(h, 22, 4), grad_weight = f32(h, 22, 4), grad_y = bf16(h, 6, 22);
    struct tensor grad_tail = f32(h, 6, 22), grad_base = f32(h, 6, 22);
    op_short_conv_forward(d, run, y, x, tail, base, weight);
    expect(h, "short_conv_forward", LIST(x, tail, weight, s, p), LIST(y, tail, base));
    op_short_conv_backward(d, run, y, grad_tail, grad_base, grad_weight, grad_y, x, tail, base, weight);
    expect(h, "short_conv_backward", LIST(grad_tail, grad_base, grad_weight, grad_y, x, tail, base, weight, s, p),
           LIST(y, grad_tail, grad_base, grad_weight));
    struct tensor a = bf16(h, 6, 2), b = bf16(h, 6, 2), a_log = bf16(h, 1, 2), dt_bias = bf16(h, 1, 2);
    struct tensor decay = f32(h, 6, 2), beta = f32(h, 6, 2), grad_decay = f32(h, 6, 2), grad_beta = f32(h, 6, 2);
    struct tensor grad_log = f32(h, 1, 2), grad_bias = f32(h, 1, 2), grad_a = bf16(h, 6, 2), grad_b = bf16(h, 6, 2);
    op_delta_gates_forward(d, decay, beta, a, b, a_log, dt_bias, 1);
    expect(h, "delta_gates_forward", LIST(a, b, a_log, dt_bias), LIST(decay, beta));
    op_delta_gates_backward(d, grad_a, grad_b, grad_log, grad_bias, grad_decay, grad_beta, a, b, a_log, dt_bias, 1);
    expect(h, "delta_gates_backward", LIST(a, b, a_log, dt_bias, grad_decay, grad_beta, grad_log, grad_bias),
           LIST(grad_a, grad_b, grad_log, grad_bias));
    // One key head of 4, two value heads of 7.
    struct delta_shape shape = {run, 1, 2, 4, 7};
    struct tensor state = f32(h, 4, 28), state_base = f32(h, 4, 28), o = bf16(h, 6, 14), k_and_v = bf16(h, 6, 18);
    struct tensor grad_qkv = bf16(h, 6, 22), grad_state = f32(h, 4, 28), grad_state_base = f32(h, 4, 28);
    op_delta_rule_forward(d, shape, o, state, state_base, x, decay, beta);
    expect(h, "delta_rule_forward", LIST(x, state, decay, beta, s, p), LIST(o, state, state_base));
    op_delta_rule_forward(d, shape, none, state, state_base, x, decay, beta);
    expect(h, "delta_rule_forward", LIST(k_and_v, state, decay, beta, s, p), LIST(state, state_base));
    op_delta_rule_backward(d, shape, grad_qkv, grad_decay, grad_beta, grad_state, grad_state_base, o, state,
                           state_base, x, decay, beta);
    expect(h, "delta_rule_backward", LIST(o, x, decay, beta, state, state_base, grad_state, grad_state_base, s, p),
           LIST(grad_qkv, grad_decay, grad_beta, grad_state, grad_state_base));
    struct tensor transition = f32(h, 4, 16), transition_base = f32(h, 4, 16), k = bf16(h, 6, 4);
    op_delta_identity(d, transition, 4);
    expect(h, "delta_identity", LIST(none), LIST(transition));
    op_delta_transition(d, shape, transition, transition_base, x, decay, beta);
    expect(h, "delta_transition", LIST(k, decay, beta, transition, transition_base, s, p), LIST(transition));
    op_delta_carry(d, grad_state, transition, 4, TRANSPOSE);
    expect(h, "delta_carry", LIST(grad_state, transition), LIST(grad_state));
}

// Six tokens that take two of eight experts; a block of 5 of the 12 rows is charged 5 experts' matrices.
static void experts(struct held *h)
{
    struct device *d = h->device;
    const struct routing routing = {.experts = 8, .chosen = 2, .scale = 1};
    struct tensor logits = f32(h, 6, 8), bias = f32(h, 1, 8), choices = i32(h, 6), weights = f32(h, 6, 2);
    struct tensor rows = tensor_reshape(i32(h, 12), 6, 2), slots = i32(h, 12), starts = i32(h, 9), five = i32(h, 5);
    op_route_forward(d, routing, choices, weights, logits, bias, false);
    expect(h, "route_forward", LIST(logits, bias), LIST(choices, weights));
    struct tensor totals = of(h, 2, 18, DTYPE_F64), repeats = i32(h, 6), row_sums = f32(h, 6, 2);
    op_route_count(d, routing, totals, choices, logits, true, repeats, row_sums);
    expect(h, "route_count", LIST(totals, choices, logits, logits, repeats, row_sums), LIST(totals, row_sums));
    op_route_backward(d, routing, logits, choices, weights, (struct router_terms){.balance = 1}, totals, repeats);
    expect(h, "route_backward", LIST(logits, choices, weights, totals, repeats), LIST(logits));
    op_permute_slots(d, routing, rows, slots, starts, choices);
    expect(h, "permute_slots", LIST(choices), LIST(rows, slots, starts));
    struct tensor x = bf16(h, 6, 10), block = bf16(h, 5, 10), sums = f32(h, 6, 10), out = bf16(h, 5, 4);
    op_gather_slots(d, block, x, slots, 2, 3);
    expect(h, "gather_slots", LIST(block, five), LIST(block));
    op_scatter_slots(d, sums, block, rows, weights, 3);
    expect(h, "scatter_slots", LIST(sums, block, rows, weights), LIST(sums));
    struct tensor matrices = bf16(h, 32, 10), read = bf16(h, 20, 10), grad = f32(h, 32, 10), added = f32(h, 20, 10);
    const struct expert_rows of = {starts, 12, 3, 0};
    op_grouped_gemm(d, of, out, block, NO_TRANSPOSE, matrices, TRANSPOSE, 1);
    expect(h, "grouped_gemm", LIST(block, read), LIST(out));
    op_grouped_gemm(d, of, block, out, NO_TRANSPOSE, matrices, NO_TRANSPOSE, 1);
    expect(h, "grouped_gemm", LIST(out, read), LIST(block));
    op_grouped_gemm(d, of, grad, out, TRANSPOSE, block, NO_TRANSPOSE, 0.5);
    expect(h, "grouped_gemm", LIST(out, block, added), LIST(added));
    // Four of the eight are charged half of all that.
    const struct expert_rows half = {tensor_rows(starts, 4, 5), 12, 3, 8};
    struct tensor half_block = bf16(h, 5, 5), half_out = bf16(h, 5, 2), half_read = bf16(h, 10, 10);
    op_grouped_gemm(d, half, out, block, NO_TRANSPOSE, tensor_rows(matrices, 16, 16), TRANSPOSE, 1);
    expect(h, "grouped_gemm", LIST(half_block, half_read), LIST(half_out));
    struct tensor y = bf16(h, 5, 5), of_rows = f32(h, 5, 1);
    op_expert_act_forward(d, y, block, (struct expert_act){0});
    expect(h, "expert_act_forward", LIST(block), LIST(y));
    op_expert_act_backward(d, block, y, weights, weights, slots, 3, (struct expert_act){0});
    expect(h, "expert_act_backward", LIST(block, y, of_rows, five), LIST(block, y, of_rows));
}

static void updates(struct held *h)
{
    struct device *d = h->device;
    struct tensor w = bf16(h, 20, 30), master = f32(h, 20, 30), g = f32(h, 20, 30), none = {0};
    struct tensor m = f32(h, 20, 30), v = f32(h, 20, 30);
    const struct adam_step step = {.t = 1};
    op_adamw(d, w, none, g, m, v, &step);
    expect(h, "adamw", LIST(w, g, m, v), LIST(w, m, v));
    op_adamw(d, w, master, g, m, v, &step);
    expect(h, "adamw", LIST(master, g, m, v), LIST(w, master, m, v));
    const struct sgd_step sgd = {.rate = 1};
    op_sgd(d, w, none, g, none, &sgd);
    expect(h, "sgd", LIST(w, g), LIST(w));
    op_sgd(d, w, master, g, m, &sgd);
    expect(h, "sgd", LIST(master, g, m), LIST(w, master, m));
    size_t blocks = (600 + MAP_BLOCK - 1) / MAP_BLOCK;
    struct coded_moments moments = {i32(h, 150), i32(h, 150), f32(h, blocks, 1), f32(h, blocks, 1)};
    op_adamw_coded(d, w, g, moments, &step);
    expect(h, "adamw_coded", LIST(w, g, moments.m, moments.v, moments.m_scale, moments.v_scale),
           LIST(w, moments.m, moments.v, moments.m_scale, moments.v_scale));
}

static void operations_count_what_they_move(void **state)
{
    (void)state;
    struct status status = {0};
    struct held held = {.device = device_open("plan-cuda", DTYPE_BF16, 0, &status)};
    assert_non_null(held.device);
    copies(&held);
    products(&held);
    norms(&held);
    attentions(&held);
    documents(&held);
    heads(&held);
    recurrences(&held);
    experts(&held);
    updates(&held);
    // All that there are, but for random numbers, which are no part of a step.
    static const char *const all[] = {
#define OPERATION(name) #name,
        DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool found = strcmp(all[i], "random_normal") == 0;
        for (size_t j = 0; j < held.count; j++)
            found |= strcmp(all[i], held.names[j]) == 0;
        if (!found)
            fail_msg("%s: its bytes are held to nothing", all[i]);
    }
    for (size_t i = 0; i < held.tensor_count; i++)
        tensor_free(held.device, &held.tensors[i]);
    device_close(held.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_count_what_they_move)};
    return cmocka_run_group_tests_name("bytes moved", tests, NULL, NULL);
}
