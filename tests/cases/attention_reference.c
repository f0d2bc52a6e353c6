#include "tests/cases/attention_reference.h"
#include <string.h>

size_t masking_prefix(struct masking m, size_t sequence)
{
    return m.prefix > 2 * sequence ? m.prefix - 2 * sequence : 0;
}

size_t masking_start(struct masking m, size_t token, size_t sequence)
{
    size_t prefix = masking_prefix(m, sequence), missing = 3 * sequence;
    if (prefix > 0)
        return token < prefix ? 0 : token - (token - prefix) % m.document;
    size_t within = m.document ? (token + missing) % m.document : token;
    return within < token ? token - within : 0;
}

// Whether the query at a token sees a key, by what they are of their documents.
static bool sees(struct masking m, size_t token, size_t key, size_t sequence)
{
    if (key > token || (m.window == 0 && m.document == 0))
        return key <= token;
    size_t prefix = masking_prefix(m, sequence), start = masking_start(m, token, sequence);
    size_t other = masking_start(m, key, sequence);
    bool continues = start > 0 && key < prefix;
    size_t position = start > 0 ? prefix + token - start : token;
    size_t stands = other > 0 ? prefix + key - other : key;
    return (start == other || continues) && (m.window == 0 || position - stands < m.window);
}

bool masking_is_seeing(struct attention_shape s, struct masking m)
{
    for (size_t i = 0; i < s.queries * s.batch; i++) {
        size_t key = 0;
        while (key < attention_keys(s) && !sees(m, s.start + i / s.batch, key, i % s.batch))
            key++;
        if (key == attention_keys(s))
            return false;
    }
    return true;
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

// A score of x = q k / sqrt(D), and its derivative.
static double score(const struct attention *a, double x)
{
    return a->s.cap > 0 ? a->s.cap * tanh(x / a->s.cap) : x;
}
static double score_slope(const struct attention *a, double x)
{
    return a->s.cap > 0 ? pow(cosh(x / a->s.cap), -2) : 1;
}

// One row of P, into `row`, 0 where the query does not see a key, and its logsumexp; how many there are. head: of
// q's rows, [rows, heads].
static size_t probabilities(const struct attention *a, size_t t, size_t b, size_t h, double *row, double *logsumexp)
{
    struct attention_shape s = a->s;
    size_t keys = attention_keys(s), count = s.start + t < keys ? s.start + t + 1 : keys,
           g = h / (s.heads / s.kv_heads), head = (t * s.batch + b) * s.heads + h;
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < count; j++) {
        const double *key = a->k->values + ((j * s.batch + b) * s.kv_heads + g) * s.head_dim;
        row[j] = -INFINITY;
        if (sees(a->mask, s.start + t, j, b)) {
            row[j] = score(a, dot(a->q->values + head * s.head_dim, key, s.head_dim) / sqrt((double)s.head_dim));
            largest = row[j] > largest ? row[j] : largest;
        }
    }
    for (size_t j = 0; j < count; j++)
        sum += row[j] = row[j] == -INFINITY ? 0 : exp(row[j] - largest);
    for (size_t j = 0; j < count; j++)
        row[j] /= sum > 0 ? sum : 1;
    *logsumexp = largest + log(sum);
    return count;
}

// y += factor * x
static void add(double *y, double factor, const double *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

void attention_forward_reference(const struct attention *a, double *o, double *logsumexp)
{
    struct attention_shape s = a->s;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s.queries * s.batch * s.heads; i++) {
        size_t h = i % s.heads, b = i / s.heads % s.batch, t = i / s.heads / s.batch;
        double *row = malloc((s.start + s.queries) * sizeof *row);
        CHECK(row);
        size_t count = probabilities(a, t, b, h, row, &logsumexp[i]);
        size_t dim = attention_value_dim(s);
        memset(o + i * dim, 0, dim * sizeof *o);
        for (size_t j = 0; j < count; j++) {
            size_t key = (j * s.batch + b) * s.kv_heads + h / (s.heads / s.kv_heads);
            add(o + i * dim, row[j], a->v->values + key * dim, dim);
        }
        free(row);
    }
}

// Computes grad_q of all rows, and for the keys' gradients the scores' logsumexp and delta = dO * O.
static void grad_queries(const struct attention *a, double *grad_q, double *logsumexp, double *delta)
{
    struct attention_shape s = a->s;
    size_t dim = s.head_dim, values = attention_value_dim(s);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s.queries * s.batch * s.heads; i++) {
        size_t h = i % s.heads, b = i / s.heads % s.batch, t = i / s.heads / s.batch,
               g = h / (s.heads / s.kv_heads);
        const double *grad_o = a->grad_o->values + i * values;
        double *row = malloc((s.start + s.queries) * sizeof *row);
        CHECK(row);
        size_t count = probabilities(a, t, b, h, row, &logsumexp[i]);
        delta[i] = dot(grad_o, a->o->values + i * values, values);
        for (size_t j = 0; j < count; j++) {
            size_t key = (j * s.batch + b) * s.kv_heads + g;
            const double *k = a->k->values + key * dim, *v = a->v->values + key * values;
            double x = dot(a->q->values + i * dim, k, dim) / sqrt((double)dim);
            double grad_score = row[j] * (dot(grad_o, v, values) - delta[i]) * score_slope(a, x);
            grad_score /= sqrt((double)dim);
            add(grad_q + i * dim, grad_score, k, dim);
        }
        free(row);
    }
}

// Gradients of some keys of a sequence and key head, from every query that sees them, first to last.
static void grad_keys(const struct attention *a, size_t b, size_t g, struct keys keys, const double *logsumexp,
                      const double *delta, double *grad_k, double *grad_v)
{
    struct attention_shape s = a->s;
    size_t group = s.heads / s.kv_heads, dim = s.head_dim, values = attention_value_dim(s);
    double scale = 1 / sqrt((double)dim);
    for (size_t i = 0; i < s.queries * group; i++) {
        size_t t = i / group, row = (t * s.batch + b) * s.heads + g * group + i % group;
        const double *q = a->q->values + row * dim, *grad_o = a->grad_o->values + row * values;
        for (size_t j = keys.start; j < keys.start + keys.count && j <= s.start + t; j++) {
            size_t key = (j * s.batch + b) * s.kv_heads + g;
            if (sees(a->mask, s.start + t, j, b)) {
                double x = dot(q, a->k->values + key * dim, dim) * scale, p = exp(score(a, x) - logsumexp[row]);
                double grad_score =
                    p * (dot(grad_o, a->v->values + key * values, values) - delta[row]) * score_slope(a, x);
                grad_score *= scale;
                add(grad_k + key * dim, grad_score, q, dim);
                add(grad_v + key * values, p, grad_o, values);
            }
        }
    }
}

void attention_backward_reference(const struct attention *a, double *grad_q, double *grad_k, double *grad_v)
{
    enum { KEYS = 32 }; // that a thread takes at a time: some, for every time reads all queries
    struct attention_shape s = a->s;
    size_t rows = s.queries * s.batch * s.heads, blocks = (attention_keys(s) + KEYS - 1) / KEYS;
    double *logsumexp = malloc(2 * rows * sizeof *logsumexp), *delta = logsumexp + rows;
    CHECK(logsumexp);
    grad_queries(a, grad_q, logsumexp, delta);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < s.batch * s.kv_heads * blocks; i++) {
        size_t start = i % blocks * KEYS, left = attention_keys(s) - start;
        struct keys keys = {start, left < KEYS ? left : KEYS};
        grad_keys(a, i / blocks / s.kv_heads, i / blocks % s.kv_heads, keys, logsumexp, delta, grad_k, grad_v);
    }
    free(logsumexp);
}
