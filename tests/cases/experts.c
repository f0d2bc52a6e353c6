// A mixture of experts: routers of every family, ties, choices that are kept; experts without a row and with all of
// them; blocks of rows that cut experts, of one row and of all.
#include "tests/cases/cases.h"
#include <string.h>

static const struct routing routers[] = {
    {1, 1, ROUTER_SOFTMAX, true, 0, 0, 1, 0, 0, 0},         {4, 4, ROUTER_SOFTMAX, false, 0, 0, 1, 0, 0, 0},
    {8, 2, ROUTER_SOFTMAX, true, 0, 0, 1, 0, 0, 0},         {128, 8, ROUTER_SOFTMAX, false, 0, 0, 1, 0, 0, 0},
    {300, 3, ROUTER_SIGMOID, true, 1e-20, 0, 2.5, 0, 0, 0}, {64, 6, ROUTER_SIGMOID, true, 1e-20, 0, 2.5, 8, 4, 2},
    {16, 3, ROUTER_SOFTMAX, false, 0, 0, 16, 4, 2, 1},      {32, 4, ROUTER_SOFTMAX, true, 0, 0.5, 1, 0, 0, 0},
};
static const size_t tokens[] = {1, 5, 60};
#define ROUTERS (sizeof routers / sizeof *routers)
#define TOKENS  (sizeof tokens / sizeof *tokens)

static void scores_of(const struct routing *r, const double *z, double *scores)
{
    double sum = 0, max = -INFINITY;
    for (size_t e = 0; e < r->experts; e++)
        max = fmax(max, z[e]);
    for (size_t e = 0; e < r->experts; e++)
        sum += exp(z[e] - max);
    for (size_t e = 0; e < r->experts; e++)
        scores[e] = r->score == ROUTER_SIGMOID ? 1 / (1 + exp(-z[e])) : exp(z[e] - max) / sum;
}

// NaN is the greatest value.
static double comparable(double value)
{
    return isnan(value) ? INFINITY : value;
}

// How many values come before number i: greater ones, and equal ones of a lower number.
static size_t rank_of(const double *values, size_t count, size_t i)
{
    size_t before = 0;
    for (size_t j = 0; j < count; j++)
        before += values[j] > values[i] || (values[j] == values[i] && j < i);
    return before;
}

static void choose(const struct routing *r, const double *scores, const double *bias, int32_t *row)
{
    double values[ROUTING_EXPERTS_MAX], groups[ROUTING_GROUPS_MAX] = {0};
    size_t size = r->groups ? r->experts / r->groups : r->experts;
    for (size_t e = 0; e < r->experts; e++)
        values[e] = comparable(scores[e] + (bias ? bias[e] : 0));
    for (size_t e = 0; e < r->experts && r->groups; e++)
        if (rank_of(values + e / size * size, size, e % size) < r->group_best)
            groups[e / size] += values[e];
    for (size_t e = 0; e < r->experts && r->groups; e++)
        if (rank_of(groups, r->groups, e / size) >= r->top_groups)
            values[e] = -INFINITY;
    memset(row, 0, routing_words(r) * sizeof *row);
    for (size_t e = 0, j = 0; e < r->experts; e++)
        if (rank_of(values, r->experts, e) < r->chosen)
            routing_choose(r, row, j++, e);
}

static int32_t *words_of(const struct operand *choices, size_t t, int32_t *row)
{
    for (size_t i = 0; i < choices->tensor.cols; i++)
        row[i] = (int32_t)choices->values[t * choices->tensor.cols + i];
    return row;
}

static void set_words(struct operand *choices, size_t t, const int32_t *row)
{
    for (size_t i = 0; i < choices->tensor.cols; i++)
        choices->values[t * choices->tensor.cols + i] = row[i];
}

// Choices that no router need make: every seventh expert from one that differs between tokens; none has 7 for a
// divisor.
static void choose_any(struct operand *choices, const struct routing *r)
{
    for (size_t t = 0; t < choices->tensor.rows; t++) {
        int32_t row[ROUTING_EXPERTS_MAX] = {0};
        bool taken[ROUTING_EXPERTS_MAX] = {false};
        for (size_t j = 0; j < r->chosen; j++)
            taken[(5 * t + 7 * j) % r->experts] = true;
        for (size_t e = 0, j = 0; e < r->experts; e++)
            if (taken[e])
                routing_choose(r, row, j++, e);
        set_words(choices, t, row);
    }
}

static double sum_of(const struct routing *r, const double *scores, const int32_t *row)
{
    double sum = r->added;
    for (size_t j = 0; j < r->chosen; j++)
        sum += scores[routing_choice(r, row, j)];
    return sum;
}

// Two experts are alike, and all of the last token's.
static struct operand *logits_of(struct cases *c, const struct routing *r, size_t n)
{
    struct operand *z = case_random_in(c, case_sums(c), n, r->experts, 1.5, "logits");
    for (size_t t = 0; t < n; t++)
        z->values[t * r->experts + r->experts - 1] = z->values[t * r->experts + r->experts / 2];
    for (size_t e = 0; e < r->experts; e++)
        z->values[(n - 1) * r->experts + e] = 0.25;
    return z;
}

void route_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < ROUTERS * TOKENS * 2; s++) {
        const struct routing *r = &routers[s / 2 % ROUTERS];
        size_t n = tokens[s / 2 / ROUTERS];
        bool kept = s % 2;
        if (case_is_too_large(c, (double)(n * r->experts)))
            continue;
        struct operand *z = logits_of(c, r, n);
        struct operand *bias = case_random_in(c, case_sums(c), 1, r->experts, 0.1, "bias");
        struct operand *choices = case_output_in(c, DTYPE_I32, n, routing_words(r));
        struct operand *weights = case_output_in(c, case_sums(c), n, r->chosen);
        bool biased = s / 2 % ROUTERS >= 4;
        // One value of an expert that would seldom be chosen, and one that has no order, as of a run that diverges.
        if (biased && n == tokens[1])
            bias->values[0] = -INFINITY, bias->values[r->experts / 2 + 1] = NAN;
        for (size_t i = 0; i < tensor_count(choices->tensor); i++)
            choices->values[i] = -1;
        if (kept)
            choose_any(choices, r);
        CASE_RUN(c, op_route_forward(c->device, *r, choices->tensor, weights->tensor, z->tensor,
                                     biased ? bias->tensor : tensor_none(), kept));
        for (size_t t = 0; t < n; t++) {
            double scores[ROUTING_EXPERTS_MAX];
            int32_t row[ROUTING_EXPERTS_MAX];
            scores_of(r, z->values + t * r->experts, scores);
            words_of(choices, t, row);
            if (!kept)
                choose(r, scores, biased ? bias->values : NULL, row);
            set_words(choices, t, row);
            double below = r->normalised ? fmax(sum_of(r, scores, row), r->least) : 1;
            for (size_t j = 0; j < r->chosen; j++)
                weights->values[t * r->chosen + j] = r->scale * scores[routing_choice(r, row, j)] / below;
        }
        if (!kept)
            case_check(c, choices, 0, 0, "choices of router %zu, %zu tokens", s / 2 % ROUTERS, n);
        case_check(c, weights, 0, case_growth(r->experts), "weights of router %zu, %zu tokens", s / 2 % ROUTERS, n);
        case_end(c);
    }
}

// How often tokens count: some never.
static struct operand *repeats_of(struct cases *c, size_t n)
{
    struct operand *repeats = case_output_in(c, DTYPE_I32, n, 1);
    for (size_t t = 0; t < n; t++)
        repeats->values[t] = (double)(t % 3);
    return repeats;
}

// p of a router's balancing loss; returns logsumexp.
static double p_of(const struct routing *r, const double *z, bool softmax, double *p)
{
    struct routing of_p = *r;
    double sum = 0, logsumexp = 0;
    of_p.score = softmax ? ROUTER_SOFTMAX : r->score;
    scores_of(&of_p, z, p);
    for (size_t e = 0; e < r->experts; e++) {
        sum += p[e];
        logsumexp += exp(z[e]);
    }
    for (size_t e = 0; e < r->experts; e++)
        p[e] /= sum;
    return log(logsumexp);
}

// The gradient of logits in the sum of a p, and in that of logsumexp^2, by the Jacobian of p.
static void add_losses(const struct routing *r, const double *z, struct router_terms terms, const double *totals,
                       double repeats, double *grad)
{
    double p[ROUTING_EXPERTS_MAX], softmax[ROUTING_EXPERTS_MAX], scores[ROUTING_EXPERTS_MAX];
    bool sigmoid = r->score == ROUTER_SIGMOID && !terms.softmax;
    double logsumexp = p_of(r, z, true, softmax), tokens = totals[2 * r->experts];
    p_of(r, z, terms.softmax, p);
    scores_of(r, z, scores);
    for (size_t e = 0; e < r->experts; e++) {
        double own = sigmoid ? p[e] * (1 - scores[e]) : p[e]; // dz of ln p's numerator
        grad[e] += terms.z * repeats * 2 * logsumexp * softmax[e];
        for (size_t i = 0; i < r->experts && tokens > 0; i++)
            grad[e] += terms.balance * repeats * totals[i] / tokens * own * ((i == e) - p[i]);
    }
}

void route_count_cases(struct cases *c)
{
    for (size_t s = 0; s < ROUTERS * TOKENS * 2; s++) {
        const struct routing *r = &routers[s / 2 % ROUTERS];
        size_t n = tokens[s / 2 / ROUTERS], sequences = s % 2 ? n == 1 ? 1 : 5 : 1, cols = router_totals(r);
        bool softmax = s % 3;
        if (case_is_too_large(c, (double)(n * r->experts)))
            continue;
        struct operand *z = logits_of(c, r, n), *choices = case_output_in(c, DTYPE_I32, n, routing_words(r));
        struct operand *totals = case_random_in(c, DTYPE_F64, sequences, cols, 1, "totals");
        struct operand *repeats = repeats_of(c, n), *sums = case_output_in(c, case_sums(c), n, 2);
        choose_any(choices, r);
        CASE_RUN(c, op_route_count(c->device, *r, totals->tensor, choices->tensor, z->tensor, softmax,
                                   s % 2 ? repeats->tensor : tensor_none(), sums->tensor));
        for (size_t t = 0; t < n; t++) {
            double p[ROUTING_EXPERTS_MAX], times = s % 2 ? repeats->values[t] : 1;
            double *row = totals->values + t % sequences * cols, *of = z->values + t * r->experts, sum = 0;
            int32_t words[ROUTING_EXPERTS_MAX];
            double logsumexp = p_of(r, of, softmax, p);
            for (size_t e = 0; e < r->experts; e++) {
                row[r->experts + e] += times * p[e];
                sum += 1 / (1 + exp(-of[e]));
            }
            for (size_t j = 0; j < r->chosen; j++)
                row[routing_choice(r, words_of(choices, t, words), j)] += times;
            row[2 * r->experts] += times;
            row[2 * r->experts + 1] += times * logsumexp * logsumexp;
            sums->values[2 * t] = softmax || r->score == ROUTER_SOFTMAX ? logsumexp : sum;
            sums->values[2 * t + 1] = logsumexp * logsumexp;
        }
        case_check(c, totals, 0, case_growth(n * r->experts), "totals of router %zu, %zu tokens", s / 2 % ROUTERS,
                   n);
        case_check(c, sums, 0, 2 * case_growth(r->experts), "sums of router %zu, %zu tokens", s / 2 % ROUTERS, n);
        case_end(c);
    }
}

void route_backward_cases(struct cases *c)
{
    for (size_t s = 0; s < ROUTERS * TOKENS * 4; s++) {
        const struct routing *r = &routers[s % ROUTERS];
        size_t n = tokens[s / ROUTERS % TOKENS], form = s / ROUTERS / TOKENS; // of losses: none, both, balance, z
        const struct router_terms terms = {form % 3 ? 0.5 : 0, form % 2 ? 0.1 : 0, form == 1};
        size_t sequences = form == 2 && n > 1 ? 5 : 1;
        if (case_is_too_large(c, (double)(n * r->experts)))
            continue;
        struct operand *z = logits_of(c, r, n);
        struct operand *choices = case_output_in(c, DTYPE_I32, n, routing_words(r));
        struct operand *grads = case_random_in(c, case_sums(c), n, r->chosen, 1, "grad_weights");
        struct operand *totals = case_random_in(c, DTYPE_F64, sequences, router_totals(r), 1, "totals");
        struct operand *repeats = repeats_of(c, n);
        for (size_t i = 0; i < sequences; i++)
            totals->values[i * router_totals(r) + 2 * r->experts] = i == 1 ? 0 : 3;
        choose_any(choices, r);
        CASE_RUN(c, op_route_backward(c->device, *r, z->tensor, choices->tensor, grads->tensor, terms,
                                      terms.balance > 0 ? totals->tensor : tensor_none(),
                                      form == 1 ? tensor_none() : repeats->tensor));
        for (size_t t = 0; t < n; t++) {
            double scores[ROUTING_EXPERTS_MAX], slopes[ROUTING_EXPERTS_MAX] = {0}, *at = z->values + t * r->experts;
            int32_t row[ROUTING_EXPERTS_MAX];
            const double *g = grads->values + t * r->chosen;
            scores_of(r, at, scores);
            words_of(choices, t, row);
            double sum = sum_of(r, scores, row), below = fmax(sum, r->least), of_losses[ROUTING_EXPERTS_MAX] = {0};
            if (form > 0)
                add_losses(r, at, terms, totals->values + t % sequences * router_totals(r),
                           form == 1 ? 1 : repeats->values[t], of_losses);
            // dL / ds of each chosen score, from w = scale s / below.
            for (size_t j = 0; j < r->chosen; j++) {
                double of_sum = 0;
                for (size_t m = 0; m < r->chosen && sum > r->least; m++)
                    of_sum += g[m] * scores[routing_choice(r, row, m)] / (below * below);
                slopes[routing_choice(r, row, j)] = r->scale * (r->normalised ? g[j] / below - of_sum : g[j]);
            }
            double mean = 0;
            for (size_t e = 0; e < r->experts; e++)
                mean += slopes[e] * scores[e];
            for (size_t e = 0; e < r->experts; e++)
                at[e] = of_losses[e] + (r->score == ROUTER_SIGMOID ? slopes[e] * scores[e] * (1 - scores[e])
                                                                   : scores[e] * (slopes[e] - mean));
        }
        case_check(c, z, 0, 4 * case_growth(r->experts), "gradient of router %zu, %zu tokens", s % ROUTERS, n);
        case_end(c);
    }
}

// Slots' places by random choices, and by the first k experts for all tokens, so that the others have none.
static void permute(const struct routing *r, const struct operand *choices, double *rows, double *slots,
                    double *starts)
{
    size_t next = 0, n = choices->tensor.rows;
    for (size_t e = 0; e < r->experts; e++) {
        starts[e] = (double)next;
        for (size_t t = 0; t < n; t++) {
            int32_t row[ROUTING_EXPERTS_MAX];
            words_of(choices, t, row);
            for (size_t j = 0; j < r->chosen; j++) {
                if (routing_choice(r, row, j) != e)
                    continue;
                rows[t * r->chosen + j] = (double)next;
                slots[next++] = (double)(t * r->chosen + j);
            }
        }
    }
    starts[r->experts] = (double)next;
}

static void choose_first(struct operand *choices, const struct routing *r)
{
    int32_t row[ROUTING_EXPERTS_MAX] = {0};
    for (size_t j = 0; j < r->chosen; j++)
        routing_choose(r, row, j, j);
    for (size_t t = 0; t < choices->tensor.rows; t++)
        set_words(choices, t, row);
}

void permute_slots_cases(struct cases *c)
{
    for (size_t s = 0; s < ROUTERS * (TOKENS + 1) * 2; s++) {
        const struct routing *r = &routers[s / 2 % ROUTERS];
        size_t n = s / 2 / ROUTERS < TOKENS ? tokens[s / 2 / ROUTERS] : 1100;
        if (case_is_too_large(c, (double)(n * r->experts)))
            continue;
        struct operand *choices = case_output_in(c, DTYPE_I32, n, routing_words(r));
        struct operand *rows = case_output_in(c, DTYPE_I32, n, r->chosen);
        struct operand *slots = case_output_in(c, DTYPE_I32, n * r->chosen, 1);
        struct operand *starts = case_output_in(c, DTYPE_I32, r->experts + 1, 1);
        struct operand *outputs[] = {rows, slots, starts};
        for (size_t i = 0; i < 3; i++)
            for (size_t j = 0; j < tensor_count(outputs[i]->tensor); j++)
                outputs[i]->values[j] = -1;
        if (s % 2)
            choose_first(choices, r);
        else
            choose_any(choices, r);
        CASE_RUN(c, op_permute_slots(c->device, *r, rows->tensor, slots->tensor, starts->tensor, choices->tensor));
        permute(r, choices, rows->values, slots->values, starts->values);
        case_check(c, rows, 0, 0, "rows of %zu tokens, router %zu", n, s / 2 % ROUTERS);
        case_check(c, slots, 0, 0, "slots of %zu tokens, router %zu", n, s / 2 % ROUTERS);
        case_check(c, starts, 0, 0, "starts of %zu tokens, router %zu", n, s / 2 % ROUTERS);
        case_end(c);
    }
}

// Tokens, router, width, first row and rows of a block; 0 rows: to the end.
static const struct block {
    size_t n, router, width, first, rows;
} row_blocks[] = {{1, 0, 1, 0, 0},   {5, 2, 7, 0, 0},    {5, 2, 72, 3, 1},   {130, 2, 64, 0, 0},
                  {60, 5, 33, 7, 0}, {60, 3, 8, 70, 37}, {9, 1, 1030, 5, 20}};
#define BLOCKS (sizeof row_blocks / sizeof *row_blocks)

static size_t rows_of(const struct block *b)
{
    return b->rows ? b->rows : b->n * routers[b->router].chosen - b->first;
}

// Operands that say where slots lie, as they are given.
struct places {
    struct operand *rows, *slots, *starts;
};
static struct places places_of(struct cases *c, const struct routing *r, size_t n, bool spread)
{
    struct operand *choices = case_output_in(c, DTYPE_I32, n, routing_words(r));
    struct places p = {case_output_in(c, DTYPE_I32, n, r->chosen), case_output_in(c, DTYPE_I32, n * r->chosen, 1),
                       case_output_in(c, DTYPE_I32, r->experts + 1, 1)};
    if (spread)
        choose_any(choices, r);
    else
        choose_first(choices, r);
    permute(r, choices, p.rows->values, p.slots->values, p.starts->values);
    return p;
}

void gather_slots_cases(struct cases *c)
{
    for (size_t s = 0; s < BLOCKS; s++) {
        const struct block *b = &row_blocks[s];
        const struct routing *r = &routers[b->router];
        if (case_is_too_large(c, (double)(rows_of(b) * b->width)))
            continue;
        struct places p = places_of(c, r, b->n, true);
        c->offset = s % 3 == 1;
        struct operand *src = case_random(c, b->n, b->width, 1, "src");
        struct operand *dst = case_output(c, rows_of(b), b->width);
        c->offset = 0;
        CASE_RUN(c, op_gather_slots(c->device, dst->tensor, src->tensor, p.slots->tensor, r->chosen, b->first));
        for (size_t i = 0; i < tensor_count(dst->tensor); i++) {
            size_t slot = (size_t)p.slots->values[b->first + i / b->width];
            dst->values[i] = src->values[slot / r->chosen * b->width + i % b->width];
        }
        case_check(c, dst, 0, 0, "rows of block %zu", s);
        case_end(c);
    }
}

void scatter_slots_cases(struct cases *c)
{
    for (size_t s = 0; s < 2 * BLOCKS; s++) {
        const struct block *b = &row_blocks[s / 2];
        const struct routing *r = &routers[b->router];
        size_t k = r->chosen;
        if (case_is_too_large(c, (double)(rows_of(b) * b->width)))
            continue;
        struct places p = places_of(c, r, b->n, true);
        struct operand *weights = case_random_in(c, case_sums(c), b->n, k, 1, "weights");
        c->offset = s % 3 == 1;
        struct operand *src = case_random(c, rows_of(b), b->width, 1, "src");
        struct operand *dst = case_random_in(c, case_sums(c), b->n, b->width, 1, "dst");
        c->offset = 0;
        CASE_RUN(c, op_scatter_slots(c->device, dst->tensor, src->tensor, p.rows->tensor,
                                     s % 2 ? weights->tensor : tensor_none(), b->first));
        for (size_t slot = 0; slot < b->n * k; slot++) {
            double at = p.rows->values[slot] - (double)b->first;
            for (size_t i = 0; i < b->width && at >= 0 && at < (double)rows_of(b); i++) {
                dst->values[slot / k * b->width + i] +=
                    (s % 2 ? weights->values[slot] : 1) * src->values[(size_t)at * b->width + i];
            }
        }
        case_check(c, dst, 0, case_growth(k), "sums of block %zu, weighted %zu", s / 2, s % 2);
        case_end(c);
    }
}

// The expert of a permuted row.
static size_t expert_of(const struct operand *starts, size_t row)
{
    size_t e = 0;
    while ((double)row >= starts->values[e + 1])
        e++;
    return e;
}

// Tells whether a permuted row is of one of the experts.
static bool has_expert(const struct operand *starts, size_t experts, size_t row)
{
    return (double)row >= starts->values[0] && (double)row < starts->values[experts];
}

enum form { FORM_NT, FORM_NN, FORM_TN, FORMS };

// c of rows: the expert's product; of an expert: the sum over its rows in the block.
static void product(struct operand *to, const struct operand *a, const struct operand *b,
                    const struct operand *starts, enum form form, size_t out, size_t in, size_t first, double alpha)
{
    for (size_t r = 0; r < a->tensor.rows; r++) {
        if (!has_expert(starts, starts->tensor.rows - 1, first + r))
            continue;
        size_t e = expert_of(starts, first + r);
        for (size_t i = 0; i < out; i++) {
            for (size_t j = 0; j < in; j++) {
                size_t matrix = (e * out + i) * in + j;
                if (form == FORM_NT)
                    to->values[r * out + i] += a->values[r * in + j] * b->values[matrix];
                else if (form == FORM_NN)
                    to->values[r * in + j] += a->values[r * out + i] * b->values[matrix];
                else
                    to->values[matrix] += alpha * a->values[r * out + i] * b->values[r * in + j];
            }
        }
    }
}

// Experts, their rows, round and round, a block of those (rows 0: to the end), and an expert's matrix. off:
// operands that are not aligned. before, behind: rows of other ranks' experts, which nothing touches.
static const struct product_shape {
    size_t experts, counts[5], counted, first, rows, out, in;
    bool off;
    size_t before, behind;
} products[] = {
    {1, {1}, 1, 0, 0, 1, 1, false, 0, 0},
    {4, {5}, 1, 0, 0, 7, 5, true, 0, 0},
    {8, {2, 0, 1}, 3, 0, 0, 72, 40, true, 0, 0},
    {8, {2, 0, 1}, 3, 3, 1, 72, 40, false, 0, 0},
    {16, {0, 9, 3}, 3, 7, 33, 130, 10, false, 0, 0},
    {128, {4}, 1, 70, 37, 8, 16, false, 0, 0},
    {300, {1, 0, 3}, 3, 5, 0, 8, 8, false, 0, 0},
    {4, {65, 0, 17, 64}, 4, 0, 0, 40, 136, false, 0, 0},
    {1, {129}, 1, 0, 0, 136, 40, false, 0, 0},
    {3, {0, 257, 0}, 3, 0, 0, 56, 136, false, 0, 0},
    {5, {127, 0, 128, 1, 129}, 5, 0, 0, 24, 136, false, 0, 0},
    {5, {127, 0, 128, 1, 129}, 5, 100, 190, 136, 24, false, 0, 0},
    {16, {70}, 1, 0, 0, 8, 136, false, 0, 0},
    {1, {2, 0, 1}, 1, 0, 0, 1160, 16, false, 0, 0},
    {4, {5, 0, 70}, 3, 0, 0, 24, 40, false, 300, 90},
    {3, {9}, 1, 40, 90, 7, 5, false, 100, 60},
};
#define PRODUCTS (sizeof products / sizeof *products)

static struct operand *starts_of(struct cases *c, const struct product_shape *p)
{
    struct operand *starts = case_output_in(c, DTYPE_I32, p->experts + 1, 1);
    starts->values[0] = (double)p->before;
    for (size_t e = 0; e < p->experts; e++)
        starts->values[e + 1] = starts->values[e] + (double)p->counts[e % p->counted];
    return starts;
}

static void grouped_gemm_case(struct cases *c, const struct product_shape *p, enum form form, enum dtype sums,
                              bool reverse, double alpha)
{
    size_t out = p->out, in = p->in;
    struct operand *starts = starts_of(c, p);
    size_t all = (size_t)starts->values[p->experts] + p->behind, rows = p->rows ? p->rows : all - p->first;
    c->offset = p->off;
    struct operand *a = case_random(c, rows, form == FORM_NT ? in : out, 1, "a");
    struct operand *b =
        form == FORM_TN ? case_random(c, rows, in, 1, "b") : case_random(c, p->experts * out, in, 1, "b");
    struct operand *to = form == FORM_TN ? case_random_in(c, sums, p->experts * out, in, 1, "c")
                         : p->before     ? case_random(c, rows, form == FORM_NT ? out : in, 1, "c")
                                         : case_output(c, rows, form == FORM_NT ? out : in);
    c->offset = 0;
    c->device->reverse_sums = reverse;
    CASE_RUN(c, op_grouped_gemm(c->device, (struct expert_rows){starts->tensor, all, p->first, 0}, to->tensor,
                                a->tensor, form == FORM_TN ? TRANSPOSE : NO_TRANSPOSE, b->tensor,
                                form == FORM_NT ? TRANSPOSE : NO_TRANSPOSE, alpha));
    c->device->reverse_sums = 0;
    for (size_t i = 0; i < tensor_count(to->tensor) && form != FORM_TN; i++)
        if (has_expert(starts, p->experts, p->first + i / to->tensor.cols))
            to->values[i] = 0;
    product(to, a, b, starts, form, out, in, p->first, alpha);
    bool narrow = form != FORM_TN || sums == c->device->ops->dtype;
    size_t terms = form == FORM_TN ? rows : form == FORM_NT ? in : out;
    case_check(c, to, narrow * (1.0 + reverse), case_growth(terms), "form %d of rows %zu", form,
               (size_t)(p - products));
    case_end(c);
}

void grouped_gemm_cases(struct cases *c)
{
    enum dtype dtypes[2];
    size_t kinds = case_accumulators(c, dtypes);
    for (size_t s = 0; s < PRODUCTS * (FORMS - 1 + kinds); s++) {
        const struct product_shape *p = &products[s % PRODUCTS];
        size_t form = s / PRODUCTS < FORM_TN ? s / PRODUCTS : FORM_TN;
        if (case_is_too_large(c, (double)(p->experts * p->out * p->in)))
            continue;
        grouped_gemm_case(c, p, (enum form)form, dtypes[s / PRODUCTS - form], s % 5 == 3,
                          form == FORM_TN && s % 3 ? 0.5 : 1);
    }
}

static const size_t act_widths[] = {1, 7, 72, 300};

static double sigma_of(double g, enum activation activation, double *slope)
{
    double z = activation == ACTIVATION_SILU ? g : 2 * sqrt(2 / M_PI) * (g + 0.044715 * pow(g, 3));
    *slope = activation == ACTIVATION_SILU ? 1 : 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * g * g);
    return 1 / (1 + exp(-z));
}

// The last one clamps part of the numbers.
static const struct expert_act acts[] = {{ACTIVATION_SILU, 0, 0}, {ACTIVATION_GELU_TANH, 0, 0}, {0, 1.702, 1.5}};
#define ACTS (sizeof acts / sizeof *acts)

// y of a gate and an up, and its slopes.
static double act_of(double gate, double up, struct expert_act act, double *of_gate, double *of_up)
{
    double slope, sigma, g = gate, u = up;
    if (act.alpha == 0) {
        sigma = sigma_of(g, act.activation, &slope);
        *of_gate = u * sigma * (1 + g * slope * (1 - sigma));
        *of_up = g * sigma;
        return g * sigma * u;
    }
    g = fmin(gate, act.limit), u = fmax(fmin(up, act.limit), -act.limit);
    sigma = 1 / (1 + exp(-act.alpha * g));
    *of_gate = gate > act.limit ? 0 : (u + 1) * sigma * (1 + act.alpha * g * (1 - sigma));
    *of_up = fabs(up) > act.limit ? 0 : g * sigma;
    return (u + 1) * g * sigma;
}

void expert_act_forward_cases(struct cases *c)
{
    for (size_t s = 0; s < BLOCKS * ACTS; s++) {
        const struct block *b = &row_blocks[s / ACTS];
        struct expert_act act = acts[s % ACTS];
        size_t f = act_widths[s % 4], rows = rows_of(b);
        if (case_is_too_large(c, (double)(rows * f)))
            continue;
        c->offset = s % 3 == 1;
        struct operand *gate_up = case_random(c, rows, 2 * f, 2, "gate_up"), *y = case_output(c, rows, f);
        c->offset = 0;
        CASE_RUN(c, op_expert_act_forward(c->device, y->tensor, gate_up->tensor, act));
        for (size_t i = 0; i < rows * f; i++) {
            const double *row = gate_up->values + i / f * 2 * f;
            double slopes[2];
            y->values[i] = act_of(row[i % f], row[f + i % f], act, &slopes[0], &slopes[1]);
        }
        case_check(c, y, 1, 16, "y, activation %zu", s % ACTS);
        case_end(c);
    }
}

void expert_act_backward_cases(struct cases *c)
{
    for (size_t s = 0; s < BLOCKS * ACTS; s++) {
        const struct block *b = &row_blocks[s / ACTS];
        const struct routing *r = &routers[b->router];
        struct expert_act act = acts[s % ACTS];
        size_t f = act_widths[s % 4], rows = rows_of(b);
        if (case_is_too_large(c, (double)(rows * f)))
            continue;
        struct places p = places_of(c, r, b->n, true);
        struct operand *weights = case_random_in(c, case_sums(c), b->n, r->chosen, 1, "weights");
        struct operand *grads = case_random_in(c, case_sums(c), b->n, r->chosen, 1, "grad_weights");
        c->offset = s % 3 == 1;
        struct operand *gate_up = case_random(c, rows, 2 * f, 2, "gate_up");
        struct operand *grad = case_random(c, rows, f, 1, "grad");
        c->offset = 0;
        CASE_RUN(c, op_expert_act_backward(c->device, gate_up->tensor, grad->tensor, grads->tensor, weights->tensor,
                                           p.slots->tensor, b->first, act));
        for (size_t row = 0; row < rows; row++) {
            size_t slot = (size_t)p.slots->values[b->first + row];
            double weight = weights->values[slot], dot = 0;
            for (size_t i = 0; i < f; i++) {
                double *g = gate_up->values + row * 2 * f + i, *u = g + f, *v = grad->values + row * f + i,
                       slopes[2];
                double y = act_of(*g, *u, act, &slopes[0], &slopes[1]), of_y = weight * *v;
                dot += *v * y;
                *v = weight * y;
                *g = of_y * slopes[0];
                *u = of_y * slopes[1];
            }
            grads->values[slot] = dot;
        }
        case_check(c, gate_up, 1, 32, "gradients of gate and up, activation %zu", s % ACTS);
        case_check(c, grad, 1, 32, "weighted y, activation %zu", s % ACTS);
        case_check(c, grads, 0, case_growth(f), "gradients of weights, activation %zu", s % ACTS);
        case_end(c);
    }
}
