#include "harness/profile/profile_rates.h"
#include <math.h>
#include <string.h>

#define RATE_LARGEST 1e30

static bool read_number(struct json_field field, double minimum, double *value, struct status *status)
{
    if (!field.value)
        return json_field_fail(field, status, "missing; expected a number");
    return json_field_number(field, minimum, RATE_LARGEST, value, status);
}

static bool read_axis(struct rate *rate, size_t d, struct json_field field, struct status *status)
{
    size_t count = json_array_size(field.value);
    if (count < 1 || count > RATE_POINTS)
        return json_field_expected(field, status, "a list of 1 to %d rising numbers", RATE_POINTS);
    rate->counts[d] = count;
    for (size_t i = 0; i < count; i++) {
        struct json_field item = json_field_at(field, i);
        if (!read_number(item, 1, &rate->axes[d][i], status))
            return false;
        if (i > 0 && rate->axes[d][i] <= rate->axes[d][i - 1])
            return json_field_expected(item, status, "a number above the one before it, %g", rate->axes[d][i - 1]);
    }
    return true;
}

static bool read_rate(struct rate *rate, const char *name, struct json_field field, struct status *status)
{
    static const struct names known = {2, {"axes", "values"}};
    if (!json_is_object(field.value))
        return json_field_expected(field, status, "{\"axes\": [...], \"values\": [...]}");
    if (!json_field_object(field, &known, name, status))
        return false;
    if (strlen(name) >= sizeof rate->operation)
        return json_field_fail(field, status, "no operation has so long a name");
    memcpy(rate->operation, name, strlen(name) + 1);
    struct json_field axes = json_field_get(field, "axes"), values = json_field_get(field, "values");
    rate->dimensions = json_array_size(axes.value);
    if (rate->dimensions != 1 && rate->dimensions != RATE_DIMENSIONS)
        return json_field_expected(axes, status, "one axis, or %d", RATE_DIMENSIONS);
    size_t count = 1;
    for (size_t d = 0; d < rate->dimensions; d++) {
        if (!read_axis(rate, d, json_field_at(axes, d), status))
            return false;
        count *= rate->counts[d];
    }
    if (json_array_size(values.value) != count)
        return json_field_expected(values, status, "a list of %zu numbers, one for each point of the axes", count);
    for (size_t i = 0; i < count; i++)
        if (!read_number(json_field_at(values, i), 1, &rate->values[i], status))
            return false;
    return true;
}

static bool read_spread(struct rates *rates, struct json_field field, struct status *status)
{
    if (json_array_size(field.value) != 2)
        return json_field_expected(field, status, "two numbers: of the samples over their median");
    return read_number(json_field_at(field, 0), 1e-3, &rates->low, status) &&
           read_number(json_field_at(field, 1), rates->low, &rates->high, status);
}

static bool read_power(struct rates *rates, struct json_field field, struct status *status)
{
    static const struct names known = {2, {"flops_per_s", "factor"}};
    if (!field.value)
        return true;
    if (!json_is_object(field.value))
        return json_field_expected(field, status, "{\"flops_per_s\": ..., \"factor\": ...}");
    return json_field_object(field, &known, "power", status) &&
           read_number(json_field_get(field, "flops_per_s"), 1, &rates->power.flops_per_s, status) &&
           read_number(json_field_get(field, "factor"), 1, &rates->power.factor, status);
}

// Without these rates a step would have no estimate, or one by a peak rate.
static bool check_complete(const struct rates *rates, struct json_field operations, struct status *status)
{
    static const char *const needed[][2] = {{"gemm_nt"},
                                            {"gemm_nn"},
                                            {"gemm_tn"},
                                            {"attention_forward", "attention_forward_rectangle"},
                                            {"attention_backward", "attention_backward_rectangle"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *const *names = needed[i];
        char causal[sizeof rates->items->operation];
        if (rates_named(rates, names[0]))
            continue;
        snprintf(causal, sizeof causal, "%s_causal", names[0]);
        if (!names[1] || !rates_named(rates, names[1]) || !rates_named(rates, causal))
            return json_field_fail(operations, status,
                                   "no rate of %s; measure all with longbp calibrate --rates, or leave rates out, "
                                   "and they are scaled from a card that was measured",
                                   names[0]);
    }
    return true;
}

bool profile_rates_read(struct rates *rates, struct json_field field, struct status *status)
{
    static const struct names known = {
        8,
        {"source", "spread", "reference_kernel_s", "s_per_byte", "launch_s", "bytes_per_s", "power", "operations"}};
    const char *source = NULL;
    *rates = (struct rates){0};
    if (!field.value)
        return true;
    if (!json_is_object(field.value))
        return json_field_expected(field, status, "an object of operations");
    struct json_field operations = json_field_get(field, "operations"),
                      reference_kernel = json_field_get(field, "reference_kernel_s"),
                      byte = json_field_get(field, "s_per_byte"), launch = json_field_get(field, "launch_s"),
                      memory = json_field_get(field, "bytes_per_s");
    if (!json_field_object(field, &known, NULL, status) ||
        !json_field_text(json_field_get(field, "source"), "how the rates were measured", &source, status) ||
        !read_spread(rates, json_field_get(field, "spread"), status) ||
        (reference_kernel.value && !read_number(reference_kernel, 1e-9, &rates->reference_kernel_s, status)) ||
        (byte.value && !read_number(byte, 0, &rates->s_per_byte, status)) ||
        (launch.value && !read_number(launch, 0, &rates->launch_s, status)) ||
        (memory.value && !read_number(memory, 1, &rates->bytes_per_s, status)) ||
        !read_power(rates, json_field_get(field, "power"), status))
        return false;
    if (!json_is_object(operations.value))
        return json_field_expected(operations, status, "an object of operations");
    if (json_object_size(operations.value) > RATES_MAX)
        return json_field_expected(operations, status, "at most %d operations", RATES_MAX);
    const char *name;
    json_t *value;
    json_object_foreach(operations.value, name, value)
    {
        if (!read_rate(&rates->items[rates->count++], name, json_field_get(operations, name), status))
            return false;
    }
    return check_complete(rates, operations, status);
}

// Four digits are all that a time is accurate to.
static json_t *number_json(double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", number);
    return json_real(strtod(text, NULL));
}

static json_t *numbers_json(const double *numbers, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, number_json(numbers[i]));
    return list;
}

json_t *profile_rates_json(const struct rates *rates, const char *source)
{
    json_t *operations = json_object();
    for (size_t i = 0; i < rates->count; i++) {
        const struct rate *rate = &rates->items[i];
        json_t *axes = json_array();
        size_t count = 1;
        for (size_t d = 0; d < rate->dimensions; d++) {
            json_array_append_new(axes, numbers_json(rate->axes[d], rate->counts[d]));
            count *= rate->counts[d];
        }
        json_object_set_new(operations, rate->operation,
                            json_pack("{s:o, s:o}", "axes", axes, "values", numbers_json(rate->values, count)));
    }
    json_t *json = json_pack("{s:s, s:[f, f]}", "source", source, "spread", rates->low, rates->high);
    if (rates->reference_kernel_s > 0) { // measured with the rates, as is s_per_byte, which may be 0
        json_object_set_new(json, "reference_kernel_s", json_real(rates->reference_kernel_s));
        json_object_set_new(json, "s_per_byte", json_real(rates->s_per_byte));
    }
    if (rates->bytes_per_s > 0) {
        json_object_set_new(json, "launch_s", number_json(rates->launch_s));
        json_object_set_new(json, "bytes_per_s", number_json(rates->bytes_per_s));
    }
    if (rates->power.flops_per_s > 0)
        json_object_set_new(json, "power",
                            json_pack("{s:o, s:o}", "flops_per_s", number_json(rates->power.flops_per_s), "factor",
                                      number_json(rates->power.factor)));
    json_object_set_new(json, "operations", operations);
    return json;
}

// --- scaled

// Tells whether a rate's name has this suffix after its operation.
static bool ends_in(const struct rate *rate, const char *part)
{
    size_t length = strlen(rate->operation), own = strlen(part);
    return length > own && strcmp(rate->operation + length - own, part) == 0;
}

static void scale(struct rate *rate, double factor)
{
    size_t count = 1;
    for (size_t d = 0; d < rate->dimensions; d++)
        count *= rate->counts[d];
    for (size_t i = 0; i < count; i++)
        rate->values[i] *= factor;
}

// The power limit at which the card runs as many FLOPs per watt. Power grows with the clock's third power, which
// determines how far below the limit a card throttles.
static struct power_limit scaled_power(const struct rate_peaks *card, const struct rate_peaks *measured,
                                       const struct power_limit *like, double flops)
{
    double watts = card->power_w > 0 && measured->power_w > 0 ? card->power_w / measured->power_w : flops;
    return (struct power_limit){like->flops_per_s * watts, fmax(1, like->factor * cbrt(flops / watts))};
}

// Turns a rate of the device's own attention kernels into that of all attention, because dtypes other than bf16 use
// only those. The rate counts executed FLOPs, in the backward 14 for 10 nominal ones. Returns false for other
// kernels' rates.
static bool scale_attention(struct rate *rate, double f32)
{
    if (!ends_in(rate, "_f32"))
        return false;
    rate->operation[strlen(rate->operation) - strlen("_f32")] = 0;
    scale(rate, f32 * (strcmp(rate->operation, "attention_backward") == 0 ? 10.0 / 14 : 1));
    return true;
}

static void scale_rates(struct rates *rates, const struct rate_peaks *card, const struct rates *like,
                        const struct rate_peaks *measured, enum dtype dtype)
{
    enum dtype own_dtype = dtype == DTYPE_BF16 ? DTYPE_F32 : dtype; // dtype of the device's own kernels
    double flops = card->flops_per_s[dtype] / measured->flops_per_s[DTYPE_BF16];
    double own = card->flops_per_s[own_dtype] / measured->flops_per_s[DTYPE_F32];
    double bytes = card->bytes_per_s / measured->bytes_per_s;
    *rates = (struct rates){.low = SCALED_LOW,
                            .high = SCALED_HIGH,
                            .launch_s = like->launch_s * card->launch_s / measured->launch_s,
                            .bytes_per_s = like->bytes_per_s * bytes,
                            .scaled = true};
    if (dtype == DTYPE_BF16)
        rates->power = scaled_power(card, measured, &like->power, flops);
    for (size_t i = 0; i < like->count; i++) {
        struct rate *rate = &rates->items[rates->count];
        *rate = like->items[i];
        bool f32 = ends_in(rate, "_f32"), attention = strncmp(rate->operation, "attention_", 10) == 0;
        if (dtype != DTYPE_BF16 && attention && rate->dimensions > 1 && !scale_attention(rate, own))
            continue;
        if (dtype == DTYPE_BF16 || !attention || rate->dimensions == 1)
            scale(rate, rate->dimensions == 1 ? bytes : f32 ? own : flops);
        rates->count++;
    }
}

void profile_rates_scale(struct rates *rates, const struct rate_peaks *card, const struct rates *measured,
                         const struct rate_peaks *measured_card)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (card->flops_per_s[dtype] > 0 && rates[dtype].count == 0)
            scale_rates(&rates[dtype], card, measured, measured_card, (enum dtype)dtype);
}
