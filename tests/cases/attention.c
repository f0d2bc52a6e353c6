// Attention against a softmax written out: tiles, tiles and a remainder, one query, keys before, groups of heads,
// gradients of some keys, windows, documents and prefixes that they continue, capped scores; and its sinks. Rows of
// the cache that no query sees are NaN. Growth: a score is a sum over head_dim, a row of P one over keys, a
// gradient of the scores a difference of two.
#include "kernels/cuda/workspace.h"
#include "tests/cases/attention_reference.h"
#include <string.h>

enum { UNSEEN = 70 };

struct problem {
    struct attention_shape shape; // queries, start, batch, heads, kv_heads, head_dim, keys (0: all)
    size_t segment_count;         // 0: one over all keys
    struct keys segments[SEGMENTS_MAX];
};

static const struct problem problems[] = {
    {{1, 0, 1, 1, 1, 2, 0, {0}, 0, 0}, 0, {{0}}},
    {{1, 0, 3, 4, 2, 16, 0, {0}, 0, 0}, 0, {{0}}},
    {{1, 70, 2, 4, 2, 32, 0, {0}, 0, 0}, 0, {{0}}}, // one query against a prefix
    {{1, 300, 1, 8, 1, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{1, 70, 1, 8, 2, 128, 0, {0}, 0, 0}, 1, {{0, 50}}},
    {{5, 3, 3, 14, 2, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{9, 5, 7, 4, 2, 6, 0, {0}, 0, 0}, 0, {{0}}},  // head_dim that is no multiple of 4
    {{9, 5, 19, 4, 2, 6, 0, {0}, 0, 0}, 0, {{0}}}, // more pairs than the CPU runs at a time
    {{32, 0, 1, 2, 2, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{64, 0, 1, 2, 1, 64, 0, {0}, 0, 0}, 0, {{0}}},  // one tile
    {{65, 0, 1, 2, 1, 64, 0, {0}, 0, 0}, 0, {{0}}},  // and one key more
    {{128, 0, 1, 2, 1, 16, 0, {0}, 0, 0}, 0, {{0}}}, // several
    {{257, 0, 1, 4, 4, 16, 0, {0}, 0, 0}, 0, {{0}}},
    {{70, 61, 2, 6, 2, 32, 0, {0}, 0, 0}, 0, {{0}}},  // groups of 3 heads
    {{50, 40, 1, 2, 1, 128, 0, {0}, 0, 0}, 0, {{0}}}, // longer heads, full and padded
    {{40, 30, 1, 2, 1, 80, 0, {0}, 0, 0}, 0, {{0}}},
    {{37, 13, 1, 2, 1, 256, 0, {0}, 0, 0}, 0, {{0}}},
    {{20, 0, 1, 1, 1, 130, 0, {0}, 0, 0}, 0, {{0}}},
    {{150, 20, 3, 4, 2, 80, 0, {0}, 0, 0}, 0, {{0}}},
    {{65, 31, 2, 3, 1, 40, 0, {0}, 0, 0}, 0, {{0}}},
    {{100, 28, 3, 8, 1, 32, 0, {0}, 0, 0}, 0, {{0}}}, // all heads on one key head
    {{40, 100, 2, 71, 1, 2, 0, {0}, 0, 0}, 0, {{0}}}, // rows of a token cross query blocks
    {{129, 63, 1, 4, 2, 32, 0, {0}, 0, 0}, 0, {{0}}},
    {{40, 100, 1, 4, 2, 64, 0, {0}, 0, 0}, 1, {{100, 40}}}, // no gradient for the prefix
    {{70, 60, 2, 2, 1, 16, 0, {0}, 0, 0},
     2,
     {{0, 17}, {49, 66}}}, // a gap, and a segment that ends among the queries
    {{150, 130, 1, 4, 4, 80, 0, {0}, 0, 0}, 4, {{3, 1}, {63, 2}, {65, 63}, {130, 150}}},
    {{64, 64, 1, 2, 1, 128, 0, {0}, 0, 0}, 3, {{5, 20}, {30, 10}, {100, 28}}}, // two in one tile
    {{40, 40, 1, 2, 1, 32, 0, {0}, 0, 0}, 2, {{10, 0}, {30, 12}}},             // an empty one
    {{50, 100, 1, 2, 2, 64, 0, {0}, 0, 0}, 1, {{130, 0}}},
    {{129, 63, 2, 8, 2, 128, 0, {0}, 0, 0}, 2, {{1, 31}, {62, 66}}},
    {{300, 211, 2, 4, 2, 32, 0, {0}, 0, 0}, 2, {{1, 105}, {210, 151}}},
    {{300, 211, 1, 14, 2, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{513, 1, 1, 4, 4, 64, 0, {0}, 0, 0}, 1, {{1, 513}}},
    // Beyond one block of queries and one of keys.
    {{CUDA_ATTENTION_QUERIES, CUDA_ATTENTION_KEYS, 1, 4, 2, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{CUDA_ATTENTION_QUERIES + CUDA_ATTENTION_QUERIES / 4 - 1, 0, 1, 4, 2, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{CUDA_ATTENTION_QUERIES + 1, CUDA_ATTENTION_QUERIES - 1, 1, 4, 2, 64, 0, {0}, 0, 0}, 0, {{0}}},
    {{CUDA_ATTENTION_QUERIES / 4,
      2 * CUDA_ATTENTION_KEYS - CUDA_ATTENTION_QUERIES / 4 + 1,
      1,
      4,
      2,
      64,
      0,
      {0},
      0,
      0},
     1,
     {{CUDA_ATTENTION_KEYS / 2, CUDA_ATTENTION_KEYS}}},
    {{2 * CUDA_ATTENTION_QUERIES + 1, 100, 1, 4, 2, 64, 0, {0}, 0, 0},
     2,
     {{33, 33}, {100, 2 * CUDA_ATTENTION_QUERIES + 1}}},
    // Some of the keys: all for every query, for some, one key, and a tile and a remainder.
    {{37, 100, 1, 4, 2, 64, 64, {0}, 0, 0}, 0, {{0}}},
    {{70, 90, 2, 6, 2, 32, 91, {0}, 0, 0}, 0, {{0}}},
    {{70, 20, 2, 4, 2, 32, 50, {0}, 0, 0}, 0, {{0}}},
    {{130, 3, 1, 4, 1, 80, 70, {0}, 0, 0}, 2, {{1, 31}, {60, 10}}},
    {{5, 3, 3, 2, 2, 16, 1, {0}, 0, 0}, 0, {{0}}},
    {{1, 70, 2, 4, 2, 32, 33, {0}, 0, 0}, 1, {{3, 20}}},
    {{200, 300, 1, 4, 2, 128, 129, {0}, 0, 0}, 1, {{100, 29}}},
    {{64, 0, 1, 2, 1, 64, 40, {0}, 0, 0}, 0, {{0}}},
    // Blocks of queries, of keys, and what those leave of a tile; a tile, and less than that.
    {{2 * CUDA_ATTENTION_QUERIES + 1, 3 * CUDA_ATTENTION_KEYS, 1, 4, 2, 32, 2 * CUDA_ATTENTION_KEYS, {0}, 0, 0},
     0,
     {{0}}},
    {{CUDA_ATTENTION_QUERIES + 3,
      2 * CUDA_ATTENTION_KEYS,
      2,
      6,
      2,
      16,
      CUDA_ATTENTION_KEYS + 2 * CUDA_ATTENTION_TILE + 3,
      {0},
      0,
      0},
     2,
     {{1, CUDA_ATTENTION_TILE}, {CUDA_ATTENTION_KEYS + 1, 2 * CUDA_ATTENTION_TILE + 1}}},
    {{9, 300, 1, 4, 4, 64, 2 * CUDA_ATTENTION_TILE + 1, {0}, 0, 0}, 1, {{0, 2 * CUDA_ATTENTION_TILE}}},
    {{9, 300, 1, 4, 2, 64, CUDA_ATTENTION_TILE, {0}, 0, 0}, 0, {{0}}},
    {{9, 300, 1, 4, 2, 64, CUDA_ATTENTION_TILE - 1, {0}, 0, 0}, 0, {{0}}},
    // Keys that a forward cuts into ranges, in parts.
    {{CUDA_ATTENTION_TILE, 44 * CUDA_ATTENTION_TILE + 5, 1, 4, 2, 64, 0, {0}, 0, 0}, 1, {{3, 5}}},
    {{CUDA_ATTENTION_TILE, 48 * CUDA_ATTENTION_TILE, 2, 2, 2, 32, 40 * CUDA_ATTENTION_TILE, {0}, 0, 0},
     1,
     {{3, 5}}},
    // More segments than one launch of CUDA's own kernels takes.
    {{10, 80, 1, 1, 1, 16, 0, {0}, 0, 0},
     SEGMENTS_MAX,
     {{0, 1},  {2, 1},  {4, 1},  {6, 1},  {8, 1},  {10, 1}, {12, 1}, {14, 1}, {16, 1}, {18, 1},
      {20, 1}, {22, 1}, {24, 1}, {26, 1}, {28, 1}, {30, 1}, {32, 1}, {34, 1}, {36, 1}, {38, 1},
      {40, 1}, {42, 1}, {44, 1}, {46, 1}, {48, 1}, {50, 1}, {52, 1}, {54, 1}, {56, 1}, {58, 1},
      {60, 1}, {62, 1}, {64, 1}, {66, 1}, {68, 1}, {70, 1}, {72, 1}, {74, 1}, {76, 1}, {78, 1}}},
    // Values of fewer numbers than keys have, and of more: latent attention's, tiles of one width and of two,
    // padded.
    {{70, 61, 2, 4, 4, 192, 0, {0}, 0, 128}, 0, {{0}}},
    {{129, 63, 1, 4, 2, 48, 0, {0}, 0, 32}, 2, {{1, 31}, {62, 66}}},
    {{40, 100, 2, 6, 2, 20, 0, {0}, 0, 12}, 1, {{100, 40}}},
    {{65, 31, 1, 2, 1, 32, 0, {0}, 0, 80}, 0, {{0}}},
    {{37, 13, 1, 2, 2, 160, 0, {0}, 0, 100}, 0, {{0}}},
    {{70, 90, 2, 4, 4, 24, 91, {0}, 0, 16}, 2, {{1, 31}, {60, 10}}},
    {{300, 211, 1, 4, 4, 24, 0, {0}, 0, 16}, 0, {{0}}},
    {{20, 0, 1, 1, 1, 130, 0, {0}, 0, 200}, 0, {{0}}},
    {{1, 70, 2, 4, 2, 32, 0, {0}, 0, 16}, 0, {{0}}},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static const struct masking unmasked = {0, 0, 0};
static const struct masking maskings[] = {
    {1, 0, 0},    {0, 1, 0},  {7, 0, 0},    {0, 7, 0},    {33, 0, 0},   {0, 50, 0},   {64, 0, 0},
    {20, 40, 0},  {65, 0, 0}, {40, 20, 0},  {0, 129, 0},  {100, 0, 0},  {0, 7, 5},    {0, 30, 64},
    {0, 64, 100}, {0, 1, 33}, {20, 30, 40}, {64, 17, 70}, {50, 200, 9}, {0, 40, 129}, {SIZE_MAX / 2, 0, 0}};
enum { MASKINGS = sizeof maskings / sizeof *maskings };

static double growth(struct attention_shape s)
{
    return 32 + 4 * sqrt((double)s.head_dim) + sqrt((double)(s.start + s.queries));
}

static struct operand *cache(struct cases *c, const struct attention *a, size_t cols, const char *name)
{
    struct operand *o = case_random(c, a->keys + UNSEEN, cols, 1, name);
    for (size_t i = a->keys * cols; i < (a->keys + UNSEEN) * cols; i++)
        o->values[i] = NAN;
    return o;
}

static void set_documents(struct cases *c, struct attention *a, struct masking m)
{
    struct documents *of = &a->s.mask.documents;
    struct operand *starts = case_integers(c, a->rows, 0, 1), *prefixes = NULL;
    a->starts = malloc(a->rows * sizeof *a->starts);
    a->prefixes = malloc(a->s.batch * sizeof *a->prefixes);
    CHECK(a->starts && a->prefixes);
    for (size_t i = 0; i < a->rows; i++) {
        a->starts[i] = (int32_t)masking_start(m, a->s.start + i / a->s.batch, i % a->s.batch);
        starts->values[i] = a->starts[i];
    }
    of->starts = a->starts;
    of->device_starts = starts->tensor;
    if (m.prefix > 0) {
        prefixes = case_integers(c, a->s.batch, 0, 1);
        for (size_t b = 0; b < a->s.batch; b++)
            prefixes->values[b] = a->prefixes[b] = (int32_t)masking_prefix(m, b);
        of->prefixes = a->prefixes;
        of->device_prefixes = prefixes->tensor;
    }
}

static struct attention attention_new(struct cases *c, const struct problem *p, struct masking m,
                                      double q_deviation, double cap)
{
    struct attention_shape s = p->shape;
    s.cap = cap;
    struct attention a = {.s = s,
                          .rows = s.queries * s.batch,
                          .keys = attention_keys(s) * s.batch,
                          .q_cols = s.heads * s.head_dim,
                          .o_cols = s.heads * attention_value_dim(s),
                          .k_cols = s.kv_heads * s.head_dim,
                          .v_cols = s.kv_heads * attention_value_dim(s),
                          .segment_count = p->segment_count,
                          .segments = {{0, attention_keys(s)}}};
    if (a.segment_count == 0)
        a.segment_count = 1;
    else
        memcpy(a.segments, p->segments, sizeof a.segments);
    a.s.mask.window = m.window;
    a.mask = m;
    if (m.document)
        set_documents(c, &a, m);
    a.q = case_random(c, a.rows, a.q_cols, q_deviation, "q");
    a.k = cache(c, &a, a.k_cols, "k");
    a.v = cache(c, &a, a.v_cols, "v");
    a.o = case_output(c, a.rows, a.o_cols);
    a.logsumexp = case_output_in(c, case_sums(c), a.rows, s.heads);
    return a;
}

// Whether a case has few enough scores.
static bool is_left_out(struct cases *c, struct attention_shape s)
{
    return case_is_too_large(c, (double)(s.batch * s.heads * s.queries) * (double)(s.start + s.queries));
}

// ---- forward

static void run_forward(struct cases *c, const struct attention *a)
{
    CASE_RUN(c, op_attention_forward(c->device, a->s, a->o->tensor, a->logsumexp->tensor, a->q->tensor,
                                     a->k->tensor, a->v->tensor));
}

// q_deviation 0: equal scores. 100 and more: rows that one key rules, and scores that no exponential in f32 holds.
static void check_forward(struct cases *c, const struct problem *p, struct masking m, double q_deviation,
                          bool reverse, double cap)
{
    struct attention a = attention_new(c, p, m, q_deviation, cap);
    c->device->reverse_sums = reverse;
    run_forward(c, &a);
    c->device->reverse_sums = false;
    attention_forward_reference(&a, a.o->values, a.logsumexp->values);
    // Scores of some thousands have so many epsilon, which exp makes relative.
    double extreme = fmax(1, q_deviation), by = c->attention_roundings;
    case_check(c, a.o, (1 + by) * (by > 0 ? extreme : 1), extreme * growth(a.s),
               "o of problem %zu, window %zu, documents of %zu after %zu", (size_t)(p - problems), m.window,
               m.document, m.prefix);
    case_check(c, a.logsumexp, 0.03 * by, growth(a.s),
               "logsumexp of problem %zu, window %zu, documents of %zu after %zu", (size_t)(p - problems), m.window,
               m.document, m.prefix);
    case_end(c);
    free(a.prefixes);
    free(a.starts);
}

void attention_forward_cases(struct cases *c)
{
    for (size_t i = 0; i < PROBLEMS; i++) {
        if (!is_left_out(c, problems[i].shape)) {
            check_forward(c, &problems[i], unmasked, 1, i % 5 == 0, 0);
            check_forward(c, &problems[i], maskings[i % MASKINGS], 1, i % 5 == 1, 0);
            check_forward(c, &problems[i], maskings[(i + i / MASKINGS + 5) % MASKINGS], 1, i % 5 == 2, 0);
            if (i % 4 == 1) {
                check_forward(c, &problems[i], unmasked, 1, i % 5, 0);
                check_forward(c, &problems[i], unmasked, 1000, i % 8 == 1, 0);
                check_forward(c, &problems[i], maskings[(i + 2) % MASKINGS], 1000, i % 8 == 1, 0);
                check_forward(c, &problems[i], unmasked, 0, false, 0);
            }
            check_forward(c, &problems[i], i % 2 ? unmasked : maskings[(i + 3) % MASKINGS], 1, i % 3 == 0, 1.5);
            if (i % 4 == 2)
                check_forward(c, &problems[i], unmasked, 1000, i % 8 == 2, 50);
        }
    }
}

// ---- backward

// How grad_q is written.
enum write { OVER_NAN, OVER_GRAD_O, ADDED };

static void make_gradients(struct cases *c, struct attention *a, enum write write, enum dtype dtype)
{
    a->grad_o = case_random(c, a->rows, a->o_cols, 1, "grad_o");
    a->grad_q = write == OVER_GRAD_O && a->o_cols == a->q_cols ? a->grad_o
                : write == ADDED                               ? case_random(c, a->rows, a->q_cols, 1, "grad_q")
                                                               : case_output(c, a->rows, a->q_cols);
    for (size_t i = 0; i < a->segment_count; i++) {
        size_t rows = a->segments[i].count * a->s.batch;
        a->grad_k[i] = case_random_in(c, dtype, rows, a->k_cols, 1, "grad_k");
        a->grad_v[i] = case_random_in(c, dtype, rows, a->v_cols, 1, "grad_v");
        for (size_t j = 0; j < rows * a->k_cols; j++) // what is added to
            a->grad_k[i]->values[j] = dtype_round(a->grad_k[i]->values[j], dtype);
        for (size_t j = 0; j < rows * a->v_cols; j++)
            a->grad_v[i]->values[j] = dtype_round(a->grad_v[i]->values[j], dtype);
    }
    // The backward's inputs from the forward are exact but for the dtypes' rounding.
    struct operand *inputs[] = {a->q, a->k, a->v};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < tensor_count(inputs[i]->tensor); j++)
            inputs[i]->values[j] = dtype_round(inputs[i]->values[j], inputs[i]->tensor.dtype);
    attention_forward_reference(a, a->o->values, a->logsumexp->values);
}

static void run_backward(struct cases *c, const struct attention *a, enum write write)
{
    struct key_segment segments[SEGMENTS_MAX];
    for (size_t i = 0; i < a->segment_count; i++) {
        segments[i] = (struct key_segment){
            a->segments[i].start, a->segments[i].count, a->grad_k[i]->tensor, a->grad_v[i]->tensor, {0}};
    }
    CASE_RUN(c, op_attention_backward(c->device, a->s, a->grad_q->tensor, write == ADDED, segments,
                                      a->segment_count, a->grad_o->tensor, a->o->tensor, a->logsumexp->tensor,
                                      a->q->tensor, a->k->tensor, a->v->tensor));
}

static void check_backward(struct cases *c, const struct problem *p, struct masking m, double q_deviation,
                           enum write write, enum dtype dtype, double cap)
{
    if (!masking_is_seeing(p->shape, m))
        return;
    struct attention a = attention_new(c, p, m, q_deviation, cap);
    make_gradients(c, &a, write, dtype);
    size_t q_count = a.rows * a.q_cols, k_count = a.keys * a.k_cols, at = (size_t)(p - problems);
    double *grads = calloc(q_count + k_count + a.keys * a.v_cols + 1, sizeof *grads), *grad_k = grads + q_count;
    double *grad_v = grad_k + k_count;
    CHECK(grads);
    run_backward(c, &a, write);
    attention_backward_reference(&a, grads, grad_k, grad_v);
    for (size_t i = 0; i < q_count; i++)
        a.grad_q->values[i] = grads[i] + (write == ADDED ? a.grad_q->values[i] : 0);
    double by = c->attention_roundings, max = 8 * growth(a.s) * fmax(1, q_deviation);
    case_check(c, a.grad_q, 1 + by, max, "grad_q of problem %zu, window %zu, documents of %zu after %zu", at,
               m.window, m.document, m.prefix);
    // A block of queries after another is added to the keys' gradients.
    double blocks = dtype == c->device->ops->dtype ? 1 + by * (double)(p->shape.queries / 8) : 0;
    for (size_t i = 0; i < a.segment_count; i++) {
        size_t row = a.segments[i].start * a.s.batch;
        for (size_t j = 0; j < tensor_count(a.grad_k[i]->tensor); j++)
            a.grad_k[i]->values[j] += grad_k[row * a.k_cols + j];
        for (size_t j = 0; j < tensor_count(a.grad_v[i]->tensor); j++)
            a.grad_v[i]->values[j] += grad_v[row * a.v_cols + j];
        case_check(c, a.grad_k[i], 2 * by + blocks, max,
                   "grad_k of problem %zu, segment %zu, window %zu, documents of %zu after %zu", at, i, m.window,
                   m.document, m.prefix);
        case_check(c, a.grad_v[i], 2 * by + blocks, max,
                   "grad_v of problem %zu, segment %zu, window %zu, documents of %zu after %zu", at, i, m.window,
                   m.document, m.prefix);
    }
    free(grads);
    case_end(c);
    free(a.prefixes);
    free(a.starts);
}

// A key's gradient has the same bits whatever segment it is in, on devices whose sums have one order; and reversed
// sums are the same sums with other rounding errors.
static void check_bits(struct cases *c, size_t head_dim)
{
    const struct problem one = {{100, 90, 1, 4, 2, head_dim, 0, {0}, 0, 0}, 0, {{0}}};
    const struct problem two = {{100, 90, 1, 4, 2, head_dim, 0, {0}, 0, 0}, 2, {{10, 33}, {70, 90}}};
    struct attention all = attention_new(c, &one, unmasked, 1, 0), some = attention_new(c, &two, unmasked, 1, 0);
    struct attention *both[] = {&all, &some};
    double *found[2][2], *q[3];
    for (size_t n = 0; n < 2; n++) {
        make_gradients(c, both[n], OVER_NAN, case_sums(c));
        for (size_t i = 0; i < both[n]->segment_count; i++)
            for (size_t j = 0; j < tensor_count(both[n]->grad_k[i]->tensor); j++)
                both[n]->grad_k[i]->values[j] = both[n]->grad_v[i]->values[j] = 0.25;
    }
    run_backward(c, &all, OVER_NAN);
    found[0][0] = case_found(all.grad_k[0]);
    found[0][1] = case_found(all.grad_v[0]);
    q[0] = case_found(all.grad_q);
    run_backward(c, &some, OVER_NAN);
    q[1] = case_found(some.grad_q);
    size_t q_bytes = all.rows * all.q_cols * sizeof(double);
    case_expect(c, !c->omit && memcmp(q[0], q[1], q_bytes) == 0, "grad_q's bits depend on the segments");
    for (size_t i = 0; i < some.segment_count; i++) {
        size_t first = some.segments[i].start * some.k_cols, count = some.segments[i].count * some.k_cols;
        found[1][0] = case_found(some.grad_k[i]);
        found[1][1] = case_found(some.grad_v[i]);
        for (size_t n = 0; n < 2; n++) {
            case_expect(c, !c->omit && memcmp(found[0][n] + first, found[1][n], count * sizeof(double)) == 0,
                        "a key's gradient's bits depend on its segment");
            free(found[1][n]);
        }
    }
    c->device->reverse_sums = true;
    run_backward(c, &all, OVER_NAN);
    c->device->reverse_sums = false;
    q[2] = case_found(all.grad_q);
    case_expect(c, memcmp(q[0], q[2], q_bytes) != 0, "a reversed sum is the same to the bit");
    for (size_t i = 0; i < 3; i++)
        free(q[i]);
    free(found[0][0]);
    free(found[0][1]);
    for (size_t n = 0; n < 2; n++) {
        both[n]->grad_q->checked = true;
        for (size_t i = 0; i < both[n]->segment_count; i++)
            both[n]->grad_k[i]->checked = both[n]->grad_v[i]->checked = true;
    }
    case_end(c);
}

void attention_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < PROBLEMS; i++) {
        if (is_left_out(c, problems[i].shape))
            continue;
        check_backward(c, &problems[i], unmasked, 1, (enum write)(i % 2), dtypes[i % 4 == 3 ? kinds - 1 : 0], 0);
        check_backward(c, &problems[i], maskings[i % MASKINGS], 1, (enum write)(i % 2),
                       dtypes[i % 4 == 1 && problems[i].shape.keys == 0 ? kinds - 1 : 0], 0);
        check_backward(c, &problems[i], maskings[(i + i / MASKINGS + 5) % MASKINGS], 1, ADDED, dtypes[0], 0);
        if (i % 4 == 0 || problems[i].shape.keys > 0)
            check_backward(c, &problems[i], unmasked, 1, ADDED, dtypes[0], 0);
        if (i % 6 == 2)
            check_backward(c, &problems[i], unmasked, 1000, i % 4 == 2 ? OVER_GRAD_O : OVER_NAN, dtypes[0], 0);
        check_backward(c, &problems[i], i % 2 ? maskings[(i + 3) % MASKINGS] : unmasked, 1, (enum write)(i % 3),
                       dtypes[0], 1.5);
        if (i % 5 == 2)
            check_backward(c, &problems[i], unmasked, 1000, i % 2 ? OVER_GRAD_O : OVER_NAN, dtypes[0], 50);
        if (i % 3 == 0) { // bf16 in sums of one order, where the device has another way for that
            c->device->deterministic = true;
            check_backward(c, &problems[i], unmasked, 1, (enum write)(i % 2), dtypes[0], i % 2 ? 0 : 1.5);
            c->device->deterministic = false;
        }
        if (i % 3 == 1) {
            c->device->reverse_sums = true;
            check_backward(c, &problems[i], unmasked, 1, (enum write)(i % 2), dtypes[0], 0);
            check_backward(c, &problems[i], maskings[(i + 2) % MASKINGS], 1, (enum write)(i % 2), dtypes[0], 0);
            c->device->reverse_sums = false;
        }
    }
    if (c->reorder && !case_is_too_large(c, 4 * 100 * 190)) {
        check_bits(c, 64);
        check_bits(c, 80);
    }
}

// ---- merge

// Against the formula, in the device's dtype and in its sums'; of no keys on either side; logsumexps that no
// exponential holds.
void attention_merge_cases(struct cases *c)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {3, 2, 6}, {37, 4, 64}, {65, 3, 80}, {300, 8, 128}};
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t i = 0; i < kinds * (sizeof shapes / sizeof *shapes); i++) {
        size_t n = shapes[i / kinds][0], heads = shapes[i / kinds][1], dim = shapes[i / kinds][2], kind = i % kinds;
        if (case_is_too_large(c, (double)(n * heads * dim)))
            continue;
        c->offset = i % 2;
        struct operand *o = case_random_in(c, dtypes[kind], n, heads * dim, 1, "o"),
                       *other = case_random(c, n, heads * dim, 1, "other");
        struct operand *statistic = case_random_in(c, case_sums(c), n, heads, 3, "logsumexp");
        struct operand *other_statistic = case_random_in(c, case_sums(c), n, heads, 3, "other logsumexp");
        for (size_t h = 0; h < n * heads; h++) {
            statistic->values[h] = h % 7 == 3 ? -INFINITY : statistic->values[h] + (h % 5 == 1 ? 2000 : 0);
            other_statistic->values[h] =
                h % 7 == 5 ? -INFINITY : other_statistic->values[h] + (h % 5 == 1 ? 2000 : 0);
        }
        CASE_RUN(
            c, op_attention_merge(c->device, o->tensor, statistic->tensor, other->tensor, other_statistic->tensor));
        for (size_t h = 0; h < n * heads; h++) {
            double a = dtype_round(statistic->values[h], case_sums(c));
            double b = dtype_round(other_statistic->values[h], case_sums(c));
            double m = fmax(a, b) + log(exp(a - fmax(a, b)) + exp(b - fmax(a, b)));
            for (size_t d = h * dim; d < (h + 1) * dim; d++)
                o->values[d] = exp(a - m) * o->values[d] + exp(b - m) * other->values[d];
            statistic->values[h] = m;
        }
        case_check(c, o, 1, 2048, "o"); // a logsumexp of 2000 has so many epsilon, which exp makes relative
        case_check(c, statistic, 0, 4, "logsumexp");
        case_end(c);
    }
}

// ---- sinks

static const size_t sink_shapes[][3] = {{1, 1, 1}, {3, 2, 6}, {37, 4, 64}, {65, 3, 80}, {300, 8, 128}, {40, 71, 2}};
#define SINK_SHAPES (sizeof sink_shapes / sizeof *sink_shapes)

// Sinks from one that no row sees to one that all see alone, and logsumexps of no key and that no exponential
// holds.
static void make_sinks(struct cases *c, size_t n, size_t heads, struct operand **logsumexp, struct operand **sinks)
{
    *logsumexp = case_random_in(c, case_sums(c), n, heads, 3, "logsumexp");
    *sinks = case_random(c, 1, heads, 3, "sinks");
    for (size_t h = 0; h < heads; h++)
        (*sinks)->values[h] += h % 4 == 2 ? -40 : h % 4 == 3 ? 30 : 0;
    for (size_t i = 0; i < n * heads; i++) {
        double moved = i % 11 == 4 ? 2000 : 0;
        (*logsumexp)->values[i] = dtype_round((*logsumexp)->values[i] + moved, case_sums(c));
    }
    for (size_t h = 0; h < heads; h++)
        (*sinks)->values[h] = dtype_round((*sinks)->values[h], (*sinks)->tensor.dtype);
}

void attention_sink_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < SINK_SHAPES; s++) {
        size_t n = sink_shapes[s][0], heads = sink_shapes[s][1], dim = sink_shapes[s][2];
        if (case_is_too_large(c, (double)(n * heads * dim)))
            continue;
        c->offset = s % 2;
        struct operand *o = case_random(c, n, heads * dim, 1, "o"), *logsumexp, *sinks;
        make_sinks(c, n, heads, &logsumexp, &sinks);
        for (size_t i = 3; i < n * heads; i += 7)
            logsumexp->values[i] = -INFINITY;
        CASE_RUN(c, op_attention_sink_forward(c->device, o->tensor, logsumexp->tensor, sinks->tensor));
        for (size_t i = 0; i < n * heads; i++) {
            double a = logsumexp->values[i], sink = sinks->values[i % heads], largest = fmax(a, sink);
            double m = largest + log(exp(a - largest) + exp(sink - largest));
            for (size_t d = i * dim; d < (i + 1) * dim; d++)
                o->values[d] *= exp(a - m);
            logsumexp->values[i] = m;
        }
        case_check(c, o, 1, 64, "o");
        case_check(c, logsumexp, 0, 4, "logsumexp");
        case_end(c);
    }
}

void attention_sink_backward_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < kinds * SINK_SHAPES; s++) {
        const size_t *shape = sink_shapes[s / kinds];
        size_t n = shape[0], heads = shape[1], dim = shape[2];
        if (case_is_too_large(c, (double)(n * heads * dim)))
            continue;
        c->offset = s % 2;
        struct operand *o = case_random(c, n, heads * dim, 1, "o"), *logsumexp, *sinks;
        struct operand *grad_o = case_random(c, n, heads * dim, 1, "grad_o");
        struct operand *grad = case_random_in(c, dtypes[s % kinds], 1, heads, 1, "grad_sinks");
        make_sinks(c, n, heads, &logsumexp, &sinks);
        for (size_t i = 0; i < n * heads; i++) // of the forward: no less than the sink
            logsumexp->values[i] =
                dtype_round(fmax(logsumexp->values[i], sinks->values[i % heads]) + 0.1, case_sums(c));
        CASE_RUN(c, op_attention_sink_backward(c->device, grad->tensor, grad_o->tensor, o->tensor,
                                               logsumexp->tensor, sinks->tensor));
        for (size_t i = 0; i < n * heads; i++) {
            double delta = 0;
            for (size_t d = i * dim; d < (i + 1) * dim; d++)
                delta += grad_o->values[d] * o->values[d];
            grad->values[i % heads] -= exp(sinks->values[i % heads] - logsumexp->values[i]) * delta;
        }
        case_check(c, grad, dtypes[s % kinds] == c->device->ops->dtype, 8 * case_growth(n * dim), "grad_sinks");
        case_end(c);
    }
}
