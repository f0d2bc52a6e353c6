#include "harness/spec/profile_rates.h"
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

bool profile_rates_read(struct rates *rates, struct json_field field, struct status *status)
{
    static const struct names known = {5, {"source", "spread", "yardstick_s", "s_per_byte", "operations"}};
    const char *source = NULL;
    *rates = (struct rates){0};
    if (!field.value)
        return true;
    if (!json_is_object(field.value))
        return json_field_expected(field, status, "an object of operations");
    struct json_field operations = json_field_get(field, "operations"),
                      yardstick = json_field_get(field, "yardstick_s"), byte = json_field_get(field, "s_per_byte");
    if (!json_field_object(field, &known, NULL, status) ||
        !json_field_text(json_field_get(field, "source"), "how the rates were measured", &source, status) ||
        !read_spread(rates, json_field_get(field, "spread"), status) ||
        (yardstick.value && !read_number(yardstick, 1e-9, &rates->yardstick_s, status)) ||
        (byte.value && !read_number(byte, 0, &rates->s_per_byte, status)))
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
    return true;
}

// Four digits are as many as a time is good for.
static json_t *numbers_json(const double *numbers, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.4g", numbers[i]);
        json_array_append_new(list, json_real(strtod(text, NULL)));
    }
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
    if (rates->yardstick_s > 0) { // measured with the rates, as s_per_byte is, which may be 0
        json_object_set_new(json, "yardstick_s", json_real(rates->yardstick_s));
        json_object_set_new(json, "s_per_byte", json_real(rates->s_per_byte));
    }
    json_object_set_new(json, "operations", operations);
    return json;
}
