#include "kernels/device/ops.h"
#include "kernels/device/dynamic_map.h"
#include "kernels/device/front.h"

static bool is_vector(struct tensor t, size_t length)
{
    return t.rows == 1 && t.cols == length;
}

// Random numbers are set-up, not part of a step's cost.
void op_random_normal(struct device *device, struct tensor t, struct random random, double mean, double deviation,
                      enum dtype rounding)
{
    if (holds_data(device))
        device->ops->random_normal(device, t, random, mean, deviation, rounding);
}

void op_zero(struct device *device, struct tensor t)
{
    if (failed(device))
        return;
    RUN(device, WORK_COPY, zero, bytes(t), t);
}

void op_copy(struct device *device, struct tensor dst, struct tensor src)
{
    if (failed(device))
        return;
    CHECK(tensor_count(dst) == tensor_count(src));
    RUN(device, WORK_COPY, copy, bytes(dst) + bytes(src), dst, src);
}

void op_copy_columns(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t from,
                     size_t cols)
{
    if (failed(device))
        return;
    CHECK(dst.rows == src.rows && dst.dtype == src.dtype && to + cols <= dst.cols && from + cols <= src.cols);
    RUN(device, WORK_COPY, copy_columns, 2.0 * dst.rows * cols * dtype_bytes(dst.dtype), dst, to, src, from, cols);
}

void op_copy_heads(struct device *device, struct tensor dst, size_t to, struct tensor src, size_t heads)
{
    if (failed(device))
        return;
    CHECK(heads > 0 && dst.cols % heads == 0 && to + src.cols <= dst.cols / heads);
    CHECK(dst.rows == src.rows && dst.dtype == src.dtype);
    RUN(device, WORK_COPY, copy_heads, (1.0 + heads) * bytes(src), dst, to, src, heads);
}

void op_sum_heads(struct device *device, struct tensor dst, struct tensor src, size_t from, size_t heads)
{
    if (failed(device))
        return;
    CHECK(heads > 0 && src.cols % heads == 0 && from + dst.cols <= src.cols / heads && dst.rows == src.rows);
    RUN(device, WORK_COPY, sum_heads, 2 * bytes(dst) + 1.0 * heads * tensor_count(dst) * dtype_bytes(src.dtype),
        dst, src, from, heads);
}

void op_accumulate(struct device *device, struct tensor dst, struct tensor src)
{
    if (failed(device))
        return;
    CHECK(tensor_count(dst) == tensor_count(src));
    RUN(device, WORK_COPY, accumulate, 2 * bytes(dst) + bytes(src), dst, src);
}

void op_scale(struct device *device, struct tensor t, double factor)
{
    if (failed(device))
        return;
    RUN(device, WORK_COPY, scale, 2 * bytes(t), t, factor);
}

void op_scale_by(struct device *device, struct tensor t, struct tensor factor)
{
    if (failed(device))
        return;
    CHECK(tensor_count(factor) == 1 && factor.dtype == t.dtype && t.dtype == device->ops->dtype);
    RUN(device, WORK_COPY, scale_by, 2 * bytes(t) + bytes(factor), t, factor);
}

// d = alpha * op(a) * op(b) + beta * c. c may be d; else alpha and beta are 1.
struct product {
    struct tensor d, c, a, b;
    enum transpose transpose_a, transpose_b;
    double alpha, beta;
};

static void gemm(struct device *device, struct product p)
{
    struct tensor d = p.d, a = p.a, b = p.b;
    if (!holds(device, a, "gemm") || !holds(device, b, "gemm") || !holds(device, p.c, "gemm") ||
        !holds(device, d, "gemm"))
        return;
    struct range range = operation(WORK_GEMM, "gemm");
    range.m = d.rows, range.n = d.cols, range.k = p.transpose_a ? a.rows : a.cols;
    range.transpose_a = p.transpose_a == TRANSPOSE, range.transpose_b = p.transpose_b == TRANSPOSE;
    if (begin(device, range, 2.0 * d.rows * d.cols * range.k,
              bytes(a) + bytes(b) + bytes(d) * (p.beta != 0 ? 2 : 1))) {
        if (p.c.data == d.data)
            device->ops->gemm(device, d, a, p.transpose_a, b, p.transpose_b, p.alpha, p.beta);
        else
            device->ops->gemm_onto(device, d, p.c, a, p.transpose_a, b, p.transpose_b);
        range_pop(device);
    }
}

// Cuts the rows of a, which are d's rows or, if a is transposed, the summed dimension.
static void gemm_in_parts(struct device *device, struct product p)
{
    if (failed(device))
        return;
    struct tensor a = p.a, b = p.b;
    size_t m = p.transpose_a ? a.cols : a.rows, k = p.transpose_a ? a.rows : a.cols;
    size_t kb = p.transpose_b ? b.cols : b.rows, n = p.transpose_b ? b.rows : b.cols;
    CHECK(k == kb && p.d.rows == m && p.d.cols == n && same_shape(p.c, p.d) && p.c.dtype == p.d.dtype);
    size_t max = part_rows(device, a.rows, larger(a.cols, n));
    if (max == a.rows || max == 0 || (p.transpose_a && p.transpose_b)) {
        gemm(device, p);
        return;
    }
    struct product part = p;
    for (size_t row = 0; row < a.rows && !failed(device); row += max) {
        size_t rows = smaller(max, a.rows - row);
        part.a = tensor_rows(a, row, rows);
        if (p.transpose_a) {
            part.b = tensor_rows(b, row, rows);
            gemm(device, part);
            part.c = p.d;
            part.beta = 1;
        } else {
            part.c = tensor_rows(p.c, row, rows);
            part.d = tensor_rows(p.d, row, rows);
            gemm(device, part);
        }
    }
}

void op_gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a, struct tensor b,
             enum transpose transpose_b, double alpha, double beta)
{
    gemm_in_parts(device, (struct product){c, c, a, b, transpose_a, transpose_b, alpha, beta});
}

void op_gemm_onto(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                  enum transpose transpose_a, struct tensor b, enum transpose transpose_b)
{
    gemm_in_parts(device, (struct product){d, c, a, b, transpose_a, transpose_b, 1, 1});
}

void op_low_rank(struct device *device, struct tensor product, struct tensor grad, struct tensor wide,
                 struct tensor factor, enum transpose transpose, struct tensor coefficients, double alpha)
{
    if (failed(device))
        return;
    const struct device_rules *rules = device->ops->rules;
    size_t rank = transpose ? factor.rows : factor.cols;
    if (!rules->takes_low_rank || !rules->takes_low_rank(device, wide.cols, rank)) {
        if (product.data)
            op_gemm(device, product, wide, NO_TRANSPOSE, factor, transpose, alpha, 0);
        if (grad.data) {
            op_gemm(device, grad, transpose ? coefficients : wide, TRANSPOSE, transpose ? wide : coefficients,
                    NO_TRANSPOSE, alpha, 1);
        }
        return;
    }
    CHECK(tensor_count(factor) == wide.cols * rank && (!grad.data || same_shape(grad, factor)));
    CHECK(!product.data || (product.rows == wide.rows && product.cols == rank));
    CHECK(!grad.data || (coefficients.rows == wide.rows && coefficients.cols == rank));
    double products = (product.data ? 1 : 0) + (grad.data ? 1 : 0);
    double moved = bytes(wide) + (product.data ? bytes(factor) + bytes(product) : 0) +
                   (grad.data ? bytes(coefficients) + 2 * bytes(grad) : 0);
    struct cost cost = {
        .flops = products * 2.0 * wide.rows * wide.cols * rank, .bytes = moved, .further_launches = 1};
    if (begin_cost(device, operation(WORK_GEMM, "low_rank"), cost)) {
        device->ops->low_rank(device, product, grad, wide, factor, transpose, coefficients, alpha);
        range_pop(device);
    }
}

void op_bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    if (failed(device))
        return;
    CHECK(is_vector(bias, y.cols) && bias.dtype == y.dtype);
    RUN(device, WORK_BIAS, bias_forward, 2 * bytes(y) + bytes(bias), y, bias);
}

void op_bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    if (failed(device))
        return;
    CHECK(is_vector(grad_bias, grad_y.cols));
    RUN(device, WORK_BIAS, bias_backward, bytes(grad_y) + 2 * bytes(grad_bias), grad_bias, grad_y);
}

static bool is_norm_statistic(struct tensor rstd, struct tensor x, struct norm_shape shape)
{
    return tensor_count(rstd) == x.rows * (shape.centred ? 2 : 1);
}

void op_rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                        struct tensor gain, struct norm_shape shape)
{
    if (failed(device))
        return;
    CHECK(same_shape(x, y) && (!gain.data || is_vector(gain, x.cols)));
    CHECK(!rstd.data || is_norm_statistic(rstd, x, shape));
    RUN(device, WORK_NORM, rmsnorm_forward, bytes(x) + bytes(y) + bytes(gain) + bytes(rstd), y, rstd, x, gain,
        shape);
}

void op_rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                         struct tensor grad_y, struct tensor x, struct tensor gain, struct norm_shape shape,
                         struct tensor rstd)
{
    if (failed(device))
        return;
    CHECK((!grad_x.data || same_shape(grad_x, x)) && same_shape(grad_y, x));
    CHECK(gain.data ? is_vector(gain, x.cols) : !grad_gain.data);
    CHECK(is_norm_statistic(rstd, x, shape) && (!grad_gain.data || is_vector(grad_gain, x.cols)));
    CHECK(!accumulate || (grad_x.data != x.data && grad_x.data != grad_y.data));
    RUN(device, WORK_NORM, rmsnorm_backward,
        bytes(grad_x) * (accumulate ? 2 : 1) + bytes(grad_y) + bytes(x) + bytes(gain) + bytes(rstd) +
            2 * bytes(grad_gain),
        grad_x, accumulate, grad_gain, grad_y, x, gain, shape, rstd);
}

void op_rope(struct device *device, struct tensor x, struct tensor frequencies, struct rope_shape shape,
             size_t start, size_t batch, struct documents documents, int direction)
{
    if (failed(device))
        return;
    CHECK(x.cols % shape.head_dim == 0 && 2 * frequencies.cols <= shape.head_dim && shape.gain != 0);
    CHECK(x.rows % batch == 0 && (direction == 1 || direction == -1));
    check_documents(&documents, x.rows, batch);
    RUN(device, WORK_ROPE, rope, 2 * bytes(x) + bytes(documents.device_starts) + bytes(documents.device_prefixes),
        x, frequencies, shape, start, batch, documents, direction);
}

void op_position_scale(struct device *device, struct tensor x, struct position_scale scale, size_t start,
                       size_t batch, struct documents documents)
{
    if (failed(device))
        return;
    CHECK(x.rows % batch == 0 && scale.length > 0);
    check_documents(&documents, x.rows, batch);
    RUN(device, WORK_ROPE, position_scale,
        2 * bytes(x) + bytes(documents.device_starts) + bytes(documents.device_prefixes), x, scale, start, batch,
        documents);
}

void op_swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up,
                       enum activation activation)
{
    if (failed(device))
        return;
    CHECK(same_shape(y, gate) && same_shape(y, up));
    RUN(device, WORK_SWIGLU, swiglu_forward, 3 * bytes(y), y, gate, up, activation);
}

void op_swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y,
                        enum activation activation)
{
    if (failed(device))
        return;
    CHECK(same_shape(grad_y, gate) && same_shape(grad_y, up));
    RUN(device, WORK_SWIGLU, swiglu_backward, 6 * bytes(grad_y), gate, up, grad_y, activation);
}

void op_gate_forward(struct device *device, struct tensor y, struct tensor x, struct tensor gate)
{
    if (failed(device))
        return;
    CHECK(same_shape(y, x) && same_shape(y, gate));
    RUN(device, WORK_SWIGLU, gate_forward, 3 * bytes(y), y, x, gate);
}

void op_gate_backward(struct device *device, struct tensor grad_x, struct tensor gate, struct tensor grad_y,
                      struct tensor x)
{
    if (failed(device))
        return;
    CHECK(same_shape(grad_x, gate) && same_shape(grad_x, grad_y) && same_shape(grad_x, x));
    RUN(device, WORK_SWIGLU, gate_backward, 5 * bytes(grad_x), grad_x, gate, grad_y, x);
}

void op_embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    if (failed(device))
        return;
    CHECK(y.rows == tensor_count(ids) && y.cols == table.cols);
    RUN(device, WORK_EMBEDDING, embedding_forward, 2 * bytes(y) + bytes(ids), y, table, ids);
}

void op_embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y, struct tensor ids,
                           int32_t padding)
{
    if (failed(device))
        return;
    CHECK(grad_y.rows == tensor_count(ids) && grad_y.cols == grad_table.cols);
    RUN(device, WORK_EMBEDDING, embedding_backward, 3 * bytes(grad_y) + bytes(ids), grad_table, grad_y, ids,
        padding);
}

void op_cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                      double loss_weight, double grad_weight, double cap)
{
    if (failed(device))
        return;
    CHECK(logits.rows == tensor_count(targets) && tensor_count(loss) == 1 && loss.dtype == DTYPE_F64 && cap >= 0);
    RUN(device, WORK_HEAD, cross_entropy, 2 * bytes(logits) + bytes(targets), logits, targets, loss, loss_weight,
        grad_weight, cap);
}

static bool is_statistic(const struct device *device, struct tensor t, size_t rows)
{
    return t.rows == rows && t.cols == 1 && t.dtype == dtype_statistic(device->ops->dtype);
}

static bool is_distribution(const struct device *device, struct tensor t, size_t rows)
{
    return !t.data || (t.rows == rows && t.cols == DISTRIBUTION && t.dtype == dtype_statistic(device->ops->dtype));
}

void op_log_prob(struct device *device, struct tensor log_prob, struct tensor logsumexp, struct tensor distribution,
                 struct tensor logits, struct tensor targets, double cap)
{
    if (failed(device))
        return;
    CHECK(logits.rows == tensor_count(targets) && cap >= 0 && is_statistic(device, log_prob, logits.rows) &&
          is_statistic(device, logsumexp, logits.rows) && is_distribution(device, distribution, logits.rows));
    RUN(device, WORK_HEAD, log_prob,
        bytes(logits) + bytes(targets) + bytes(log_prob) + bytes(logsumexp) + bytes(distribution), log_prob,
        logsumexp, distribution, logits, targets, cap);
}

static bool is_loss(struct tensor loss)
{
    return (loss.rows == 1 || loss.rows == OBJECTIVE_SUMS) && loss.cols == 1 && loss.dtype == DTYPE_F64;
}

static bool is_of(struct tensor t, size_t rows, enum dtype dtype)
{
    return t.rows == rows && t.cols == 1 && t.dtype == dtype;
}

void op_objective_rows(struct device *device, struct row_terms terms, struct tensor grad, struct tensor loss,
                       struct objective_block block, double loss_weight, double grad_weight)
{
    if (failed(device))
        return;
    size_t rows = tensor_count(block.targets);
    CHECK(is_statistic(device, grad, rows) && is_statistic(device, block.log_prob, rows) && is_loss(loss));
    CHECK(terms.z_loss == 0 || is_statistic(device, block.logsumexp, rows));
    CHECK(is_distribution(device, block.distribution, rows));
    CHECK(block.distribution.data || !(row_reads_distribution(&terms) || row_spreads(&terms)));
    CHECK(!block.of.data || is_of(block.of, rows, DTYPE_I32));
    CHECK(!block.weights.data || is_statistic(device, block.weights, rows));
    CHECK(!block.shares.data || is_statistic(device, block.shares, rows));
    CHECK(!block.old.data || is_statistic(device, block.old, rows));
    CHECK(terms.beta == 0 || is_statistic(device, block.reference, rows));
    CHECK(!block.counts.data || is_of(block.counts, block.sequences, DTYPE_I32));
    CHECK(!block.advantages.data || is_statistic(device, block.advantages, block.sequences));
    CHECK(!block.token_advantages.data || is_statistic(device, block.token_advantages, rows));
    CHECK(!block.slopes.data || is_of(block.slopes, block.sequences, DTYPE_F64));
    RUN(device, WORK_HEAD, objective_rows,
        bytes(block.log_prob) + bytes(block.logsumexp) + 2 * bytes(block.distribution) + bytes(block.weights) +
            bytes(block.shares) + bytes(block.old) + bytes(block.reference) + bytes(block.token_advantages) +
            bytes(block.targets) + bytes(block.of) + bytes(grad),
        terms, grad, loss, block, loss_weight, grad_weight);
}

void op_sequence_sums(struct device *device, struct tensor sums, struct objective_block block, struct tensor base)
{
    if (failed(device))
        return;
    size_t rows = tensor_count(block.targets);
    CHECK(is_of(sums, block.sequences, DTYPE_F64) && is_statistic(device, block.log_prob, rows));
    CHECK(!block.of.data || is_of(block.of, rows, DTYPE_I32));
    CHECK(!base.data || is_statistic(device, base, rows));
    CHECK(!block.shares.data || is_statistic(device, block.shares, rows));
    RUN(device, WORK_HEAD, sequence_sums,
        bytes(block.log_prob) + bytes(base) + bytes(block.shares) + bytes(block.targets) + bytes(block.of) +
            2 * bytes(sums),
        sums, block, base);
}

void op_sequence_costs(struct device *device, struct sequence_terms terms, struct tensor sums, struct tensor loss,
                       struct tensor counts, struct tensor advantages, double loss_weight)
{
    if (failed(device))
        return;
    bool pairs = terms.kind == SEQUENCE_PAIRS, counted = terms.mean || terms.kind == SEQUENCE_RATIO;
    CHECK(is_of(sums, sums.rows, DTYPE_F64) && is_loss(loss) && sums.rows % sequence_stride(terms) == 0);
    CHECK(!counted || is_of(counts, sums.rows, DTYPE_I32));
    CHECK(pairs || (advantages.rows == sums.rows && advantages.cols == sequence_gains(terms) &&
                    advantages.dtype == dtype_statistic(device->ops->dtype)));
    RUN(device, WORK_HEAD, sequence_costs, 2 * bytes(sums) + bytes(counts) + bytes(advantages), terms, sums, loss,
        counts, advantages, loss_weight);
}

void op_log_prob_backward(struct device *device, struct tensor logits, struct tensor logsumexp,
                          struct tensor targets, struct tensor grad, struct tensor distribution, double cap)
{
    if (failed(device))
        return;
    CHECK(logits.rows == tensor_count(targets) && cap >= 0 && is_statistic(device, logsumexp, logits.rows) &&
          is_statistic(device, grad, logits.rows) && is_distribution(device, distribution, logits.rows));
    RUN(device, WORK_HEAD, log_prob_backward,
        2 * bytes(logits) + bytes(logsumexp) + bytes(targets) + bytes(grad) + bytes(distribution), logits,
        logsumexp, targets, grad, distribution, cap);
}

// Checks w, or the master updated in its place, and the gradient.
static bool is_update_of(const struct device *device, struct tensor w, struct tensor master, struct tensor g)
{
    enum dtype wide = dtype_accumulator(device->ops->dtype);
    return w.dtype == device->ops->dtype && same_shape(w, g) && (g.dtype == wide || g.dtype == w.dtype) &&
           (!master.data || (same_shape(w, master) && master.dtype == wide));
}

static bool is_moment(const struct device *device, struct tensor w, struct tensor m)
{
    return same_shape(w, m) && (m.dtype == dtype_accumulator(device->ops->dtype) || m.dtype == w.dtype);
}

// Bytes of w, which is written, and read unless there is a master. Counts the same when the master is initialised.
static double update_bytes(struct tensor w, struct tensor master)
{
    return bytes(w) * (master.data ? 1 : 2) + 2 * bytes(master);
}

void op_adamw(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
              struct tensor v, const struct adam_step *step)
{
    if (failed(device))
        return;
    CHECK(is_update_of(device, w, master, g) && is_moment(device, w, m) && is_moment(device, w, v) &&
          m.dtype == v.dtype && step->t > 0);
    RUN(device, WORK_OPTIMIZER, adamw, update_bytes(w, master) + 2 * (bytes(m) + bytes(v)) + bytes(g), w, master, g,
        m, v, step);
}

void op_adamw_coded(struct device *device, struct tensor w, struct tensor g, struct coded_moments moments,
                    const struct adam_step *step)
{
    if (failed(device))
        return;
    size_t words = (tensor_count(w) + 3) / 4, blocks = (tensor_count(w) + MAP_BLOCK - 1) / MAP_BLOCK;
    CHECK(is_update_of(device, w, tensor_none(), g) && step->t > 0 && tensor_count(moments.m) == words &&
          tensor_count(moments.v) == words && tensor_count(moments.m_scale) == blocks &&
          tensor_count(moments.v_scale) == blocks);
    double state = bytes(moments.m) + bytes(moments.v) + bytes(moments.m_scale) + bytes(moments.v_scale);
    RUN(device, WORK_OPTIMIZER, adamw_coded, 2 * (bytes(w) + state) + bytes(g), w, g, moments, step);
}

void op_sgd(struct device *device, struct tensor w, struct tensor master, struct tensor g, struct tensor m,
            const struct sgd_step *step)
{
    if (failed(device))
        return;
    CHECK(is_update_of(device, w, master, g) && (!m.data || is_moment(device, w, m)));
    RUN(device, WORK_OPTIMIZER, sgd, update_bytes(w, master) + 2 * bytes(m) + bytes(g), w, master, g, m, step);
}

void op_dequantise(struct device *device, struct tensor w, enum quantisation quantisation, struct tensor codes,
                   struct tensor scales)
{
    if (failed(device))
        return;
    size_t count = tensor_count(w);
    CHECK(quantisation != QUANTISATION_NONE && w.dtype == device->ops->dtype);
    CHECK(codes.dtype == DTYPE_I32 && tensor_count(codes) == quantised_words(quantisation, count));
    CHECK(scales.dtype == DTYPE_I32 && tensor_count(scales) == quantised_scale_words(quantisation, count));
    RUN(device, WORK_COPY, dequantise, bytes(w) + bytes(codes) + bytes(scales), w, quantisation, codes, scales);
}
