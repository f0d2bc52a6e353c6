// The gated delta rule by blocks (Yang et al. 2024, arXiv 2412.06464); contract in kernels/device/device.h. With
// a_i = exp(decay_i), D_ij = a_{j+1} ... a_i, G_i = a_0 ... a_i and t_j = D_{c-1,j} of a block of c tokens, and the
// state S before it:
//
//   M = strictly lower(D K K^T)     P = lower(D Q K^T)     E = V - G (K S) - M U, U = beta E, row by row
//   O = G (Q S) + P U               S' = G_{c-1} S + (t K)^T U
//
// E is what the state does not predict, so grad_beta needs no other product, and beta may be 0. Backward, with the
// gradients dO and dS' of what lies behind:
//
// clang-format off
//   dU = P^T dO + t (K dS');  dE = beta dR, dR = dU - M^T dE, row by row from the last;  dV = dE
//   dP = lower(dO U^T);  dM = -strictly lower(dE U^T);  dbeta = rowsum(dR E)
//   dQ = G (dO S^T) + (D dP) K
//   dK = (D dP)^T Q + (D dM + (D dM)^T) K + t (U dS'^T) - G (dE S^T)
//   dS = G_{c-1} dS' + (G Q)^T dO - (G K)^T dE
//   L = dP P + dM M, its last row += rowsum(t K (U dS'^T))
//   m = rowsum(G Q (dO S^T) - G K (dE S^T)), its last += G_{c-1} <S, dS'>
//   ddecay_n = sum of L_ij over i >= n > j, and of m_i over i >= n: nothing that cancels
// clang-format on
//
// A first pass of the backward leaves states and E in the workspace, which saves solving anew. Products of c x c
// with K and Q are of a key head's value heads together, whose D dP and D dM are added.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/tile.h"
#include <omp.h>

#define NORM_EPSILON ((real)1e-6)
enum { SLOTS = 16 }; // key heads of sequences that the backward takes at once

struct rule {
    struct delta_shape shape;
    size_t queries, columns; // columns of q in qkv; of qkv
    const stored *qkv;
    const real *decay, *beta;
    enum tile_sums sums;
};

static struct rule rule_of(const struct device *device, struct delta_shape shape, struct tensor qkv,
                           struct tensor decay, struct tensor beta)
{
    return (struct rule){shape,
                         shape.key_heads * shape.key_dim,
                         qkv.cols,
                         qkv.data,
                         decay.data,
                         beta.data,
                         device->reverse_sums ? SUMS_DOWNWARD : SUMS_UPWARD};
}

// Tokens [begin, begin + count) of a sequence; rows: in tiles, those behind the last are 0.
struct block {
    const struct run_sequence *sequence;
    size_t begin, count, rows;
};

static struct block block_of(const struct run_sequence *s, size_t begin, size_t end)
{
    return (struct block){s, begin, end - begin, tile_round(end - begin)};
}

static size_t row_of(const struct block *b, size_t i)
{
    return (b->begin + i) * b->sequence->batch + b->sequence->sequence;
}

// Tiles of a block: of its key head, and of one value head at a time.
struct tiles {
    struct view q, k, grad_q, grad_k;                // [rows, key_dim], normed
    struct view kk, qk, by_p, by_m;                  // [rows, rows]; sums of D dP and D dM
    struct view state, grad_state;                   // [key_dim, value_dim]
    struct view e, u, o, grad_u, grad_e;             // [rows, value_dim]; o: dO, in the backward
    struct view d, m, p, grad_p, grad_m;             // [rows, rows]
    struct view keys, turned, u_turned;              // [rows, key_dim]; what is transposed
    real q_scale[DELTA_BLOCK], k_scale[DELTA_BLOCK]; // of the norm
    real kept[DELTA_BLOCK], tail[DELTA_BLOCK];       // G, t
    real beta[DELTA_BLOCK], decay[DELTA_BLOCK];      // a
};

// The next tile of a room, of which so many numbers are taken. room NULL: counted alone.
static struct view carve(real *room, size_t *taken, size_t rows, size_t cols)
{
    struct view tile = {room ? room + *taken : NULL, (ptrdiff_t)tile_stride(cols), 1};
    *taken += tile_round(rows) * tile_stride(cols);
    return tile;
}

// Lays the tiles out; how many numbers they take. value_dim: of the state.
static size_t tiles_carve(struct tiles *t, real *room, size_t k, size_t v, bool backward)
{
    const size_t c = DELTA_BLOCK;
    size_t taken = 0;
    struct view *const by_key[] = {&t->q, &t->k, &t->grad_q, &t->grad_k, &t->keys};
    struct view *const by_value[] = {&t->e, &t->u, &t->o, &t->grad_u, &t->grad_e};
    struct view *const square[] = {&t->kk, &t->qk, &t->d, &t->m, &t->p, &t->grad_p, &t->grad_m, &t->by_p, &t->by_m};
    for (size_t i = 0; i < (backward ? 5 : 2); i++)
        *by_key[i] = carve(room, &taken, c, k);
    for (size_t i = 0; i < (backward ? 5 : 3); i++)
        *by_value[i] = carve(room, &taken, c, v);
    for (size_t i = 0; i < (backward ? 9 : 5); i++)
        *square[i] = carve(room, &taken, c, c);
    t->state = carve(room, &taken, k, v);
    t->turned = carve(room, &taken, k > v || !backward ? k : v, k > c && backward ? k : c);
    if (backward) {
        t->grad_state = carve(room, &taken, k, v);
        t->u_turned = carve(room, &taken, v, c);
    }
    return taken;
}
// ---- rows and products

// to = from [rows, cols], with zeros beyond.
static void load_tile(struct view to, const stored *from, size_t stride, size_t rows, size_t cols)
{
    for (size_t i = 0; i < tile_round(rows); i++) {
        real *row = to.data + (ptrdiff_t)i * to.row;
        size_t there = i < rows ? cols : 0;
        for (size_t j = 0; j < there; j++)
            row[j] = load(from[i * stride + j]);
        memset(row + there, 0, (tile_round(cols) - there) * sizeof *row);
    }
}

// The same of real numbers, or zeros; added if accumulate.
static void load_real(struct view to, bool accumulate, const real *from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < tile_round(rows); i++) {
        real *row = to.data + (ptrdiff_t)i * to.row;
        size_t there = from && i < rows ? cols : 0;
        for (size_t j = 0; j < there; j++)
            row[j] = from[i * cols + j] + (accumulate ? row[j] : 0);
        if (!accumulate)
            memset(row + there, 0, (tile_round(cols) - there) * sizeof *row);
    }
}

static void store_real(real *to, bool accumulate, struct view from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            to[i * cols + j] =
                from.data[(ptrdiff_t)i * from.row + (ptrdiff_t)j] + (accumulate ? to[i * cols + j] : 0);
}

static void store_tile(stored *to, size_t stride, struct view from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            to[i * stride + j] = store(from.data[(ptrdiff_t)i * from.row + (ptrdiff_t)j]);
}

// Row i of x times factors[i], or all by one factor.
static void scale_rows(struct view x, const real *factors, real factor, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        real *row = x.data + (ptrdiff_t)i * x.row, by = factors ? factor * factors[i] : factor;
        for (size_t j = 0; j < cols; j++)
            row[j] *= by;
    }
}

static real dot(const real *a, const real *b, size_t count)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < count; j++)
        sum += a[j] * b[j];
    return sum;
}

static const real *row_at(struct view x, size_t i)
{
    return x.data + (ptrdiff_t)i * x.row;
}

static void multiply(const struct rule *r, struct view c, bool accumulate, struct view a, struct view b, size_t m,
                     size_t n, size_t k)
{
    tile_multiply(c, accumulate, (struct factor){.view = a}, (struct factor){.view = b}, tile_round(m),
                  tile_round(n), k, r->sums);
}

// A triangle's rows are taken TILE_UNIT at a time, each with the terms that it has.
static void multiply_lower(const struct rule *r, struct view c, bool accumulate, struct view a, struct view b,
                           size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i += TILE_UNIT)
        multiply(r, view_at(c, i, 0), accumulate, view_at(a, i, 0), b, TILE_UNIT, n, i + TILE_UNIT);
}
// a: as it is transposed.
static void multiply_upper(const struct rule *r, struct view c, bool accumulate, struct view lower, struct view b,
                           size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i += TILE_UNIT)
        multiply(r, view_at(c, i, 0), accumulate, view_at(view_transposed(lower), i, i), view_at(b, i, 0),
                 TILE_UNIT, n, rows - i);
}
// The lower triangle of a b.
static void multiply_to_lower(const struct rule *r, struct view c, struct view a, struct view b, size_t rows,
                              size_t k)
{
    for (size_t i = 0; i < rows; i += TILE_UNIT)
        multiply(r, view_at(c, i, 0), false, view_at(a, i, 0), b, TILE_UNIT, i + TILE_UNIT, k);
}

// x_i -= sum over j < i of l_ij y_j, y_i = beta_i x_i, in `vectors` columns.
static inline __attribute__((always_inline)) void
solve_strip(int vectors, struct view x, struct view y, struct view l, const real *beta, ptrdiff_t next, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        vector sum[8];
        real *to = x.data + (ptrdiff_t)i * x.row, *scaled = y.data + (ptrdiff_t)i * y.row;
        const real *row = l.data + (ptrdiff_t)i * l.row, *from = y.data;
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++)
            sum[n] = *vector_at(to + n * TILE_LANES);
        for (size_t j = 0; j < i; j++, row += l.column, from += y.row)
#pragma GCC unroll 8
            for (int n = 0; n < vectors; n++)
                sum[n] -= *row * *vector_at(from + n * TILE_LANES);
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++) {
            *vector_at(to + n * TILE_LANES) = sum[n];
            *vector_at(scaled + n * TILE_LANES) = beta[(ptrdiff_t)i * next] * sum[n];
        }
    }
}

static void solve(struct view x, struct view y, struct view l, const real *beta, ptrdiff_t next, size_t rows,
                  size_t cols)
{
    for (size_t c = 0; c < tile_round(cols);) {
        bool wide = tile_round(cols) - c >= 8 * TILE_LANES;
        if (wide)
            solve_strip(8, view_at(x, 0, c), view_at(y, 0, c), l, beta, next, rows);
        else
            solve_strip(TILE_UNIT / TILE_LANES, view_at(x, 0, c), view_at(y, 0, c), l, beta, next, rows);
        c += wide ? 8 * TILE_LANES : TILE_UNIT;
    }
}

// ---- what forward and backward share

// x / sqrt(its sum of squares + NORM_EPSILON) * factor, by row; scales: what x was multiplied by, without factor.
static void norm(struct view x, real *scales, real factor, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        scales[i] = 1 / real_sqrt(dot(row_at(x, i), row_at(x, i), cols) + NORM_EPSILON);
    scale_rows(x, scales, factor, rows, cols);
}

static real query_factor(const struct rule *r)
{
    return 1 / real_sqrt((real)r->shape.key_dim);
}

// The block's k, normed, and K K^T; and q and Q K^T, if queries.
static void load_keys(const struct rule *r, const struct block *b, struct tiles *t, size_t key_head, bool queries)
{
    size_t k = r->shape.key_dim, stride = r->shape.run.batch * r->columns;
    const stored *q_rows = r->qkv + row_of(b, 0) * r->columns + key_head * k;
    load_tile(t->k, q_rows + r->queries, stride, b->count, k);
    norm(t->k, t->k_scale, 1, b->count, k);
    tile_transpose(t->turned, t->k, b->rows, tile_round(k));
    multiply_to_lower(r, t->kk, t->k, t->turned, b->rows, k);
    if (queries) {
        load_tile(t->q, q_rows, stride, b->count, k);
        norm(t->q, t->q_scale, query_factor(r), b->count, k);
        multiply_to_lower(r, t->qk, t->q, t->turned, b->rows, k);
    }
}

// The value head's gates, D, G, t, M, and, if queries, P.
static void load_gates(const struct rule *r, const struct block *b, struct tiles *t, size_t head, bool queries)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t at = row_of(b, i) * r->shape.heads + head;
        t->beta[i] = i < b->count ? r->beta[at] : 0;
        t->decay[i] = i < b->count ? r->decay[at] : 0;
    }
#pragma omp simd
    for (size_t i = 0; i < b->rows; i++)
        t->decay[i] = real_exp(t->decay[i]);
    real kept = 1;
    for (size_t i = 0; i < b->rows; i++) {
        size_t end = tile_round(i + 1);
        real *d = t->d.data + (ptrdiff_t)i * t->d.row, *m = t->m.data + (ptrdiff_t)i * t->m.row;
        real *p = t->p.data + (ptrdiff_t)i * t->p.row;
        const real *above = i > 0 ? d - t->d.row : d, *kk = row_at(t->kk, i), *qk = row_at(t->qk, i);
        t->kept[i] = kept *= t->decay[i];
        for (size_t j = 0; j < i; j++)
            d[j] = above[j] * t->decay[i];
        memset(d + i, 0, (end - i) * sizeof *d);
        memset(m + i, 0, (end - i) * sizeof *m);
        for (size_t j = 0; j < i; j++)
            m[j] = d[j] * kk[j];
        d[i] = 1;
        for (size_t j = 0; queries && j <= i; j++)
            p[j] = d[j] * qk[j];
        memset(p + i + 1, 0, (end - i - 1) * sizeof *p);
    }
    memcpy(t->tail, row_at(t->d, b->count - 1), b->count * sizeof(real));
    memset(t->tail + b->count, 0, (b->rows - b->count) * sizeof(real));
}

// E and U, of the state and V in e.
static void find_errors(const struct rule *r, const struct block *b, struct tiles *t, size_t v)
{
    multiply(r, t->u, false, t->k, t->state, b->rows, v, r->shape.key_dim);
    for (size_t i = 0; i < b->rows; i++) {
        real *e = t->e.data + (ptrdiff_t)i * t->e.row;
        const real *seen = row_at(t->u, i);
        for (size_t j = 0; j < tile_round(v); j++)
            e[j] -= t->kept[i] * seen[j];
    }
    solve(t->e, t->u, t->m, t->beta, 1, b->rows, v);
}

// S becomes S'; U becomes t U.
static void step_state(const struct rule *r, const struct block *b, struct tiles *t, size_t v)
{
    scale_rows(t->state, NULL, t->kept[b->count - 1], tile_round(r->shape.key_dim), tile_round(v));
    scale_rows(t->u, t->tail, 1, b->rows, tile_round(v));
    multiply(r, t->state, true, view_transposed(t->k), t->u, r->shape.key_dim, v, b->count);
}

// The index at which a value head's state begins.
static size_t state_of(const struct rule *r, size_t sequence, size_t head, size_t v)
{
    return (sequence * r->shape.heads + head) * r->shape.key_dim * v;
}

// The results of a backward's first pass, by head: states, and E of all tokens.
struct kept {
    real *states, *errors;
};

static struct kept kept_of(const struct rule *r, real *workspace, size_t sequence, size_t head)
{
    const struct delta_shape *s = &r->shape;
    size_t index = sequence * s->heads + head, states = delta_states(s) * s->key_dim * s->value_dim;
    size_t all = s->run.batch * s->heads * states;
    return (struct kept){workspace + index * states, workspace + all + index * s->run.tokens * s->value_dim};
}

// Tiles of the backward in the workspace, which depends on the shape alone: those of SLOTS threads, or fewer.
static size_t slot_count(const struct delta_shape *s)
{
    size_t key_heads = s->run.batch * s->key_heads;
    return key_heads < SLOTS ? key_heads : SLOTS;
}
static size_t slot_size(const struct delta_shape *s)
{
    struct tiles t;
    return tiles_carve(&t, NULL, s->key_dim, s->value_dim, true);
}

size_t NAME(delta_backward_workspace)(const struct device *device, struct delta_shape shape)
{
    (void)device;
    size_t of_head = delta_states(&shape) * shape.key_dim + shape.run.tokens;
    size_t kept = shape.run.batch * shape.heads * of_head * shape.value_dim;
    return (slot_count(&shape) * slot_size(&shape) + kept) * sizeof(real);
}

// The state that a block begins with. kept: of what lies within the run; NULL: the state itself is there.
static const real *state_before(const struct rule *r, const struct block *b, size_t head, size_t v,
                                const real *state, const real *base, const struct kept *kept)
{
    size_t at = state_of(r, b->sequence->sequence, head, v);
    if (run_begins(b->sequence, b->begin))
        return run_continues(b->sequence, b->begin) ? base + at : NULL;
    return kept && b->begin > 0 ? kept->states + (b->begin / DELTA_BLOCK - 1) * r->shape.key_dim * v : state + at;
}

static struct run_sequence sequence_of(const struct rule *r, size_t b)
{
    const struct documents *of = &r->shape.run.documents;
    return run_sequence_of(&r->shape.run, of->device_starts.data, of->device_prefixes.data, b);
}

static const stored *values_of(const struct rule *r, const struct block *b, size_t head)
{
    return r->qkv + row_of(b, 0) * r->columns + 2 * r->queries + head * r->shape.value_dim;
}

// ---- forward

// A forward pass, which computes the states behind each block.
struct pass {
    size_t value_dim; // of the states
    bool values;      // V is not 0
    stored *o;        // if it is wanted
    real *state, *base;
    real *workspace; // for what kept_of says; NULL: state and base move on
};

// Value heads [first, end) of one key head.
static void forward(const struct rule *r, const struct pass *pass, size_t b, size_t first, size_t end_head)
{
    struct run_sequence s = sequence_of(r, b);
    size_t k = r->shape.key_dim, v = pass->value_dim, width = r->shape.heads * v;
    size_t key_head = first / (r->shape.heads / r->shape.key_heads);
    real *state = pass->state, *base = pass->base, *workspace = pass->workspace;
    stored *o = pass->o;
    struct tiles t;
    _Alignas(64) real room[tiles_carve(&t, NULL, k, v, false)];
    tiles_carve(&t, room, k, v, false);
    for (size_t begin = 0, end; begin < s.tokens; begin = end) {
        end = delta_block_end(&s, begin);
        struct block block = block_of(&s, begin, end);
        load_keys(r, &block, &t, key_head, o);
        for (size_t h = first; h < end_head; h++) {
            struct kept kept = {0};
            if (workspace)
                kept = kept_of(r, workspace, b, h);
            load_real(t.state, false, state_before(r, &block, h, v, state, base, workspace ? &kept : NULL), k, v);
            if (pass->values)
                load_tile(t.e, values_of(r, &block, h), s.batch * r->columns, block.count, v);
            else
                load_real(t.e, false, NULL, block.count, v);
            load_gates(r, &block, &t, h, o);
            find_errors(r, &block, &t, v);
            if (o) {
                multiply(r, t.o, false, t.q, t.state, block.rows, v, k);
                scale_rows(t.o, t.kept, 1, block.rows, tile_round(v));
                multiply_lower(r, t.o, true, t.p, t.u, block.rows, v);
                store_tile(o + row_of(&block, 0) * width + h * v, s.batch * width, t.o, block.count, v);
            }
            if (workspace)
                store_real(kept.errors + begin * v, false, t.e, block.count, v);
            if (workspace && (end == s.tokens || run_ends(&s, end - 1)))
                continue;
            step_state(r, &block, &t, v);
            if (workspace) {
                store_real(kept.states + (end / DELTA_BLOCK - 1) * k * v, false, t.state, k, v);
                continue;
            }
            store_real(state + state_of(r, b, h, v), false, t.state, k, v);
            if (run_ends_prefix(&s, end - 1) && base)
                store_real(base + state_of(r, b, h, v), false, t.state, k, v);
        }
    }
}

// A key head's value heads are one thread's, or, where there are more threads than key heads, each is one's: the
// bits are the same.
static void forward_all(const struct rule *r, struct pass pass)
{
    const struct delta_shape *s = &r->shape;
    bool apart = s->run.batch * s->key_heads < (size_t)omp_get_max_threads();
    size_t count = apart ? 1 : s->heads / s->key_heads, of_sequence = s->heads / count;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s->run.batch * of_sequence; i++) {
        size_t first = i % of_sequence * count;
        forward(r, &pass, i / of_sequence, first, first + count);
    }
}

void NAME(delta_rule_forward)(struct device *device, struct delta_shape shape, struct tensor o, struct tensor state,
                              struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    struct rule r = rule_of(device, shape, qkv, decay, beta);
    forward_all(&r, (struct pass){shape.value_dim, true, o.data, state.data, base.data, NULL});
}

void NAME(delta_identity)(struct device *device, struct tensor transition, size_t key_dim)
{
    (void)device;
    memset(transition.data, 0, tensor_bytes(transition));
    for (size_t i = 0; i < transition.rows; i++)
        for (size_t j = 0; j < key_dim; j++)
            ((real *)transition.data)[i * transition.cols + j * (key_dim + 1)] = 1;
}

// The states of V = 0, in as many columns as a key has: A is linear in what it begins with.
void NAME(delta_transition)(struct device *device, struct delta_shape shape, struct tensor transition,
                            struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta)
{
    struct rule r = rule_of(device, shape, qkv, decay, beta);
    forward_all(&r, (struct pass){shape.key_dim, false, NULL, transition.data, base.data, NULL});
}

void NAME(delta_carry)(struct device *device, struct tensor state, struct tensor transition, size_t key_dim,
                       enum transpose transpose)
{
    struct rule r = {.sums = device->reverse_sums ? SUMS_DOWNWARD : SUMS_UPWARD};
    size_t v = state.cols / key_dim, k = key_dim;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < state.rows; i++) {
        _Alignas(64) real room[tile_round(k) * (tile_stride(k) + 2 * tile_stride(v))];
        size_t taken = 0;
        struct view a = carve(room, &taken, k, k), from = carve(room, &taken, k, v), to = carve(room, &taken, k, v);
        real *data = (real *)state.data + i * k * v;
        load_real(a, false, (const real *)transition.data + i * k * k, k, k);
        load_real(from, false, data, k, v);
        multiply(&r, to, false, transpose ? view_transposed(a) : a, from, k, v, k);
        store_real(data, false, to, k, v);
    }
}

// ---- backward

// The operands of the backward besides the rule's.
struct gradients {
    stored *grad_qkv;
    real *grad_decay, *grad_beta, *grad_state, *grad_base, *workspace, *base, *state;
    const stored *grad_o;
};

// dS' into its tile: of what lies behind, which is 0 where a document ends, and of base.
static void load_grad_state(const struct rule *r, const struct block *b, struct tiles *t, size_t head,
                            const struct gradients *g)
{
    size_t k = r->shape.key_dim, v = r->shape.value_dim, at = state_of(r, b->sequence->sequence, head, v);
    load_real(t->grad_state, false, g->grad_state + at, k, v);
    if (run_ends_prefix(b->sequence, b->begin + b->count - 1) && g->grad_base)
        load_real(t->grad_state, true, g->grad_base + at, k, v);
}

static void store_grad_state(const struct rule *r, const struct block *b, struct tiles *t, size_t head,
                             const struct gradients *g)
{
    size_t k = r->shape.key_dim, v = r->shape.value_dim, at = state_of(r, b->sequence->sequence, head, v);
    bool begins = run_begins(b->sequence, b->begin);
    if (run_continues(b->sequence, b->begin))
        store_real(g->grad_base + at, true, t->grad_state, k, v);
    if (begins)
        memset(g->grad_state + at, 0, k * v * sizeof(real));
    else
        store_real(g->grad_state + at, false, t->grad_state, k, v);
}

// dP and dM; their parts in D dP and D dM; L, into dP's tile.
static void square_gradients(const struct rule *r, const struct block *b, struct tiles *t)
{
    size_t v = r->shape.value_dim;
    tile_transpose(t->u_turned, t->u, b->rows, tile_round(v));
    multiply_to_lower(r, t->grad_p, t->o, t->u_turned, b->rows, v);
    multiply_to_lower(r, t->grad_m, t->grad_e, t->u_turned, b->rows, v);
    for (size_t i = 0; i < b->count; i++) {
        real *grad_p = t->grad_p.data + (ptrdiff_t)i * t->grad_p.row;
        real *by_p = t->by_p.data + (ptrdiff_t)i * t->by_p.row, *by_m = t->by_m.data + (ptrdiff_t)i * t->by_m.row;
        const real *grad_m = row_at(t->grad_m, i), *d = row_at(t->d, i), *m = row_at(t->m, i), *p = row_at(t->p, i);
        for (size_t j = 0; j <= i; j++) {
            by_p[j] += d[j] * grad_p[j];
            by_m[j] -= j < i ? d[j] * grad_m[j] : 0;
            grad_p[j] = grad_p[j] * p[j] - grad_m[j] * m[j];
        }
    }
}

// x += what is in keys, by row; sums[i] += the row's product with y's.
static void add_keys(const struct rule *r, const struct block *b, struct tiles *t, struct view x, struct view y,
                     real *sums)
{
    size_t k = tile_round(r->shape.key_dim);
    for (size_t i = 0; i < b->count; i++) {
        real *to = x.data + (ptrdiff_t)i * x.row;
        const real *from = row_at(t->keys, i);
        sums[i] += dot(from, row_at(y, i), k);
        for (size_t j = 0; j < k; j++)
            to[j] += from[j];
    }
}

// The gradient of decay, of L in dP's tile, its last row's further terms, and m.
static void decay_gradients(const struct rule *r, const struct block *b, struct tiles *t, const real *last,
                            const real *m, size_t head, real *grad_decay)
{
    real below[DELTA_BLOCK], from_state = 0; // of L, by column: rows from i on
    memcpy(below, last, sizeof below);
    for (size_t i = b->count; i-- > 0;) {
        const real *l = row_at(t->grad_p, i);
        real sum = 0;
        for (size_t j = 0; j < i; j++)
            below[j] += l[j];
        for (size_t j = 0; j < i; j++)
            sum += below[j];
        from_state += m[i];
        grad_decay[row_of(b, i) * r->shape.heads + head] = sum + from_state;
    }
}

static void backward_head(const struct rule *r, const struct block *b, struct tiles *t, size_t head,
                          const struct gradients *g)
{
    size_t k = r->shape.key_dim, v = r->shape.value_dim, wide = tile_round(v), heads = r->shape.heads;
    size_t batch = r->shape.run.batch, sequence = b->sequence->sequence;
    struct kept kept = kept_of(r, g->workspace, sequence, head);
    real last[DELTA_BLOCK] = {0}, m[DELTA_BLOCK] = {0};
    load_real(t->state, false, state_before(r, b, head, v, g->state, g->base, &kept), k, v);
    load_grad_state(r, b, t, head, g);
    load_gates(r, b, t, head, true);
    load_real(t->e, false, kept.errors + b->begin * v, b->count, v);
    load_real(t->u, false, kept.errors + b->begin * v, b->count, v);
    scale_rows(t->u, t->beta, 1, b->rows, wide);
    load_tile(t->o, g->grad_o + row_of(b, 0) * heads * v + head * v, batch * heads * v, b->count, v); // dO

    multiply(r, t->grad_u, false, t->k, t->grad_state, b->rows, v, k);
    scale_rows(t->grad_u, t->tail, 1, b->rows, wide);
    multiply_upper(r, t->grad_u, true, t->p, t->o, b->rows, v);
    // From the last row on: dR, and dE.
    size_t end = b->rows - 1;
    struct view from_last = view_at(t->grad_u, end, 0), scaled = view_at(t->grad_e, end, 0);
    struct view upper = view_at(t->m, end, end);
    from_last.row = -from_last.row, scaled.row = -scaled.row;
    upper.row = -t->m.column, upper.column = -t->m.row;
    solve(from_last, scaled, upper, t->beta + end, -1, b->rows, v);
    for (size_t i = 0; i < b->count; i++)
        g->grad_beta[row_of(b, i) * heads + head] = dot(row_at(t->grad_u, i), row_at(t->e, i), wide);
    store_tile(g->grad_qkv + row_of(b, 0) * r->columns + 2 * r->queries + head * v, batch * r->columns, t->grad_e,
               b->count, v);
    square_gradients(r, b, t);

    real kept_all = t->kept[b->count - 1];
    for (size_t i = 0; i < k; i++)
        m[b->count - 1] += kept_all * dot(row_at(t->state, i), row_at(t->grad_state, i), wide);
    scale_rows(t->o, t->kept, 1, b->rows, wide);
    scale_rows(t->grad_e, t->kept, -1, b->rows, wide);
    scale_rows(t->u, t->tail, 1, b->rows, wide);
    tile_transpose(t->turned, t->state, tile_round(k), wide);
    multiply(r, t->keys, false, t->o, t->turned, b->rows, k, v);
    add_keys(r, b, t, t->grad_q, t->q, m);
    multiply(r, t->keys, false, t->grad_e, t->turned, b->rows, k, v);
    add_keys(r, b, t, t->grad_k, t->k, m);
    tile_transpose(t->turned, t->grad_state, tile_round(k), wide);
    multiply(r, t->keys, false, t->u, t->turned, b->rows, k, v);
    add_keys(r, b, t, t->grad_k, t->k, last);
    scale_rows(t->grad_state, NULL, kept_all, tile_round(k), wide);
    multiply(r, t->grad_state, true, view_transposed(t->q), t->o, k, v, b->count);
    multiply(r, t->grad_state, true, view_transposed(t->k), t->grad_e, k, v, b->count);
    decay_gradients(r, b, t, last, m, head, g->grad_decay);
    store_grad_state(r, b, t, head, g);
}

// The gradient of what was normed: with y of length about 1, scale (d - y (y d)).
static void norm_backward(stored *to, size_t stride, struct view d, struct view y, const real *scales, real factor,
                          size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++) {
        const real *grad = row_at(d, i), *normed = row_at(y, i);
        real along = dot(grad, normed, cols) / factor;
        for (size_t j = 0; j < cols; j++)
            to[i * stride + j] = store(scales[i] * (factor * grad[j] - normed[j] * along));
    }
}

static void backward_block(const struct rule *r, const struct block *b, struct tiles *t, size_t key_head,
                           const struct gradients *g)
{
    size_t k = r->shape.key_dim, group = r->shape.heads / r->shape.key_heads,
           stride = r->shape.run.batch * r->columns;
    stored *to = g->grad_qkv + row_of(b, 0) * r->columns + key_head * k;
    load_keys(r, b, t, key_head, true);
    load_real(t->grad_q, false, NULL, b->rows, k);
    load_real(t->grad_k, false, NULL, b->rows, k);
    load_real(t->by_p, false, NULL, b->rows, b->rows);
    load_real(t->by_m, false, NULL, b->rows, b->rows);
    for (size_t h = key_head * group; h < (key_head + 1) * group; h++)
        backward_head(r, b, t, h, g);
    multiply_lower(r, t->grad_q, true, t->by_p, t->k, b->rows, k);
    multiply_upper(r, t->grad_k, true, t->by_p, t->q, b->rows, k);
    multiply_lower(r, t->grad_k, true, t->by_m, t->k, b->rows, k);
    multiply_upper(r, t->grad_k, true, t->by_m, t->k, b->rows, k);
    norm_backward(to, stride, t->grad_q, t->q, t->q_scale, query_factor(r), b->count, k);
    norm_backward(to + r->queries, stride, t->grad_k, t->k, t->k_scale, 1, b->count, k);
}

static void backward(const struct rule *r, size_t sequence, size_t key_head, const struct gradients *g, real *room)
{
    struct run_sequence s = sequence_of(r, sequence);
    struct tiles t;
    tiles_carve(&t, room, r->shape.key_dim, r->shape.value_dim, true);
    for (size_t end = s.tokens, begin; end > 0; end = begin) {
        begin = delta_block_begin(&s, end - 1);
        struct block block = block_of(&s, begin, end);
        backward_block(r, &block, &t, key_head, g);
    }
}

void NAME(delta_rule_backward)(struct device *device, struct delta_shape shape, struct tensor grad_qkv,
                               struct tensor grad_decay, struct tensor grad_beta, struct tensor grad_state,
                               struct tensor grad_base, struct tensor grad_o, struct tensor state,
                               struct tensor base, struct tensor qkv, struct tensor decay, struct tensor beta,
                               struct tensor workspace)
{
    struct rule r = rule_of(device, shape, qkv, decay, beta);
    size_t slots = slot_count(&shape), size = slot_size(&shape);
    real *tiles = workspace.data, *kept = tiles + slots * size;
    struct gradients g = {grad_qkv.data, grad_decay.data, grad_beta.data, grad_state.data, grad_base.data,
                          kept,          base.data,       state.data,     grad_o.data};
    forward_all(&r, (struct pass){shape.value_dim, true, NULL, state.data, base.data, kept});
#pragma omp parallel for schedule(dynamic)                                                                         \
    num_threads(omp_get_max_threads() < (int)slots ? omp_get_max_threads() : (int)slots)
    for (size_t i = 0; i < shape.run.batch * shape.key_heads; i++)
        backward(&r, i / shape.key_heads, i % shape.key_heads, &g, tiles + (size_t)omp_get_thread_num() * size);
}
