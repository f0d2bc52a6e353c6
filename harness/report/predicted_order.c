#include "harness/report/predicted_order.h"
#include "harness/stats/sample.h"
#include "kernels/base/status.h"
#include <stdlib.h>

static int by_measured(const void *a, const void *b)
{
    return sample_by_value(&((const struct predicted_time *)a)->measured_ms,
                           &((const struct predicted_time *)b)->measured_ms);
}

// How many of the ascending values are less.
static size_t count_less(const double *values, size_t count, double value)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// A tree of partial sums (Fenwick 1994): sums[i] counts what was added at the places before i that its lowest bit
// reaches back to.
static void add_at(size_t *sums, size_t count, size_t place)
{
    for (size_t i = place + 1; i <= count; i += i & -i)
        sums[i]++;
}

static size_t added_before(const size_t *sums, size_t place)
{
    size_t added = 0;
    for (size_t i = place; i > 0; i &= i - 1)
        added += sums[i];
    return added;
}

struct predicted_order predicted_order_of(struct predicted_time *times, size_t count, double apart)
{
    struct predicted_order order = {0};
    double *estimates = malloc((count + 1) * sizeof *estimates);
    size_t *sums = calloc(count + 1, sizeof *sums), faster = 0; // faster: so many are so by enough
    CHECK(estimates && sums);
    qsort(times, count, sizeof *times, by_measured);
    for (size_t i = 0; i < count; i++)
        estimates[i] = times[i].estimate_ms;
    qsort(estimates, count, sizeof *estimates, sample_by_value);
    for (size_t i = 0; i < count; i++) {
        for (; times[i].measured_ms / times[faster].measured_ms >= apart; faster++)
            add_at(sums, count, count_less(estimates, count, times[faster].estimate_ms));
        order.pairs += faster;
        order.reversed += faster - added_before(sums, count_less(estimates, count, times[i].estimate_ms));
    }
    free(sums);
    free(estimates);
    return order;
}
