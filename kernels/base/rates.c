#include "kernels/base/rates.h"
#include <math.h>
#include <string.h>

static bool counts_flops(const struct rate *rate)
{
    return rate->dimensions == RATE_DIMENSIONS;
}

const struct rate *rates_find(const struct rates *rates, const struct range *range, double bytes,
                              double at[RATE_DIMENSIONS])
{
    const char *name = range->name;
    if (range->m > 0) {
        name = range->transpose_a ? "gemm_tn" : range->transpose_b ? "gemm_nt" : "gemm_nn";
        at[0] = range->m, at[1] = range->n, at[2] = range->k;
    } else if (range->queries > 0) {
        at[0] = range->queries, at[1] = (double)range->keys / (double)range->queries, at[2] = range->head_dim;
    } else {
        at[0] = bytes;
    }
    for (size_t i = 0; i < rates->count; i++) {
        if (strcmp(rates->items[i].operation, name) == 0) {
            return &rates->items[i];
        }
    }
    return NULL;
}

// The interval of an axis that `at` lies in, and how far: 0 its lower end, 1 its upper one.
static size_t locate(const double *axis, size_t count, double at, double *share)
{
    size_t i = 0;
    while (i + 2 < count && at > axis[i + 1]) {
        i++;
    }
    double part = count > 1 ? log(at / axis[i]) / log(axis[i + 1] / axis[i]) : 0;
    *share = part > 0 ? part < 1 ? part : 1 : 0; // also of a shape without any extent
    return i;
}

double rate_at(const struct rate *rate, const double at[RATE_DIMENSIONS])
{
    size_t first[RATE_DIMENSIONS] = {0};
    double share[RATE_DIMENSIONS] = {0}, sum = 0;
    for (size_t d = 0; d < rate->dimensions; d++) {
        first[d] = locate(rate->axes[d], rate->counts[d], at[d], &share[d]);
    }
    for (size_t corner = 0; corner < (size_t)1 << rate->dimensions; corner++) {
        double weight = 1;
        size_t place = 0;
        for (size_t d = 0; d < rate->dimensions; d++) {
            size_t upper = corner >> d & 1;
            weight *= upper ? share[d] : 1 - share[d];
            place = place * rate->counts[d] + (first[d] + upper < rate->counts[d] ? first[d] + upper : first[d]);
        }
        if (weight > 0) {
            sum += weight * log(rate->values[place]);
        }
    }
    return exp(sum);
}

double rates_seconds(const struct rates *rates, const struct range *range, double flops, double bytes)
{
    double at[RATE_DIMENSIONS] = {0};
    const struct rate *rate = rates_find(rates, range, bytes, at);
    double amount = rate && counts_flops(rate) ? flops : bytes;
    return rate && amount > 0 ? amount / rate_at(rate, at) + bytes * rates->s_per_byte : 0;
}

double rates_peak(const struct rates *rates, bool of_flops)
{
    double most = 0;
    for (size_t i = 0; i < rates->count; i++) {
        const struct rate *rate = &rates->items[i];
        size_t values = 1;
        for (size_t d = 0; d < rate->dimensions; d++) {
            values *= rate->counts[d];
        }
        for (size_t v = 0; v < values && counts_flops(rate) == of_flops; v++) {
            most = rate->values[v] > most ? rate->values[v] : most;
        }
    }
    return most;
}
