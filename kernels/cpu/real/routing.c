// Routing of a mixture of experts, forward and backward, and rows in the experts' order and back; contracts in
// kernels/device/device.h. With s the chosen scores, S their sum + added, g the weights' gradients:
//     ds = scale (g - <g, s> / S) / S    normalised; scale g / least where S is below least; else scale g
//     sigmoid: dz = ds s (1 - s)         softmax: dz = p (ds - sum over the chosen of ds s)
// Totals are summed over tokens in order, whatever the number of threads.
#include "kernels/cpu/real/kernels.h"
#include "kernels/cpu/real/rows.h"

static void scores_of(const struct routing *r, const real *logits, real *scores)
{
    if (r->score == ROUTER_SIGMOID) {
#pragma omp simd
        for (size_t e = 0; e < r->experts; e++)
            scores[e] = 1 / (1 + real_exp(-logits[e]));
        return;
    }
    real max = logits[0], sum = 0;
    for (size_t e = 1; e < r->experts; e++)
        max = logits[e] > max ? logits[e] : max;
#pragma omp simd
    for (size_t e = 0; e < r->experts; e++)
        scores[e] = real_exp(logits[e] - max);
    for (size_t e = 0; e < r->experts; e++)
        sum += scores[e];
    for (size_t e = 0; e < r->experts; e++)
        scores[e] /= sum;
}

// NaN is the greatest value: one that it reaches shows in the loss.
static real comparable(real value)
{
    return isnan(value) ? INFINITY : value;
}

// Marks the `wanted` greatest of values in [0, count), of equal ones the first; returns their sum. marked values
// stay out.
static real take_greatest(const real *values, size_t count, size_t wanted, bool *marked)
{
    real sum = 0;
    for (size_t taken = 0; taken < wanted; taken++) {
        size_t best = count;
        for (size_t i = 0; i < count; i++)
            if (!marked[i] && (best == count || values[i] > values[best]))
                best = i;
        marked[best] = true;
        sum += values[best];
    }
    return sum;
}

static void choose(const struct routing *r, const real *scores, const real *bias, int32_t *row)
{
    real values[ROUTING_EXPERTS_MAX] = {0};
    bool marked[ROUTING_EXPERTS_MAX] = {false};
    for (size_t e = 0; e < r->experts; e++)
        values[e] = comparable(scores[e] + (bias ? bias[e] : 0));
    size_t group = r->groups ? r->experts / r->groups : r->experts;
    if (r->groups) {
        real of_group[ROUTING_GROUPS_MAX] = {0};
        bool within[ROUTING_GROUPS_MAX] = {false};
        for (size_t g = 0; g < r->groups; g++) {
            bool best[ROUTING_EXPERTS_MAX] = {false};
            of_group[g] = comparable(take_greatest(values + g * group, group, r->group_best, best));
        }
        take_greatest(of_group, r->groups, r->top_groups, within);
        for (size_t e = 0; e < r->experts; e++)
            marked[e] = !within[e / group];
    }
    bool outside[ROUTING_EXPERTS_MAX];
    memcpy(outside, marked, r->experts * sizeof *marked);
    take_greatest(values, r->experts, r->chosen, marked);
    memset(row, 0, routing_words(r) * sizeof *row);
    for (size_t e = 0, j = 0; e < r->experts; e++)
        if (marked[e] && !outside[e])
            routing_choose(r, row, j++, e);
}

void NAME(route_forward)(struct device *device, struct routing routing, struct tensor choices,
                         struct tensor weights, struct tensor logits, struct tensor bias, bool kept)
{
    size_t n = logits.rows, experts = routing.experts, words = choices.cols;
#pragma omp parallel for schedule(static) if (tensor_count(logits) > PARALLEL_ELEMENTS / 8)
    for (size_t t = 0; t < n; t++) {
        real scores[ROUTING_EXPERTS_MAX], sum = (real)routing.added, factor = (real)routing.scale;
        int32_t *row = (int32_t *)choices.data + t * words;
        real *w = (real *)weights.data + t * routing.chosen;
        scores_of(&routing, (const real *)logits.data + t * experts, scores);
        if (!kept)
            choose(&routing, scores, bias.data, row);
        for (size_t j = 0; j < routing.chosen; j++) {
            w[j] = scores[routing_choice(&routing, row, j)];
            sum += w[j];
        }
        if (routing.normalised)
            factor /= sum > (real)routing.least ? sum : (real)routing.least;
        for (size_t j = 0; j < routing.chosen; j++)
            w[j] *= factor;
    }
}

// Gradients of the chosen scores, in place of the weights' ones.
static void score_gradients(const struct routing *r, const real *scores, const int32_t *row, real *grads)
{
    real sum = (real)r->added, dot = 0, scale = (real)r->scale;
    for (size_t j = 0; j < r->chosen; j++) {
        real s = scores[routing_choice(r, row, j)];
        sum += s;
        dot += grads[j] * s;
    }
    bool bounded = sum <= (real)r->least;
    real below = bounded ? (real)r->least : sum, mean = bounded ? 0 : dot / sum;
    for (size_t j = 0; j < r->chosen; j++)
        grads[j] = r->normalised ? scale * (grads[j] - mean) / below : scale * grads[j];
}

// Totals of the sequence of a row.
static double *row_of_totals(struct tensor totals, size_t row)
{
    return (double *)totals.data + row % totals.rows * totals.cols;
}

static real logsumexp_of(const real *logits, size_t experts)
{
    real max = logits[0], sum = 0;
    for (size_t e = 1; e < experts; e++)
        max = logits[e] > max ? logits[e] : max;
    for (size_t e = 0; e < experts; e++)
        sum += real_exp(logits[e] - max);
    return max + (real)log((double)sum);
}

static struct routing with_score(struct routing routing, bool softmax)
{
    routing.score = softmax ? ROUTER_SOFTMAX : routing.score;
    return routing;
}

// Adds a token's share of the losses to the gradient of its logits. totals: of its sequence; NULL: none balances.
static void add_losses(const struct routing *r, struct router_terms terms, const double *totals, real repeats,
                       const real *logits, real *grad)
{
    real p[ROUTING_EXPERTS_MAX], sum = 0, dot = 0, tokens = totals ? (real)totals[2 * r->experts] : 0;
    struct routing of_losses = with_score(*r, true);
    if (terms.z != 0) {
        real factor = 2 * (real)terms.z * repeats * logsumexp_of(logits, r->experts);
        scores_of(&of_losses, logits, p);
        for (size_t e = 0; e < r->experts; e++)
            grad[e] += factor * p[e];
    }
    if (!totals || tokens == 0)
        return;
    of_losses = with_score(*r, terms.softmax);
    bool softmax = of_losses.score == ROUTER_SOFTMAX;
    real scale = (real)terms.balance * repeats / tokens;
    scores_of(&of_losses, logits, p);
    for (size_t e = 0; e < r->experts; e++) {
        sum += p[e];
        dot += p[e] * scale * (real)totals[e];
    }
    sum = softmax ? 1 : sum;
    for (size_t e = 0; e < r->experts; e++)
        grad[e] += p[e] / sum * (softmax ? 1 : 1 - p[e]) * (scale * (real)totals[e] - dot / sum);
}

void NAME(route_backward)(struct device *device, struct routing routing, struct tensor logits,
                          struct tensor choices, struct tensor grad_weights, struct router_terms terms,
                          struct tensor totals, struct tensor repeats)
{
    size_t n = logits.rows, experts = routing.experts;
    bool softmax = routing.score == ROUTER_SOFTMAX;
#pragma omp parallel for schedule(static) if (tensor_count(logits) > PARALLEL_ELEMENTS / 8)
    for (size_t t = 0; t < n; t++) {
        real scores[ROUTING_EXPERTS_MAX], grads[ROUTING_EXPERTS_MAX], of_losses[ROUTING_EXPERTS_MAX] = {0}, dot = 0;
        const int32_t *row = (const int32_t *)choices.data + t * choices.cols;
        real *z = (real *)logits.data + t * experts;
        scores_of(&routing, z, scores);
        memcpy(grads, (const real *)grad_weights.data + t * routing.chosen, routing.chosen * sizeof *grads);
        score_gradients(&routing, scores, row, grads);
        for (size_t j = 0; j < routing.chosen; j++)
            dot += grads[j] * scores[routing_choice(&routing, row, j)];
        if (terms.balance != 0 || terms.z != 0)
            add_losses(&routing, terms, terms.balance != 0 ? row_of_totals(totals, t) : NULL,
                       repeats.data ? (real)((const int32_t *)repeats.data)[t] : 1, z, of_losses);
        for (size_t e = 0; e < experts; e++)
            z[e] = of_losses[e] + (softmax ? -scores[e] * dot : 0);
        for (size_t j = 0; j < routing.chosen; j++) {
            size_t e = routing_choice(&routing, row, j);
            z[e] += softmax ? scores[e] * grads[j] : grads[j] * scores[e] * (1 - scores[e]);
        }
    }
}

// By row: what its p are divided by, or is subtracted in their exponent; and logsumexp^2.
static void sum_rows(const struct routing *routing, struct tensor logits, real *sums)
{
    size_t experts = routing->experts;
    bool softmax = routing->score == ROUTER_SOFTMAX;
#pragma omp parallel for schedule(static) if (tensor_count(logits) > PARALLEL_ELEMENTS / 8)
    for (size_t t = 0; t < logits.rows; t++) {
        real scores[ROUTING_EXPERTS_MAX], sum = 0;
        const real *z = (const real *)logits.data + t * experts;
        real logsumexp = logsumexp_of(z, experts);
        if (!softmax)
            scores_of(routing, z, scores);
        for (size_t e = 0; e < experts && !softmax; e++)
            sum += scores[e];
        sums[2 * t] = softmax ? logsumexp : sum;
        sums[2 * t + 1] = logsumexp * logsumexp;
    }
}

void NAME(route_count)(struct device *device, struct routing routing, struct tensor totals, struct tensor choices,
                       struct tensor logits, bool softmax, struct tensor repeats, struct tensor row_sums)
{
    enum { BLOCK = 16 };
    size_t experts = routing.experts, n = logits.rows;
    struct routing of_p = with_score(routing, softmax);
    real *sums = row_sums.data;
    sum_rows(&of_p, logits, sums);
#pragma omp parallel for schedule(static) if (tensor_count(logits) > PARALLEL_ELEMENTS / 8)
    for (size_t first = 0; first < experts; first += BLOCK) {
        size_t end = first + BLOCK < experts ? first + BLOCK : experts;
        for (size_t t = 0; t < n; t++) {
            double times = repeats.data ? ((const int32_t *)repeats.data)[t] : 1;
            double *p = row_of_totals(totals, t) + experts;
            const real *z = (const real *)logits.data + t * experts;
#pragma omp simd
            for (size_t e = first; e < end; e++)
                p[e] += times * (double)(of_p.score == ROUTER_SOFTMAX ? real_exp(z[e] - sums[2 * t])
                                                                      : 1 / (1 + real_exp(-z[e])) / sums[2 * t]);
        }
    }
    for (size_t t = 0; t < n; t++) {
        double times = repeats.data ? ((const int32_t *)repeats.data)[t] : 1, *row = row_of_totals(totals, t);
        for (size_t j = 0; j < routing.chosen; j++)
            row[routing_choice(&routing, (const int32_t *)choices.data + t * choices.cols, j)] += times;
        row[2 * experts] += times;
        row[2 * experts + 1] += times * (double)sums[2 * t + 1];
    }
}

// A counting sort by expert: slots keep their order within one.
void NAME(permute_slots)(struct device *device, struct routing routing, struct tensor rows, struct tensor slots,
                         struct tensor starts, struct tensor choices)
{
    int32_t next[ROUTING_EXPERTS_MAX + 1] = {0}, *first = starts.data;
    const int32_t *words = choices.data;
    size_t n = choices.rows, k = routing.chosen;
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < k; j++)
            next[routing_choice(&routing, words + t * choices.cols, j) + 1]++;
    for (size_t e = 0; e < routing.experts; e++)
        next[e + 1] += next[e];
    memcpy(first, next, (routing.experts + 1) * sizeof *first);
    for (size_t t = 0; t < n; t++) {
        for (size_t j = 0; j < k; j++) {
            int32_t row = next[routing_choice(&routing, words + t * choices.cols, j)]++;
            ((int32_t *)rows.data)[t * k + j] = row;
            ((int32_t *)slots.data)[row] = (int32_t)(t * k + j);
        }
    }
}

void NAME(gather_slots)(struct device *device, struct tensor dst, struct tensor src, struct tensor slots,
                        size_t chosen, size_t first)
{
    size_t bytes = tensor_bytes(tensor_rows(src, 0, 1));
    const int32_t *slot = (const int32_t *)slots.data + first;
#pragma omp parallel for schedule(static) if (tensor_count(dst) > PARALLEL_ELEMENTS)
    for (size_t r = 0; r < dst.rows; r++)
        memcpy((char *)dst.data + r * bytes, (const char *)src.data + (size_t)slot[r] / chosen * bytes, bytes);
}

void NAME(scatter_slots)(struct device *device, struct tensor dst, struct tensor src, struct tensor rows,
                         struct tensor weights, size_t first)
{
    size_t width = src.cols, k = rows.cols;
    const int32_t *row = rows.data;
#pragma omp parallel for schedule(static) if (tensor_count(dst) > PARALLEL_ELEMENTS)
    for (size_t t = 0; t < dst.rows; t++) {
        real *to = (real *)dst.data + t * width;
        for (size_t j = 0; j < k; j++) {
            size_t at = (size_t)row[t * k + j] - first;
            if (at >= src.rows)
                continue;
            const stored *from = (const stored *)src.data + at * width;
            real weight = weights.data ? ((const real *)weights.data)[t * k + j] : 1;
#pragma omp simd
            for (size_t i = 0; i < width; i++)
                to[i] += weight * load(from[i]);
        }
    }
}
