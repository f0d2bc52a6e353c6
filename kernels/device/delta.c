// The fronts of Gated DeltaNet. The rule's FLOPs are counted by blocks, per value head: products with triangles of
// a block's tokens as triangles, with c tokens, K numbers of a key and V of a value
//     forward           2 c^2 (K + V) + 6 c K V
//     states alone      c (c - 1) (K + V) + 4 c K V
//     backward          twice the forward's, the states, and 2 c^2 K for a block's products of keys and queries
//     again
// Runs are taken in parts of DELTA_PART tokens, by the forward, too, so that its states are the backward's to the
// bit; the backward runs the states of all parts but the last once more, for their borders.
#include "kernels/device/front.h"
#include "kernels/device/ops.h"

static void check_run(const struct device *device, const struct run_shape *run, struct tensor x)
{
    const struct documents *of = &run->documents;
    CHECK(run->batch > 0 && run->tokens > 0 && x.rows == run->tokens * run->batch && x.dtype == device->ops->dtype);
    CHECK(!of->starts == !of->device_starts.data && !of->prefixes == !of->device_prefixes.data);
    check_documents(of, x.rows, run->batch);
}

// A tensor that is carried over a run's borders, and base of the same shape where there are prefixes.
static void check_carry(const struct run_shape *run, struct tensor carry, struct tensor base, size_t rows,
                        size_t cols, enum dtype dtype)
{
    CHECK(carry.rows == rows && carry.cols == cols && carry.dtype == dtype);
    CHECK(base.data ? same_shape(base, carry) && base.dtype == dtype : !run->documents.prefixes);
}

static double document_bytes(const struct run_shape *run)
{
    return bytes(run->documents.device_starts) + bytes(run->documents.device_prefixes);
}

static void check_conv(const struct device *device, const struct run_shape *run, struct tensor y, struct tensor x,
                       struct tensor tail, struct tensor base, struct tensor weight)
{
    check_run(device, run, x);
    check_carry(run, tail, base, 3 * run->batch, x.cols, x.dtype);
    CHECK(same_shape(y, x) && weight.rows == x.cols && weight.cols == 4);
}

void op_short_conv_forward(struct device *device, struct run_shape run, struct tensor y, struct tensor x,
                           struct tensor tail, struct tensor base, struct tensor weight)
{
    if (failed(device))
        return;
    check_conv(device, &run, y, x, tail, base, weight);
    if (begin(device, operation(WORK_CONV, "short_conv_forward"), 0,
              bytes(y) + bytes(x) + 2 * bytes(tail) + bytes(base) + bytes(weight) + document_bytes(&run))) {
        device->ops->short_conv_forward(device, run, y, x, tail, base, weight);
        range_pop(device);
    }
}

void op_short_conv_backward(struct device *device, struct run_shape run, struct tensor grad_x,
                            struct tensor grad_tail, struct tensor grad_base, struct tensor grad_weight,
                            struct tensor grad_y, struct tensor x, struct tensor tail, struct tensor base,
                            struct tensor weight)
{
    if (failed(device))
        return;
    check_conv(device, &run, grad_y, x, tail, base, weight);
    check_carry(&run, grad_tail, grad_base, tail.rows, x.cols, dtype_statistic(x.dtype));
    CHECK(same_shape(grad_x, x) && grad_x.data != x.data && (!grad_weight.data || same_shape(grad_weight, weight)));
    if (begin(device, operation(WORK_CONV, "short_conv_backward"), 0,
              bytes(grad_x) + bytes(grad_y) + bytes(x) + 2 * (bytes(grad_tail) + bytes(grad_base)) + bytes(tail) +
                  bytes(base) + 2 * bytes(grad_weight) + bytes(weight) + document_bytes(&run))) {
        device->ops->short_conv_backward(device, run, grad_x, grad_tail, grad_base, grad_weight, grad_y, x, tail,
                                         base, weight);
        range_pop(device);
    }
}

static bool is_gate(struct tensor t, struct tensor a, enum dtype dtype)
{
    return same_shape(t, a) && t.dtype == dtype;
}

static bool is_per_head(struct tensor t, struct tensor a)
{
    return t.rows == 1 && t.cols == a.cols;
}

void op_delta_gates_forward(struct device *device, struct tensor decay, struct tensor beta, struct tensor a,
                            struct tensor b, struct tensor a_log, struct tensor dt_bias, double scale)
{
    if (failed(device))
        return;
    enum dtype statistic = dtype_statistic(a.dtype);
    CHECK(is_gate(decay, a, statistic) && is_gate(beta, a, statistic) && is_gate(b, a, a.dtype) &&
          is_per_head(a_log, a) && is_per_head(dt_bias, a));
    if (begin(device, operation(WORK_DELTA_FORWARD, "delta_gates_forward"), 0,
              2 * (bytes(decay) + bytes(a) + bytes(a_log)))) {
        device->ops->delta_gates_forward(device, decay, beta, a, b, a_log, dt_bias, scale);
        range_pop(device);
    }
}

void op_delta_gates_backward(struct device *device, struct tensor grad_a, struct tensor grad_b,
                             struct tensor grad_a_log, struct tensor grad_dt_bias, struct tensor grad_decay,
                             struct tensor grad_beta, struct tensor a, struct tensor b, struct tensor a_log,
                             struct tensor dt_bias, double scale)
{
    if (failed(device))
        return;
    enum dtype statistic = dtype_statistic(a.dtype);
    CHECK(is_gate(grad_a, a, a.dtype) && is_gate(grad_b, a, a.dtype) && is_gate(b, a, a.dtype) &&
          is_gate(grad_decay, a, statistic) && is_gate(grad_beta, a, statistic) && is_per_head(a_log, a) &&
          is_per_head(dt_bias, a) && !grad_a_log.data == !grad_dt_bias.data);
    CHECK(!grad_a_log.data || (is_per_head(grad_a_log, a) && is_per_head(grad_dt_bias, a)));
    if (begin(device, operation(WORK_DELTA_BACKWARD, "delta_gates_backward"), 0,
              2 * (bytes(grad_a) + bytes(grad_decay) + bytes(a) + bytes(a_log) + 2 * bytes(grad_a_log)))) {
        device->ops->delta_gates_backward(device, grad_a, grad_b, grad_a_log, grad_dt_bias, grad_decay, grad_beta,
                                          a, b, a_log, dt_bias, scale);
        range_pop(device);
    }
}

// The sum over all sequences' blocks of the square of their tokens.
static double block_squares(const struct run_shape *run)
{
    const struct documents *of = &run->documents;
    double squares = 0;
    for (size_t b = 0; b < (of->starts ? run->batch : 1); b++) {
        struct run_sequence s = run_sequence_of(run, of->starts, of->prefixes, b);
        for (size_t t = 0, end; t < run->tokens; t = end) {
            end = delta_block_end(&s, t);
            squares += (double)(end - t) * (double)(end - t);
        }
    }
    return of->starts ? squares : squares * (double)run->batch;
}

static double states_flops(const struct delta_shape *s, size_t value_dim)
{
    double tokens = (double)s->run.tokens * s->run.batch, squares = block_squares(&s->run);
    double k = s->key_dim, v = value_dim;
    return s->heads * ((squares - tokens) * (k + v) + 4 * tokens * k * v);
}

double delta_forward_flops(const struct delta_shape *s)
{
    double tokens = (double)s->run.tokens * s->run.batch, k = s->key_dim, v = s->value_dim;
    return s->heads * (2 * block_squares(&s->run) * (k + v) + 6 * tokens * k * v);
}

static double backward_flops(const struct delta_shape *s)
{
    return 2 * delta_forward_flops(s) + states_flops(s, s->value_dim) +
           2.0 * s->heads * s->key_dim * block_squares(&s->run);
}

static size_t query_cols(const struct delta_shape *s)
{
    return s->key_heads * s->key_dim;
}

static void check_rule(const struct device *device, const struct delta_shape *s, struct tensor qkv,
                       struct tensor decay, struct tensor beta)
{
    enum dtype statistic = dtype_statistic(qkv.dtype);
    check_run(device, &s->run, qkv);
    CHECK(s->key_heads > 0 && s->heads % s->key_heads == 0 &&
          qkv.cols == 2 * query_cols(s) + s->heads * s->value_dim);
    CHECK(s->key_dim > 0 && s->key_dim <= DELTA_DIM_MAX && s->value_dim > 0 && s->value_dim <= DELTA_DIM_MAX);
    CHECK(decay.rows == qkv.rows && decay.cols == s->heads && decay.dtype == statistic);
    CHECK(is_gate(beta, decay, statistic));
}

static void check_state(const struct delta_shape *s, struct tensor state, struct tensor base, struct tensor qkv)
{
    check_carry(&s->run, state, base, s->run.batch * s->heads, s->key_dim * s->value_dim,
                dtype_statistic(qkv.dtype));
}

// Up to DELTA_PART tokens of a run, from `first` on.
static struct delta_shape part_of(const struct delta_shape *shape, size_t first)
{
    struct delta_shape part = *shape;
    struct documents *of = &part.run.documents;
    size_t row = first * shape->run.batch;
    part.run.start += first;
    part.run.tokens = smaller(shape->run.tokens - first, DELTA_PART);
    if (of->starts) {
        of->starts += row;
        of->device_starts = tensor_rows(of->device_starts, row, part.run.tokens * shape->run.batch);
    }
    return part;
}

static struct tensor rows_of_part(const struct delta_shape *part, const struct delta_shape *whole, struct tensor t)
{
    size_t row = (part->run.start - whole->run.start) * whole->run.batch;
    return tensor_rows(t, row, part->run.tokens * whole->run.batch);
}

static void forward_part(struct device *device, const struct delta_shape *part, struct tensor o,
                         struct tensor state, struct tensor base, struct tensor qkv, struct tensor decay,
                         struct tensor beta)
{
    struct tensor not_read = tensor_none();
    not_read.rows = o.data ? 0 : qkv.rows, not_read.cols = query_cols(part), not_read.dtype = qkv.dtype;
    double moved = bytes(qkv) - (double)tensor_bytes(not_read) + bytes(o) + 2 * bytes(state) + bytes(base) +
                   2 * bytes(decay) + document_bytes(&part->run);
    if (begin(device, operation(WORK_DELTA_FORWARD, "delta_rule_forward"),
              o.data ? delta_forward_flops(part) : states_flops(part, part->value_dim), moved)) {
        device->ops->delta_rule_forward(device, *part, o, state, base, qkv, decay, beta);
        range_pop(device);
    }
}

void op_delta_rule_forward(struct device *device, struct delta_shape shape, struct tensor o, struct tensor state,
                           struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    if (failed(device))
        return;
    check_rule(device, &shape, qkv, decay, beta);
    check_state(&shape, state, base, qkv);
    CHECK(!o.data || (o.rows == qkv.rows && o.cols == shape.heads * shape.value_dim));
    for (size_t first = 0; first < shape.run.tokens; first += DELTA_PART) {
        struct delta_shape part = part_of(&shape, first);
        forward_part(device, &part, rows_of_part(&part, &shape, o), state, base, rows_of_part(&part, &shape, qkv),
                     rows_of_part(&part, &shape, decay), rows_of_part(&part, &shape, beta));
    }
}

// A part's rows of the operands of the backward, and the state before it.
struct delta_backward {
    struct delta_shape shape;
    struct tensor grad_qkv, grad_decay, grad_beta, grad_o, qkv, decay, beta, state;
};

static void backward_part(struct device *device, struct delta_backward p, struct tensor grad_state,
                          struct tensor grad_base, struct tensor base)
{
    size_t wanted = device->ops->rules->delta_backward_workspace(device, p.shape);
    struct tensor workspace = tensor_new(device, 1, wanted / sizeof(double) + 1, DTYPE_F64, CATEGORY_WORKSPACE);
    if (failed(device))
        return;
    double moved = bytes(p.grad_qkv) + bytes(p.qkv) + bytes(p.grad_o) + 4 * bytes(p.decay) +
                   2 * (bytes(grad_state) + bytes(grad_base)) + bytes(p.state) + bytes(base) +
                   document_bytes(&p.shape.run);
    if (begin(device, operation(WORK_DELTA_BACKWARD, "delta_rule_backward"), backward_flops(&p.shape), moved)) {
        device->ops->delta_rule_backward(device, p.shape, p.grad_qkv, p.grad_decay, p.grad_beta, grad_state,
                                         grad_base, p.grad_o, p.state, base, p.qkv, p.decay, p.beta, workspace);
        range_pop(device);
    }
    tensor_free(device, &workspace);
}

void op_delta_rule_backward(struct device *device, struct delta_shape shape, struct tensor grad_qkv,
                            struct tensor grad_decay, struct tensor grad_beta, struct tensor grad_state,
                            struct tensor grad_base, struct tensor grad_o, struct tensor state, struct tensor base,
                            struct tensor qkv, struct tensor decay, struct tensor beta)
{
    if (failed(device))
        return;
    check_rule(device, &shape, qkv, decay, beta);
    check_state(&shape, state, base, qkv);
    check_state(&shape, grad_state, grad_base, qkv);
    CHECK(same_shape(grad_qkv, qkv) && grad_qkv.data != qkv.data && is_gate(grad_decay, decay, decay.dtype) &&
          is_gate(grad_beta, decay, decay.dtype));
    CHECK(grad_o.rows == qkv.rows && grad_o.cols == shape.heads * shape.value_dim);
    size_t parts = (shape.run.tokens + DELTA_PART - 1) / DELTA_PART;
    // The states before all parts but the first, and what the forward makes of base anew.
    struct tensor borders = tensor_none(), again = tensor_none(), before = state;
    if (parts > 1)
        borders = tensor_new(device, (parts - 1) * state.rows, state.cols, state.dtype, CATEGORY_WORKSPACE);
    if (parts > 1 && base.data) {
        again = tensor_new(device, base.rows, base.cols, base.dtype, CATEGORY_WORKSPACE);
        op_copy(device, again, base);
    }
    for (size_t i = 0; i + 1 < parts && !failed(device); i++) {
        struct delta_shape part = part_of(&shape, i * DELTA_PART);
        struct tensor behind = tensor_rows(borders, i * state.rows, state.rows);
        op_copy(device, behind, before);
        forward_part(device, &part, tensor_none(), behind, again, rows_of_part(&part, &shape, qkv),
                     rows_of_part(&part, &shape, decay), rows_of_part(&part, &shape, beta));
        before = behind;
    }
    for (size_t i = parts; i-- > 0 && !failed(device);) {
        struct delta_shape part = part_of(&shape, i * DELTA_PART);
        struct delta_backward of_part = {
            part,
            rows_of_part(&part, &shape, grad_qkv),
            rows_of_part(&part, &shape, grad_decay),
            rows_of_part(&part, &shape, grad_beta),
            rows_of_part(&part, &shape, grad_o),
            rows_of_part(&part, &shape, qkv),
            rows_of_part(&part, &shape, decay),
            rows_of_part(&part, &shape, beta),
            i > 0 ? tensor_rows(borders, (i - 1) * state.rows, state.rows) : state,
        };
        backward_part(device, of_part, grad_state, grad_base, base);
    }
    tensor_free(device, &again);
    tensor_free(device, &borders);
}

void op_delta_identity(struct device *device, struct tensor transition, size_t key_dim)
{
    if (failed(device))
        return;
    CHECK(transition.cols == key_dim * key_dim && transition.dtype == dtype_statistic(transition.dtype));
    RUN(device, WORK_COPY, delta_identity, bytes(transition), transition, key_dim);
}

void op_delta_transition(struct device *device, struct delta_shape shape, struct tensor transition,
                         struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    if (failed(device))
        return;
    check_rule(device, &shape, qkv, decay, beta);
    check_carry(&shape.run, transition, base, shape.run.batch * shape.heads, shape.key_dim * shape.key_dim,
                decay.dtype);
    double keys = (double)qkv.rows * query_cols(&shape) * dtype_bytes(qkv.dtype);
    if (begin(device, operation(WORK_DELTA_BACKWARD, "delta_transition"), states_flops(&shape, shape.key_dim),
              keys + 2 * (bytes(decay) + bytes(transition)) + bytes(base) + document_bytes(&shape.run))) {
        device->ops->delta_transition(device, shape, transition, base, qkv, decay, beta);
        range_pop(device);
    }
}

void op_delta_carry(struct device *device, struct tensor state, struct tensor transition, size_t key_dim,
                    enum transpose transpose)
{
    if (failed(device))
        return;
    CHECK(state.rows == transition.rows && state.dtype == transition.dtype &&
          transition.cols == key_dim * key_dim && state.cols % key_dim == 0);
    if (begin(device, operation(WORK_DELTA_BACKWARD, "delta_carry"), 2.0 * tensor_count(state) * key_dim,
              2 * bytes(state) + bytes(transition))) {
        device->ops->delta_carry(device, state, transition, key_dim, transpose);
        range_pop(device);
    }
}
