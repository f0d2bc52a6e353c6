// The gated delta rule against its recurrence, token by token, and the gradients of that; and its gates.
#include "tests/cases/runs.h"
#include <string.h>

enum gates { MILD, LONG, KEEP, FORGET, BURSTS, BETAS, NO_KEYS, GATE_KINDS };

static const struct shape {
    size_t tokens, batch, key_heads, heads, k, v;
} shapes[] = {{1, 1, 1, 1, 12, 8},    {2, 3, 2, 2, 12, 20},  {3, 1, 1, 3, 12, 8},   {4, 3, 1, 3, 12, 20},
              {63, 1, 2, 2, 12, 20},  {64, 1, 1, 3, 16, 16}, {65, 3, 1, 1, 12, 20}, {130, 1, 1, 1, 12, 20},
              {130, 3, 1, 3, 12, 20}, {66, 1, 1, 1, 40, 36}, {2118, 1, 1, 1, 4, 5}, {65, 1, 1, 1, 128, 128},
              {130, 1, 1, 2, 128, 96}};
#define SHAPES (sizeof shapes / sizeof *shapes)

// A run of the rule, all in f64, and what the recurrence gives.
struct rule {
    struct case_run run;
    struct shape s;
    struct delta_shape shape;
    struct operand *qkv, *decay, *beta, *state, *base;
};

static struct rule rule_new(struct cases *c, struct shape s, enum gates kind, enum run_documents documents)
{
    struct rule r = {.run = case_run_new(c, s.tokens, s.batch, documents), .s = s};
    size_t rows = s.tokens * s.batch, keys = s.key_heads * s.k, cols = 2 * keys + s.heads * s.v;
    r.shape = (struct delta_shape){r.run.shape, s.key_heads, s.heads, s.k, s.v};
    r.qkv = case_random(c, rows, cols, 1, "qkv");
    r.decay = case_random_in(c, case_sums(c), rows, s.heads, 1, "decay");
    r.beta = case_random_in(c, case_sums(c), rows, s.heads, 1, "beta");
    r.state = case_random_in(c, case_sums(c), s.batch * s.heads, s.k * s.v, 1, "state");
    r.base = case_random_in(c, case_sums(c), s.batch * s.heads, s.k * s.v, 1, "base");
    for (size_t i = 0; i < rows * s.heads; i++) {
        size_t t = i / s.heads / s.batch;
        double *decay = &r.decay->values[i], *beta = &r.beta->values[i];
        bool burst = t % 64 == 0 || t % 64 == 31 || t % 64 == 63;
        *decay = kind == KEEP ? 0 : kind == FORGET ? -1e4 : -fabs(*decay) * (kind == LONG ? 0.002 : 0.2);
        *decay -= kind == BURSTS && burst ? 960 : 0;
        *beta = kind == BETAS || kind == KEEP ? (double)((i + 1) % 3) : 1 / (1 + exp(-*beta));
    }
    for (size_t i = 0; kind == NO_KEYS && i < rows; i += 2)
        memset(&r.qkv->values[i * cols], 0, 2 * keys * sizeof(double));
    for (size_t i = 0; documents == RUN_BEGINS && i < tensor_count(r.state->tensor); i++)
        r.state->values[i] = NAN; // it is not read
    return r;
}

static struct tensor base_of(const struct rule *r, const struct operand *base)
{
    return r->run.prefixes ? base->tensor : tensor_none();
}

// One token of one head: q, k, normed, and what they were divided by.
struct token {
    double q[128], k[128], q_length, k_length, decay, beta;
    size_t row, gate;
};

static double normed(double *to, const double *x, size_t count, double factor)
{
    double sum = 1e-6;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < count; i++)
        to[i] = x[i] / sqrt(sum) * factor;
    return sqrt(sum);
}

static struct token token_of(const struct rule *r, size_t t, size_t b, size_t h)
{
    struct token at = {.row = t * r->s.batch + b};
    size_t k = r->s.k, key_head = h / (r->s.heads / r->s.key_heads);
    const double *row = &r->qkv->values[at.row * r->qkv->tensor.cols + key_head * k];
    at.q_length = normed(at.q, row, k, 1 / sqrt((double)k));
    at.k_length = normed(at.k, row + r->s.key_heads * k, k, 1);
    at.gate = at.row * r->s.heads + h;
    at.decay = exp(r->decay->values[at.gate]);
    at.beta = r->beta->values[at.gate];
    return at;
}

static size_t value_at(const struct rule *r, const struct token *at, size_t h)
{
    return at->row * r->qkv->tensor.cols + 2 * r->s.key_heads * r->s.k + h * r->s.v;
}

// The state before a token: as it is, or what its document begins with.
static void enter(const struct rule *r, size_t t, size_t b, size_t h, double *state, const double *base)
{
    size_t count = r->s.k * r->s.v, at = (b * r->s.heads + h) * count;
    for (size_t i = 0; i < count && case_run_begins(&r->run, t, b); i++)
        state[i] = case_run_continues(&r->run, t, b) ? base[at + i] : 0;
}

// e = v - decay S^T k
static void errors_of(const struct rule *r, const struct token *at, size_t h, const double *state, double *e)
{
    size_t k = r->s.k, v = r->s.v;
    for (size_t j = 0; j < v; j++) {
        double seen = 0;
        for (size_t i = 0; i < k; i++)
            seen += state[i * v + j] * at->k[i];
        e[j] = r->qkv->values[value_at(r, at, h) + j] - at->decay * seen;
    }
}

static void step(const struct rule *r, const struct token *at, double *state, const double *e)
{
    for (size_t i = 0; i < r->s.k; i++)
        for (size_t j = 0; j < r->s.v; j++)
            state[i * r->s.v + j] = at->decay * state[i * r->s.v + j] + at->k[i] * at->beta * e[j];
}

// One head of one sequence: o, if wanted; state moves on, and base, or the states before every token are wanted.
static void recur(const struct rule *r, size_t b, size_t h, double *o, double *state, double *base, double *states)
{
    size_t k = r->s.k, v = r->s.v, count = k * v;
    double e[128];
    for (size_t t = 0; t < r->s.tokens; t++) {
        struct token at = token_of(r, t, b, h);
        enter(r, t, b, h, state, base);
        if (states)
            memcpy(states + t * count, state, count * sizeof(double));
        errors_of(r, &at, h, state, e);
        step(r, &at, state, e);
        for (size_t j = 0; o && j < v; j++) {
            double *to = &o[at.row * r->s.heads * v + h * v + j];
            *to = 0;
            for (size_t i = 0; i < k; i++)
                *to += state[i * v + j] * at.q[i];
        }
        if (!states && case_run_ends_prefix(&r->run, t, b))
            memcpy(base + (b * r->s.heads + h) * count, state, count * sizeof(double));
    }
}

// 1e-13 in f64; in f32 32 roundings of a sum of a block's tokens.
static double growth(struct cases *c, const struct rule *r)
{
    return c->device->ops->dtype == DTYPE_F64 ? 900 : 32 * sqrt(fmin((double)r->s.tokens, DELTA_BLOCK));
}

// In units of a narrow dtype, where factors are rounded to it: with beta 2 a key's part of the state changes its
// sign and keeps its error.
static double roundings(const struct cases *c, enum gates kind)
{
    return !c->delta_rounds ? 0 : kind == KEEP || kind == BETAS ? 8 : 3;
}

static void check_forward(struct cases *c, struct shape s, enum gates kind, enum run_documents documents,
                          bool states_alone)
{
    struct rule r = rule_new(c, s, kind, documents);
    struct operand *o = case_output(c, s.tokens * s.batch, s.heads * s.v);
    size_t count = s.k * s.v;
    for (size_t i = 0; i < s.batch * s.heads * count; i++) // base is written before it is read
        if (documents == RUN_PREFIX && i / count / s.heads < s.tokens)
            r.base->values[i] = NAN;
    for (size_t i = 0; states_alone && i < tensor_count(r.qkv->tensor); i++) // q is not read
        if (i % r.qkv->tensor.cols < s.key_heads * s.k)
            r.qkv->values[i] = NAN;
    CASE_RUN(c, op_delta_rule_forward(c->device, r.shape, states_alone ? tensor_none() : o->tensor, r.state->tensor,
                                      base_of(&r, r.base), r.qkv->tensor, r.decay->tensor, r.beta->tensor));
    for (size_t i = 0; i < s.batch * s.heads; i++)
        recur(&r, i / s.heads, i % s.heads, states_alone ? NULL : o->values, r.state->values + i * count,
              r.base->values, NULL);
    if (!states_alone)
        case_check(c, o, 1 + roundings(c, kind), growth(c, &r), "o, gates %d, documents %d, %zu tokens", kind,
                   documents, s.tokens);
    case_check(c, r.state, roundings(c, kind), growth(c, &r), "state, gates %d, documents %d, %zu tokens", kind,
               documents, s.tokens);
    if (documents == RUN_PREFIX)
        case_check(c, r.base, roundings(c, kind), growth(c, &r), "base, gates %d, %zu tokens", kind, s.tokens);
    case_end(c);
    case_run_free(&r.run);
}

// Gradients of the recurrence.
struct results {
    struct operand *grad_qkv, *decay, *beta, *state, *base, *grad_o;
};

static void norm_back(double *to, const double *grad, const double *y, double length, double factor, size_t count)
{
    double along = 0;
    for (size_t i = 0; i < count; i++)
        along += grad[i] * y[i] / factor;
    for (size_t i = 0; i < count; i++)
        to[i] += (factor * grad[i] - y[i] / factor * along * factor) / length;
}

static void recur_back(const struct rule *r, size_t b, size_t h, struct results *g, const double *states)
{
    size_t k = r->s.k, v = r->s.v, count = k * v, at_state = (b * r->s.heads + h) * count;
    size_t key_head = h / (r->s.heads / r->s.key_heads);
    double e[128], grad_e[128], *grad = g->state->values + at_state, *base = g->base->values + at_state;
    double *behind = malloc(count * sizeof *behind);
    CHECK(behind);
    for (size_t t = r->s.tokens; t-- > 0;) {
        struct token at = token_of(r, t, b, h);
        const double *state = states + t * count, *grad_o = g->grad_o->values + at.row * r->s.heads * v + h * v;
        double grad_q[128] = {0}, grad_k[128] = {0}, grad_decay = 0, grad_beta = 0;
        errors_of(r, &at, h, state, e);
        memcpy(behind, state, count * sizeof *behind);
        step(r, &at, behind, e);
        for (size_t i = 0; i < count && case_run_ends_prefix(&r->run, t, b); i++)
            grad[i] += base[i];
        memset(grad_e, 0, sizeof grad_e);
        for (size_t i = 0; i < k; i++) {
            for (size_t j = 0; j < v; j++) {
                grad_q[i] += behind[i * v + j] * grad_o[j];
                grad[i * v + j] += at.q[i] * grad_o[j];
                grad_k[i] += grad[i * v + j] * at.beta * e[j];
                grad_beta += grad[i * v + j] * at.k[i] * e[j];
                grad_e[j] += grad[i * v + j] * at.k[i] * at.beta;
                grad_decay += grad[i * v + j] * state[i * v + j];
            }
        }
        for (size_t i = 0; i < k; i++) {
            for (size_t j = 0; j < v; j++) {
                grad_k[i] -= at.decay * state[i * v + j] * grad_e[j];
                grad_decay -= state[i * v + j] * at.k[i] * grad_e[j];
                grad[i * v + j] = at.decay * (grad[i * v + j] - at.k[i] * grad_e[j]);
            }
        }
        double *row = g->grad_qkv->values + at.row * r->qkv->tensor.cols + key_head * k;
        norm_back(row, grad_q, at.q, at.q_length, 1 / sqrt((double)k), k);
        norm_back(row + r->s.key_heads * k, grad_k, at.k, at.k_length, 1, k);
        memcpy(g->grad_qkv->values + value_at(r, &at, h), grad_e, v * sizeof *grad_e);
        g->decay->values[at.gate] = grad_decay * at.decay;
        g->beta->values[at.gate] = grad_beta;
        for (size_t i = 0; i < count && case_run_begins(&r->run, t, b); i++) {
            base[i] += case_run_continues(&r->run, t, b) ? grad[i] : 0;
            grad[i] = 0;
        }
    }
    free(behind);
}

static void check_backward(struct cases *c, struct shape s, enum gates kind, enum run_documents documents)
{
    struct rule r = rule_new(c, s, kind, documents);
    size_t rows = s.tokens * s.batch, count = s.k * s.v, all = s.batch * s.heads;
    struct results g = {.grad_qkv = case_output(c, rows, r.qkv->tensor.cols),
                        .decay = case_output_in(c, case_sums(c), rows, s.heads),
                        .beta = case_output_in(c, case_sums(c), rows, s.heads),
                        .state = case_random_in(c, case_sums(c), all, count, 1, "grad_state"),
                        .base = case_random_in(c, case_sums(c), all, count, 1, "grad_base"),
                        .grad_o = case_random(c, rows, s.heads * s.v, 1, "grad_o")};
    double *states = malloc((s.tokens + 1) * count * sizeof *states);
    CHECK(states);
    CASE_RUN(c, op_delta_rule_backward(c->device, r.shape, g.grad_qkv->tensor, g.decay->tensor, g.beta->tensor,
                                       g.state->tensor, base_of(&r, g.base), g.grad_o->tensor, r.state->tensor,
                                       base_of(&r, r.base), r.qkv->tensor, r.decay->tensor, r.beta->tensor));
    memset(g.grad_qkv->values, 0, tensor_count(g.grad_qkv->tensor) * sizeof(double));
    double *state = malloc(count * sizeof *state);
    CHECK(state);
    for (size_t i = 0; i < all; i++) {
        memcpy(state, r.state->values + i * count, count * sizeof *state);
        recur(&r, i / s.heads, i % s.heads, NULL, state, r.base->values, states);
        recur_back(&r, i / s.heads, i % s.heads, &g, states);
    }
    free(states);
    free(state);
    const char *format = "%s, gates %d, documents %d, %zu tokens";
    case_check(c, g.grad_qkv, 1 + roundings(c, kind), growth(c, &r), format, "grad_qkv", kind, documents, s.tokens);
    case_check(c, g.decay, roundings(c, kind), growth(c, &r), format, "grad_decay", kind, documents, s.tokens);
    case_check(c, g.beta, roundings(c, kind), growth(c, &r), format, "grad_beta", kind, documents, s.tokens);
    case_check(c, g.state, roundings(c, kind), growth(c, &r), format, "grad_state", kind, documents, s.tokens);
    if (r.run.prefixes)
        case_check(c, g.base, roundings(c, kind), growth(c, &r), format, "grad_base", kind, documents, s.tokens);
    case_end(c);
    case_run_free(&r.run);
}

static void check_transition(struct cases *c, struct shape s, enum gates kind, enum run_documents documents)
{
    struct rule r = rule_new(c, s, kind, documents);
    struct operand *transition = case_random_in(c, case_sums(c), s.batch * s.heads, s.k * s.k, 1, "transition");
    struct operand *base = case_random_in(c, case_sums(c), s.batch * s.heads, s.k * s.k, 1, "base");
    CASE_RUN(c, op_delta_transition(c->device, r.shape, transition->tensor, base_of(&r, base), r.qkv->tensor,
                                    r.decay->tensor, r.beta->tensor));
    for (size_t i = 0; i < s.batch * s.heads; i++) {
        size_t b = i / s.heads, count = s.k * s.k;
        double *a = transition->values + i * count, *base_a = base->values + i * count;
        for (size_t t = 0; t < s.tokens; t++) {
            struct token at = token_of(&r, t, b, i % s.heads);
            for (size_t j = 0; j < count && case_run_begins(&r.run, t, b); j++)
                a[j] = case_run_continues(&r.run, t, b) ? base_a[j] : 0;
            for (size_t j = 0; j < s.k; j++) {
                double seen = 0;
                for (size_t n = 0; n < s.k; n++)
                    seen += at.k[n] * a[n * s.k + j];
                for (size_t n = 0; n < s.k; n++)
                    a[n * s.k + j] = at.decay * (a[n * s.k + j] - at.beta * at.k[n] * seen);
            }
            if (case_run_ends_prefix(&r.run, t, b))
                memcpy(base_a, a, count * sizeof *a);
        }
    }
    case_check(c, transition, roundings(c, kind), growth(c, &r), "transition, gates %d, documents %d, %zu tokens",
               kind, documents, s.tokens);
    if (r.run.prefixes)
        case_check(c, base, roundings(c, kind), growth(c, &r), "base, gates %d, documents %d, %zu tokens", kind,
                   documents, s.tokens);
    case_end(c);
    case_run_free(&r.run);
}

// All kinds of gates of a run that is one document's, and all kinds of documents.
static bool next_case(struct cases *c, size_t i, struct shape *s, enum gates *kind, enum run_documents *documents)
{
    size_t shape = i / (GATE_KINDS + RUN_KINDS - 1);
    *s = shapes[shape];
    i %= GATE_KINDS + RUN_KINDS - 1;
    *kind = i < GATE_KINDS ? (enum gates)i : MILD;
    *documents = i < GATE_KINDS ? RUN_WHOLE : (enum run_documents)(i - GATE_KINDS + 1);
    c->offset = i % 4 == 3;
    if (s->tokens >= DELTA_BLOCK - 1 && (shape + i) % 2) // each kind with every other of the longer shapes
        return false;
    // Gates know of no parts: other kinds of them with several are for LONGBP_EXHAUSTIVE.
    if (s->tokens > DELTA_PART && *kind != MILD && !getenv("LONGBP_EXHAUSTIVE"))
        return false;
    return !case_is_too_large(c, (double)(s->tokens * s->batch * s->heads * s->k * s->v) / 8);
}
#define CASES (SHAPES * (GATE_KINDS + RUN_KINDS - 1))

void delta_rule_forward_cases(struct cases *c)
{
    struct shape s;
    enum gates kind;
    enum run_documents documents;
    for (size_t i = 0; i < CASES; i++)
        if (next_case(c, i, &s, &kind, &documents))
            check_forward(c, s, kind, documents, i % 5 == 4);
}

void delta_rule_backward_cases(struct cases *c)
{
    struct shape s;
    enum gates kind;
    enum run_documents documents;
    for (size_t i = 0; i < CASES; i++)
        if (next_case(c, i, &s, &kind, &documents))
            check_backward(c, s, kind, documents);
}

void delta_identity_cases(struct cases *c)
{
    for (size_t heads = 1; heads < 5; heads++) {
        size_t k = heads * 5 - 4;
        struct operand *transition = case_output_in(c, case_sums(c), heads, k * k);
        CASE_RUN(c, op_delta_identity(c->device, transition->tensor, k));
        for (size_t i = 0; i < heads * k * k; i++)
            transition->values[i] = i % (k * k) / k == i % k;
        case_check(c, transition, 0, 0, "%zu heads of %zu", heads, k);
        case_end(c);
    }
}

void delta_transition_cases(struct cases *c)
{
    struct shape s;
    enum gates kind;
    enum run_documents documents;
    for (size_t i = 0; i < CASES; i++)
        if (next_case(c, i, &s, &kind, &documents))
            check_transition(c, s, kind, documents);
}

void delta_carry_cases(struct cases *c)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {3, 12, 20}, {2, 7, 33}, {4, 128, 96}};
    for (size_t n = 0; n < 8; n++) {
        size_t heads = sizes[n / 2][0], k = sizes[n / 2][1], v = sizes[n / 2][2];
        enum transpose transpose = n % 2 ? TRANSPOSE : NO_TRANSPOSE;
        if (case_is_too_large(c, (double)(heads * k * v)))
            continue;
        struct operand *transition = case_random_in(c, case_sums(c), heads, k * k, 1, "transition");
        struct operand *state = case_random_in(c, case_sums(c), heads, k * v, 1, "state");
        CASE_RUN(c, op_delta_carry(c->device, state->tensor, transition->tensor, k, transpose));
        for (size_t i = 0; i < heads * v; i++) {
            double sums[128] = {0}, *of = state->values + i / v * k * v + i % v;
            for (size_t a = 0; a < k; a++)
                for (size_t b = 0; b < k; b++)
                    sums[b] += transition->values[i / v * k * k + (transpose ? a * k + b : b * k + a)] * of[a * v];
            for (size_t a = 0; a < k; a++)
                of[a * v] = sums[a];
        }
        case_check(c, state, 0, case_growth(k), "%zu heads of %zu, %zu, transpose %d", heads, k, v, transpose);
        case_end(c);
    }
}

// ---- gates

static const size_t gate_shapes[][2] = {{1, 1}, {3, 7}, {130, 16}, {513, 48}};
struct gate_operands {
    struct operand *a, *b, *a_log, *dt_bias;
};

static struct gate_operands gate_operands(struct cases *c, size_t n, size_t heads)
{
    struct gate_operands g = {case_random(c, n, heads, 4, "a"), case_random(c, n, heads, 4, "b"),
                              case_random(c, 1, heads, 1, "a_log"), case_random(c, 1, heads, 1, "dt_bias")};
    g.a->values[0] = g.b->values[0] = 90; // no infinity
    g.a->values[n * heads - 1] = g.b->values[n * heads - 1] = -90;
    return g;
}

void delta_gates_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < 4; s++) {
        size_t n = gate_shapes[s][0], heads = gate_shapes[s][1];
        double scale = 1 + (double)(s % 2);
        c->offset = s % 2;
        struct gate_operands g = gate_operands(c, n, heads);
        struct operand *decay = case_output_in(c, case_sums(c), n, heads);
        struct operand *beta = case_output_in(c, case_sums(c), n, heads);
        CASE_RUN(c, op_delta_gates_forward(c->device, decay->tensor, beta->tensor, g.a->tensor, g.b->tensor,
                                           g.a_log->tensor, g.dt_bias->tensor, scale));
        for (size_t i = 0; i < n * heads; i++) {
            double x = g.a->values[i] + g.dt_bias->values[i % heads];
            decay->values[i] = -exp(g.a_log->values[i % heads]) * (fmax(x, 0) + log1p(exp(-fabs(x))));
            beta->values[i] = scale / (1 + exp(-g.b->values[i]));
        }
        case_check(c, decay, 0, 16, "decay");
        case_check(c, beta, 0, 16, "beta");
        case_end(c);
    }
}

void delta_gates_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t accumulators = case_accumulators(c, dtypes);
    for (size_t s = 0; s < 8; s++) {
        size_t n = gate_shapes[s / 2][0], heads = gate_shapes[s / 2][1];
        double scale = 1 + (double)(s % 2);
        enum dtype sums = dtypes[s % accumulators];
        c->offset = s % 2;
        struct gate_operands g = gate_operands(c, n, heads);
        struct operand *grad_decay = case_random_in(c, case_sums(c), n, heads, 1, "grad_decay");
        struct operand *grad_beta = case_random_in(c, case_sums(c), n, heads, 1, "grad_beta");
        struct operand *grad_a = case_output(c, n, heads), *grad_b = case_output(c, n, heads);
        struct operand *grad_log = case_random_in(c, sums, 1, heads, 1, "grad_a_log");
        struct operand *grad_bias = case_random_in(c, sums, 1, heads, 1, "grad_dt_bias");
        bool frozen = s == 3;
        CASE_RUN(c, op_delta_gates_backward(
                        c->device, grad_a->tensor, grad_b->tensor, frozen ? tensor_none() : grad_log->tensor,
                        frozen ? tensor_none() : grad_bias->tensor, grad_decay->tensor, grad_beta->tensor,
                        g.a->tensor, g.b->tensor, g.a_log->tensor, g.dt_bias->tensor, scale));
        for (size_t i = 0; i < n * heads; i++) {
            double x = g.a->values[i] + g.dt_bias->values[i % heads], sigma = 1 / (1 + exp(-g.b->values[i]));
            double rate = exp(g.a_log->values[i % heads]), slope = -rate / (1 + exp(-x)) * grad_decay->values[i];
            grad_log->values[i % heads] -= rate * (fmax(x, 0) + log1p(exp(-fabs(x)))) * grad_decay->values[i];
            grad_bias->values[i % heads] += slope;
            grad_a->values[i] = slope;
            grad_b->values[i] = grad_beta->values[i] * scale * sigma * (1 - sigma);
        }
        case_check(c, grad_a, 1, 32, "grad_a");
        case_check(c, grad_b, 1, 32, "grad_b");
        if (!frozen) {
            case_check(c, grad_log, sums == DTYPE_BF16, case_growth(n) + 16, "grad_a_log");
            case_check(c, grad_bias, sums == DTYPE_BF16, case_growth(n) + 16, "grad_dt_bias");
        }
        case_end(c);
    }
}
