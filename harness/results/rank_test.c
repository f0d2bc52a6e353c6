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

// Twice the midrank of every value of two sorted samples together, in ascending order; the sum over ties of t^3 -
// t; and twice the rank sum of b. A midrank is half a whole number at worst, so that twice it is exact.
static double rank_twice(size_t *twice, const double *a, size_t a_count, const double *b, size_t b_count,
                         double *ties)
{
    double b_sum = 0;
    *ties = 0;
    for (size_t i = 0, j = 0; i + j < a_count + b_count;) {
        double value = j == b_count || (i < a_count && a[i] < b[j]) ? a[i] : b[j];
        size_t first = i + j, b_first = j;
        while (i < a_count && a[i] == value)
            i++;
        while (j < b_count && b[j] == value)
            j++;
        size_t tied = i + j - first;
        for (size_t k = first; k < i + j; k++)
            twice[k] = 2 * first + tied + 1;
        b_sum += (double)(j - b_first) * (double)(2 * first + tied + 1);
        *ties += (double)tied * ((double)tied * (double)tied - 1);
    }
    return b_sum;
}

// The distribution of twice a rank sum when every choice of `chosen` of the values is equally likely: chances[s]
// for s <= most; to be freed. The recurrence goes over the values: each is chosen or not.
static double *rank_sum_chances(const size_t *twice, size_t count, size_t chosen, size_t *most)
{
    *most = 0;
    for (size_t k = count - chosen; k < count; k++)
        *most += twice[k];
    size_t width = *most + 1;
    double *ways = calloc((chosen + 1) * width, sizeof *ways); // [chosen + 1, width]
    double *chances = malloc(width * sizeof *chances);
    CHECK(ways && chances);
    ways[0] = 1;
    for (size_t k = 0; k < count; k++)
        for (size_t taken = k + 1 < chosen ? k + 1 : chosen; taken > 0; taken--)
            for (size_t s = twice[k]; s < width; s++)
                ways[taken * width + s] += ways[(taken - 1) * width + s - twice[k]];
    double all = 0;
    for (size_t s = 0; s < width; s++)
        all += ways[chosen * width + s];
    for (size_t s = 0; s < width; s++)
        chances[s] = ways[chosen * width + s] / all;
    free(ways);
    return chances;
}

static double exact_p(const size_t *twice, size_t a_count, size_t b_count, double b_sum)
{
    size_t most, count = a_count + b_count;
    double *chances = rank_sum_chances(twice, count, b_count, &most);
    double expected = (double)b_count * (double)(count + 1), far = fabs(b_sum - expected), p = 0;
    for (size_t s = 0; s <= most; s++)
        if (fabs((double)s - expected) >= far)
            p += chances[s];
    free(chances);
    return fmin(p, 1);
}

static double normal_p(double u, double a_count, double b_count, double ties)
{
    double pairs = a_count * b_count, count = a_count + b_count;
    double variance = pairs / 12 * (count + 1 - ties / (count * (count - 1)));
    double far = fmax(fabs(u - pairs / 2) - 0.5, 0);
    return variance > 0 ? erfc(far / sqrt(2 * variance)) : 1;
}

// How many of the sorted pairwise differences the interval leaves out on either side: the most whose chance, when
// the samples are alike, is at most half the level. -1: not even the outermost may be a bound.
static double left_out(size_t a_count, size_t b_count)
{
    size_t count = a_count + b_count, most;
    if (count > RANK_TEST_EXACT) {
        double pairs = (double)a_count * (double)b_count;
        return floor(pairs / 2 - NORMAL_QUANTILE * sqrt(pairs * (double)(count + 1) / 12)) - 1;
    }
    size_t twice[RANK_TEST_EXACT], least = b_count * (b_count + 1);
    for (size_t k = 0; k < count; k++)
        twice[k] = 2 * (k + 1);
    double *chances = rank_sum_chances(twice, count, b_count, &most), below = 0, out = -1;
    for (size_t u = 0; least + 2 * u <= most; u++) {
        below += chances[least + 2 * u];
        if (below > RANK_TEST_LEVEL / 2)
            break;
        out = (double)u;
    }
    free(chances);
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

static struct shift shift_of(const double *a, size_t a_count, const double *b, size_t b_count)
{
    double pairs = (double)a_count * (double)b_count, out = left_out(a_count, b_count);
    double below = difference_ranked(a, a_count, b, b_count, floor((pairs + 1) / 2));
    double above = difference_ranked(a, a_count, b, b_count, ceil((pairs + 1) / 2));
    struct shift shift = {(below + above) / 2, -INFINITY, INFINITY};
    if (out >= 0) {
        shift.low = difference_ranked(a, a_count, b, b_count, out + 1);
        shift.high = difference_ranked(a, a_count, b, b_count, pairs - out);
    }
    return shift;
}

void rank_test(struct rank_test *test, const double *a, size_t a_count, const double *b, size_t b_count)
{
    double *low = sorted_copy(a, a_count), *high = sorted_copy(b, b_count), ties;
    size_t *twice = malloc((a_count + b_count) * sizeof *twice);
    CHECK(twice);
    double b_sum = rank_twice(twice, low, a_count, high, b_count, &ties), m = (double)b_count;
    test->u = (b_sum - m * (m + 1)) / 2;
    test->p = a_count + b_count <= RANK_TEST_EXACT ? exact_p(twice, a_count, b_count, b_sum)
                                                   : normal_p(test->u, (double)a_count, m, ties);
    test->shift = shift_of(low, a_count, high, b_count);
    free(twice);
    free(low);
    free(high);
}

// 2 / (a + b over b): the samples lie wholly apart, one way or the other.
double rank_test_least_p(size_t a_count, size_t b_count)
{
    double n = (double)a_count, m = (double)b_count;
    return fmin(2 * exp(lgamma(n + 1) + lgamma(m + 1) - lgamma(n + m + 1)), 1);
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
