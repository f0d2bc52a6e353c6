#include "harness/results/rank_test.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

// Two-sided 95 % of a normal distribution.
#define NORMAL_QUANTILE 1.959963984540054

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted_copy(const double *values, size_t count)
{
    double *sorted = malloc(count * sizeof *sorted);
    CHECK(sorted && count > 0);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    return sorted;
}

// A value of two samples together.
struct ranked {
    double value;
    size_t block, twice; // twice its midrank: a whole number
    bool of_b;
};

static int by_rank(const void *a, const void *b)
{
    return by_value(&((const struct ranked *)a)->value, &((const struct ranked *)b)->value);
}

// Both samples in ascending order with their midranks, to be freed.
static struct ranked *rank_all(const double *a, size_t a_count, const double *b, size_t b_count, size_t blocks)
{
    size_t count = a_count + b_count;
    struct ranked *all = malloc(count * sizeof *all);
    CHECK(all);
    for (size_t i = 0; i < a_count; i++)
        all[i] = (struct ranked){.value = a[i], .block = i * blocks / a_count};
    for (size_t j = 0; j < b_count; j++)
        all[a_count + j] = (struct ranked){.value = b[j], .block = j * blocks / b_count, .of_b = true};
    qsort(all, count, sizeof *all, by_rank);
    for (size_t first = 0, end = 0; first < count; first = end) {
        while (end < count && all[end].value == all[first].value)
            end++;
        for (size_t k = first; k < end; k++)
            all[k].twice = first + end + 1;
    }
    return all;
}

// Twice the rank sum of b.
static double rank_sum(const struct ranked *all, size_t count)
{
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += all[k].of_b ? (double)all[k].twice : 0;
    return sum;
}

// The ranks of a block's values; how many they are.
static size_t block_ranks(const struct ranked *all, size_t count, size_t block, size_t *twice)
{
    size_t found = 0;
    for (size_t k = 0; k < count; k++)
        if (all[k].block == block)
            twice[found++] = all[k].twice;
    return found;
}

// The distribution of twice a rank sum: chances[s] for s <= most; to be freed.
struct chances {
    double *of;
    size_t most;
};

// When every choice of `chosen` of the values is equally likely. The recurrence goes over the values: each is
// chosen or not.
static struct chances block_chances(const size_t *twice, size_t count, size_t chosen)
{
    struct chances chances = {0};
    for (size_t k = count - chosen; k < count; k++)
        chances.most += twice[k];
    size_t width = chances.most + 1;
    double *ways = calloc((chosen + 1) * width, sizeof *ways); // [chosen + 1, width]
    chances.of = malloc(width * sizeof *chances.of);
    CHECK(ways && chances.of);
    ways[0] = 1;
    for (size_t k = 0; k < count; k++)
        for (size_t taken = k + 1 < chosen ? k + 1 : chosen; taken > 0; taken--)
            for (size_t s = twice[k]; s < width; s++)
                ways[taken * width + s] += ways[(taken - 1) * width + s - twice[k]];
    double all = 0;
    for (size_t s = 0; s < width; s++)
        all += ways[chosen * width + s];
    for (size_t s = 0; s < width; s++)
        chances.of[s] = ways[chosen * width + s] / all;
    free(ways);
    return chances;
}

// Of the sum of two that are independent; both are freed.
static struct chances sum_chances(struct chances a, struct chances b)
{
    struct chances sum = {calloc(a.most + b.most + 1, sizeof *sum.of), a.most + b.most};
    CHECK(sum.of);
    for (size_t s = 0; s <= a.most; s++)
        for (size_t t = 0; a.of[s] > 0 && t <= b.most; t++)
            sum.of[s + t] += a.of[s] * b.of[t];
    free(a.of);
    free(b.of);
    return sum;
}

// When every block's values are equally likely to be a's or b's, whichever they are.
static struct chances all_chances(const struct ranked *all, size_t a_count, size_t b_count, size_t blocks)
{
    size_t *twice = malloc((a_count + b_count) * sizeof *twice);
    CHECK(twice);
    struct chances chances = {calloc(1, sizeof *chances.of), 0};
    CHECK(chances.of);
    chances.of[0] = 1;
    for (size_t block = 0; block < blocks; block++) {
        size_t count = block_ranks(all, a_count + b_count, block, twice);
        chances = sum_chances(chances, block_chances(twice, count, b_count / blocks));
    }
    free(twice);
    return chances;
}

// Of the rank sum (not twice), under the same hypothesis: of a sample without replacement from each block.
static double rank_sum_variance(const struct ranked *all, size_t a_count, size_t b_count, size_t blocks)
{
    double variance = 0, of_a = (double)a_count / (double)blocks, of_b = (double)b_count / (double)blocks,
           count = of_a + of_b;
    for (size_t block = 0; block < blocks; block++) {
        double sum = 0, squares = 0;
        for (size_t k = 0; k < a_count + b_count; k++) {
            double rank = all[k].block == block ? 0.5 * (double)all[k].twice : 0;
            sum += rank;
            squares += rank * rank;
        }
        variance += of_a * of_b / (count * (count - 1)) * (squares - sum * sum / count);
    }
    return variance;
}

static double exact_p(const struct ranked *all, size_t a_count, size_t b_count, size_t blocks)
{
    size_t count = a_count + b_count;
    struct chances chances = all_chances(all, a_count, b_count, blocks);
    double expected = (double)b_count * (double)(count + 1), far = fabs(rank_sum(all, count) - expected), p = 0;
    for (size_t s = 0; s <= chances.most; s++)
        if (fabs((double)s - expected) >= far)
            p += chances.of[s];
    free(chances.of);
    return fmin(p, 1);
}

static double normal_p(double u, double pairs, double variance)
{
    double far = fmax(fabs(u - pairs / 2) - 0.5, 0);
    return variance > 0 ? erfc(far / sqrt(2 * variance)) : 1;
}

// How many of the sorted pairwise differences the interval leaves out on either side: the most whose chance, when
// the samples are alike, is at most half the level. -1: not even the outermost may be a bound. Ranks within blocks
// are taken as they lie: aligned, blocks have ranks of about the same mean and spread whatever the shift.
static double left_out(struct ranked *all, size_t a_count, size_t b_count, size_t blocks)
{
    size_t count = a_count + b_count;
    for (size_t k = 0; k < count; k++)
        all[k].twice = 2 * (k + 1); // in any order where there are ties: the interval only becomes wider
    if (count > RANK_TEST_EXACT)
        return floor((double)a_count * (double)b_count / 2 -
                     NORMAL_QUANTILE * sqrt(rank_sum_variance(all, a_count, b_count, blocks))) -
               1;
    size_t least = b_count * (b_count + 1);
    struct chances chances = all_chances(all, a_count, b_count, blocks);
    double below = 0, out = -1;
    for (size_t u = 0; least + 2 * u <= chances.most; u++) {
        below += chances.of[least + 2 * u];
        if (below > RANK_TEST_LEVEL / 2)
            break;
        out = (double)u;
    }
    free(chances.of);
    return out;
}

// How many pairwise differences b - a of the sorted samples are at most `limit`.
static double differences_within(const double *a, size_t a_count, const double *b, size_t b_count, double limit)
{
    double within = 0;
    for (size_t i = 0, j = 0; i < a_count; i++) {
        while (j < b_count && b[j] - a[i] <= limit)
            j++;
        within += (double)j;
    }
    return within;
}

// The pairwise difference of this rank, from 1, by bisection between neighbours among the doubles: of all the pairs
// that large samples have, none needs to be kept.
static double difference_ranked(const double *a, size_t a_count, const double *b, size_t b_count, double rank)
{
    double high = b[b_count - 1] - a[0], low = nextafter(b[0] - a[a_count - 1], -INFINITY);
    for (;;) {
        double middle = low + (high - low) / 2;
        if (!(middle > low && middle < high))
            return high;
        if (differences_within(a, a_count, b, b_count, middle) >= rank)
            high = middle;
        else
            low = middle;
    }
}

static struct shift shift_of(const double *a, size_t a_count, const double *b, size_t b_count, double out)
{
    double *low = sorted_copy(a, a_count), *high = sorted_copy(b, b_count);
    double pairs = (double)a_count * (double)b_count;
    double below = difference_ranked(low, a_count, high, b_count, floor((pairs + 1) / 2));
    double above = difference_ranked(low, a_count, high, b_count, ceil((pairs + 1) / 2));
    struct shift shift = {(below + above) / 2, -INFINITY, INFINITY};
    if (out >= 0) {
        shift.low = difference_ranked(low, a_count, high, b_count, out + 1);
        shift.high = difference_ranked(low, a_count, high, b_count, pairs - out);
    }
    free(low);
    free(high);
    return shift;
}

void rank_test(struct rank_test *test, const double *a, size_t a_count, const double *b, size_t b_count,
               size_t blocks)
{
    CHECK(blocks > 0 && a_count % blocks == 0 && b_count % blocks == 0);
    struct ranked *all = rank_all(a, a_count, b, b_count, blocks);
    double m = (double)b_count;
    test->u = (rank_sum(all, a_count + b_count) - m * (m + 1)) / 2;
    test->p = a_count + b_count <= RANK_TEST_EXACT
                  ? exact_p(all, a_count, b_count, blocks)
                  : normal_p(test->u, (double)a_count * m, rank_sum_variance(all, a_count, b_count, blocks));
    test->shift = shift_of(a, a_count, b, b_count, left_out(all, a_count, b_count, blocks));
    free(all);
}

// 2 / (a + b over b) for one block: the samples lie wholly apart, one way or the other. So do those of all blocks.
double rank_test_least_p(size_t a_count, size_t b_count, size_t blocks)
{
    double n = (double)a_count / (double)blocks, m = (double)b_count / (double)blocks;
    return fmin(2 * exp((double)blocks * (lgamma(n + 1) + lgamma(m + 1) - lgamma(n + m + 1))), 1);
}

static int by_pointed(const void *a, const void *b)
{
    return by_value(*(const double *const *)a, *(const double *const *)b);
}

void rank_test_holm(double *p, size_t count)
{
    double **ascending = malloc((count + 1) * sizeof *ascending), largest = 0;
    CHECK(ascending);
    for (size_t i = 0; i < count; i++)
        ascending[i] = &p[i];
    qsort(ascending, count, sizeof *ascending, by_pointed);
    // The smallest counts as often as there are tests, the next once less; none falls below one before it.
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fmin(*ascending[i] * (double)(count - i), 1));
        *ascending[i] = largest;
    }
    free(ascending);
}

struct shift sign_test_interval(const double *values, size_t count)
{
    double *sorted = sorted_copy(values, count), n = (double)count;
    struct shift shift = {(sorted[(count - 1) / 2] + sorted[count / 2]) / 2, -INFINITY, INFINITY};
    // How many values lie below the median is binomial with chance 1/2.
    double below = 0;
    for (size_t out = 0; out < count / 2; out++) {
        double k = (double)out;
        below += exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
        if (below > RANK_TEST_LEVEL / 2)
            break;
        shift.low = sorted[out];
        shift.high = sorted[count - 1 - out];
    }
    free(sorted);
    return shift;
}

double sample_quantile(const double *values, size_t count, double fraction)
{
    double *sorted = sorted_copy(values, count), place = fraction * (double)(count - 1), whole = floor(place);
    size_t k = (size_t)whole, next = k + 1 < count ? k + 1 : k;
    double value = sorted[k] + (place - whole) * (sorted[next] - sorted[k]);
    free(sorted);
    return value;
}
