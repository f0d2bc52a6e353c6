#include "tests/cases/attention_reference.h"
#include <string.h>

size_t masking_prefix(struct masking m, size_t sequence)
{
    return m.prefix > 2 * sequence ? m.prefix - 2 * sequence : 0;
}

size_t masking_start(struct masking m, size_t token, size_t sequence)
{
    size_t prefix = masking_prefix(m, sequence), missing = 3 * sequence;
    if (prefix > 0) {
        return token < prefix ? 0 : token - (token - prefix) % m.document;
    }
    size_t within = m.document ? (token + missing) % m.document : token;
    return within < token ? token - within : 0;
}

// Whether the query at a token sees a key, by what they are of their documents.
static bool sees(struct masking m, size_t token, size_t key, size_t sequence)
{
    size_t prefix = masking_prefix(m, sequence), start = masking_start(m, token, sequence);
    size_t other = masking_start(m, key, sequence);
    bool continues = start > 0 && key < prefix;
    size_t position = start > 0 ? prefix + token - start : token;
    size_t stands = other > 0 ? prefix + key - other : key;
    return key <= token && (start == other || continues) && (m.window == 0 || position - stands < m.window);
}

bool masking_is_seeing(struct attention_shape s, struct masking m)
{
    for (size_t i = 0; i < s.queries * s.batch; i++) {
        size_t key = 0;
        while (key < attention_keys(s) && !sees(m, s.start + i / s.batch, key, i % s.batch)) {
            key++;
        }
        if (key == attention_keys(s)) {
            return false;
        }
    }
    return true;
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
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
            row[j] = dot(a->q->values + head * s.head_dim, key, s.head_dim) / sqrt((double)s.head_dim);
            largest = row[j] > largest ? row[j] : largest;
        }
    }
    for (size_t j = 0; j < count; j++) {
        sum += row[j] = row[j] == -INFINITY ? 0 : exp(row[j] - largest);
    }
    for (size_t j = 0; j < count; j++) {
        row[j] /= sum > 0 ? sum : 1;
    }
    *logsumexp = largest + log(sum);
    return count;
}

// y += factor * x
static void add(double *y, double factor, const double *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        y[i] += factor * x[i];
    }
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
        memset(o + i * s.head_dim, 0, s.head_dim * sizeof *o);
        for (size_t j = 0; j < count; j++) {
            size_t key = (j * s.batch + b) * s.kv_heads + h / (s.heads / s.kv_heads);
            add(o + i * s.head_dim, row[j], a->v->values + key * s.head_dim, s.head_dim);
        }
        free(row);
    }
}

void attention_backward_reference(const struct attention *a, double *grad_q, double *grad_k, double *grad_v)
{
    struct attention_shape s = a->s;
    size_t group = s.heads / s.kv_heads, dim = s.head_dim;
    double scale = 1 / sqrt((double)dim);
#pragma omp parallel for schedule(dynamic)
    for (size_t pair = 0; pair < s.batch * s.kv_heads; pair++) {
        size_t b = pair / s.kv_heads, g = pair % s.kv_heads;
        double *row = malloc((s.start + s.queries) * sizeof *row), ignored;
        CHECK(row);
        for (size_t i = 0; i < s.queries * group; i++) {
            size_t t = i / group, h = g * group + i % group, head = ((t * s.batch + b) * s.heads + h) * dim;
            const double *grad_o = a->grad_o->values + head;
            size_t count = probabilities(a, t, b, h, row, &ignored);
            double delta = dot(grad_o, a->o->values + head, dim);
            for (size_t j = 0; j < count; j++) {
                size_t key = ((j * s.batch + b) * s.kv_heads + g) * dim;
                double grad_score = row[j] * (dot(grad_o, a->v->values + key, dim) - delta) * scale;
                add(grad_q + head, grad_score, a->k->values + key, dim);
                add(grad_k + key, grad_score, a->q->values + head, dim);
                add(grad_v + key, row[j], grad_o, dim);
            }
        }
        free(row);
    }
}
