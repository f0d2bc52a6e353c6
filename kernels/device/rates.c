#include "kernels/device/rates.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool counts_flops(const struct rate *rate)
{
    return rate->dimensions == RATE_DIMENSIONS;
}

const struct rate *rates_named(const struct rates *rates, const char *name)
{
    for (size_t i = 0; i < rates->count; i++)
        if (strcmp(rates->items[i].operation, name) == 0)
            return &rates->items[i];
    return NULL;
}

static bool is_narrow(const struct range *range)
{
    return range->m > 0 && (range->m <= RATE_NARROW || range->n <= RATE_NARROW || range->k <= RATE_NARROW);
}

const struct rate *rates_find(const struct rates *rates, const struct range *range, double bytes,
                              double at[RATE_DIMENSIONS])
{
    const char *name = range->name;
    const struct rate *narrow = is_narrow(range) ? rates_named(rates, "gemm_narrow") : NULL;
    if (narrow) {
        at[0] = bytes;
        return narrow;
    }
    if (range->m > 0) {
        name = range->transpose_a ? "gemm_tn" : range->transpose_b ? "gemm_nt" : "gemm_nn";
        at[0] = range->m, at[1] = range->n, at[2] = range->k;
    } else if (range->queries > 0) {
        at[0] = range->queries, at[1] = (double)range->keys / (double)range->queries, at[2] = range->head_dim;
    } else {
        at[0] = bytes;
    }
    return rates_named(rates, name);
}

// Finds a part's rate, such as "attention_forward" with "_causal".
static const struct rate *rate_of_part(const struct rates *rates, const struct range *range, const char *part)
{
    char name[sizeof rates->items->operation + 16];
    if (range->queries == 0)
        return NULL;
    snprintf(name, sizeof name, "%s%s", range->name, part);
    return rates_named(rates, name);
}

bool rates_known(const struct rates *rates, const struct range *range, const struct cost *cost)
{
    double at[RATE_DIMENSIONS];
    bool f32 = cost->f32_done > 0;
    if (f32 || cost->flops == 0)
        return !f32 || rates->bytes_per_s > 0;
    return rates_find(rates, range, cost->bytes, at) || rate_of_part(rates, range, "_causal");
}

// The interval of an axis that contains `at`, and the position in it from 0 to 1.
static size_t locate(const double *axis, size_t count, double at, double *share)
{
    size_t i = 0;
    while (i + 2 < count && at > axis[i + 1])
        i++;
    double part = count > 1 ? log(at / axis[i]) / log(axis[i + 1] / axis[i]) : 0;
    *share = part > 0 ? part < 1 ? part : 1 : 0; // also for shapes with an empty dimension
    return i;
}

double rate_at(const struct rate *rate, const double at[RATE_DIMENSIONS])
{
    size_t first[RATE_DIMENSIONS] = {0};
    double share[RATE_DIMENSIONS] = {0}, sum = 0;
    for (size_t d = 0; d < rate->dimensions; d++)
        first[d] = locate(rate->axes[d], rate->counts[d], at[d], &share[d]);
    for (size_t corner = 0; corner < (size_t)1 << rate->dimensions; corner++) {
        double weight = 1;
        size_t place = 0;
        for (size_t d = 0; d < rate->dimensions; d++) {
            size_t upper = corner >> d & 1;
            weight *= upper ? share[d] : 1 - share[d];
            place = place * rate->counts[d] + (first[d] + upper < rate->counts[d] ? first[d] + upper : first[d]);
        }
        if (weight > 0)
            sum += weight * log(rate->values[place]);
    }
    return exp(sum);
}

// The axis along which an operation can be cut; RATE_DIMENSIONS: any, with other shapes as parts.
static size_t rows_axis(const struct rate *rate)
{
    bool attention = strncmp(rate->operation, "attention_", strlen("attention_")) == 0;
    bool part = strstr(rate->operation, "_causal") || strstr(rate->operation, "_rectangle") ||
                strstr(rate->operation, "_f32");
    if (attention && !part)
        return RATE_DIMENSIONS;
    return strcmp(rate->operation, "gemm_tn") == 0 ? 2 : 0;
}

static size_t value_count(const struct rate *rate)
{
    size_t values = 1;
    for (size_t d = 0; d < rate->dimensions; d++)
        values *= rate->counts[d];
    return values;
}

static double rate_max(const struct rate *rate)
{
    double max = 0;
    for (size_t v = 0; v < value_count(rate); v++)
        max = rate->values[v] > max ? rate->values[v] : max;
    return max;
}

// The maximum rate of this shape and of the shapes that its rows may be cut into. Interpolation never exceeds the
// larger of two neighbouring points, so this shape and the points below it suffice.
static double rate_within(const struct rate *rate, const double at[RATE_DIMENSIONS])
{
    size_t axis = rows_axis(rate);
    if (axis == RATE_DIMENSIONS)
        return rate_max(rate);
    double max = rate_at(rate, at), cut[RATE_DIMENSIONS] = {at[0], at[1], at[2]};
    for (size_t i = 0; i < rate->counts[axis] && rate->axes[axis][i] < at[axis]; i++) {
        cut[axis] = rate->axes[axis][i];
        double value = rate_at(rate, cut);
        max = value > max ? value : max;
    }
    return max;
}

// Tells whether the rate rises along the axis of cuts.
static bool rises(const struct rate *rate)
{
    size_t axis = rows_axis(rate), stride = 1;
    if (axis == RATE_DIMENSIONS)
        return value_count(rate) == 1;
    for (size_t d = axis + 1; d < rate->dimensions; d++)
        stride *= rate->counts[d];
    for (size_t v = 0; v < value_count(rate); v++) {
        bool last = v / stride % rate->counts[axis] + 1 == rate->counts[axis];
        if (!last && rate->values[v + stride] < rate->values[v])
            return false;
    }
    return true;
}

bool rates_rise(const struct rates *rates)
{
    bool rise = rates->s_per_byte == 0;
    for (size_t i = 0; i < rates->count; i++)
        rise &= rises(&rates->items[i]);
    return rise;
}

static double attention_part_s(const struct rate *rate, double flops, double side, const struct range *range,
                               bool min)
{
    const double at[RATE_DIMENSIONS] = {side, 1, (double)range->head_dim};
    return flops > 0 ? flops / (min ? rate_within(rate, at) : rate_at(rate, at)) : 0;
}

// Seconds of attention on tensor cores: causal squares on the diagonal at one rate, the keys before them at
// another.
static double attention_s(const struct rates *rates, const struct range *range, const struct cost *cost, bool min)
{
    const struct rate *causal = rate_of_part(rates, range, "_causal"),
                      *rectangle = rate_of_part(rates, range, "_rectangle");
    double longest = causal->axes[0][causal->counts[0] - 1];
    double side = fmin((double)range->queries, longest);
    double within = cost->causal ? cost->pair_flops * (double)range->queries * (side + 1) / 2 : 0;
    double diagonal = fmin(within, cost->done);
    return attention_part_s(causal, diagonal, side, range, false) +
           attention_part_s(rectangle, cost->done - diagonal, side, range, min) / cost->fill;
}

double rates_seconds(const struct rates *rates, const struct range *range, const struct cost *cost, bool min)
{
    double at[RATE_DIMENSIONS] = {0}, seconds = 0;
    const struct rate *rate = rates_find(rates, range, cost->bytes, at), *f32 = rate_of_part(rates, range, "_f32");
    double memory_s = rates->bytes_per_s > 0 ? cost->bytes / rates->bytes_per_s : 0;
    if (rate_of_part(rates, range, "_causal")) {
        seconds = attention_s(rates, range, cost, min);
    } else if (rate) {
        double amount = counts_flops(rate) ? cost->flops : cost->bytes;
        seconds = amount / (min ? rate_within(rate, at) : rate_at(rate, at));
    }
    if (f32 && cost->f32_done > 0) {
        seconds = (cost->flops > 0 ? 1 - cost->f32_counted / cost->flops : 0) * seconds +
                  attention_part_s(f32, cost->f32_done, (double)range->queries, range, min);
    }
    seconds = fmax(seconds, memory_s);
    if (seconds > 0 && rates->bytes_per_s > 0)
        seconds += cost->glue_bytes / rates->bytes_per_s + (1 + cost->further_launches) * rates->launch_s;
    return seconds > 0 ? seconds + cost->bytes * rates->s_per_byte : 0;
}

double rates_limited_s(const struct rates *rates, double seconds, double flops)
{
    if (!rates || rates->power.flops_per_s == 0)
        return seconds;
    double kept_s = flops / rates->power.flops_per_s; // at the power limit
    return fmax(seconds, fmin(kept_s, seconds * rates->power.factor));
}

double device_estimate_s(const struct device *device)
{
    const struct counters *counters = &device->counters;
    return rates_limited_s(device->roofline.rates, counters_clock_s(counters), counters->flops);
}
