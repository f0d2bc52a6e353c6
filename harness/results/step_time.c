#include "harness/results/step_time.h"
#include <math.h>
#include <string.h>

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// NaN of an empty list.
static double mean_of(const json_t *list)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum / (double)json_array_size(list);
}

static bool has_draws(const json_t *record)
{
    return json_is_array(json_object_get(record, "sample_columns"));
}

bool step_time_is_drawn(const json_t *record)
{
    const json_t *method = json_object_get(json_object_get(record, "trial"), "method");
    const char *sampler = json_string_value(json_object_get(method, "sampler"));
    return has_draws(record) || (sampler && strcmp(sampler, "fixed") != 0);
}

static bool is_one_draw(const json_t *record)
{
    return step_time_is_drawn(record) && !has_draws(record);
}

struct step_time step_time_of(const json_t *record)
{
    struct step_time time = {NAN, NAN, NAN, NAN};
    if (is_one_draw(record))
        return time;
    if (has_draws(record)) {
        double error = number(record, "mean_error_ms");
        time.ms = number(record, "mean_ms");
        time.low = time.ms - 2 * error;
        time.high = time.ms + 2 * error;
        time.columns = mean_of(json_object_get(record, "sample_columns"));
        return time;
    }
    time.ms = time.low = time.high = number(record, "median_ms");
    const json_t *samples = json_object_get(record, "samples_ms");
    for (size_t i = 0; i < json_array_size(samples); i++) {
        double ms = json_number_value(json_array_get(samples, i));
        time.low = fmin(time.low, ms);
        time.high = fmax(time.high, ms);
    }
    return time;
}

struct step_time step_time_estimate(const json_t *record)
{
    double ms = is_one_draw(record) ? NAN : number(record, "estimate_ms");
    return (struct step_time){ms, ms, ms, mean_of(json_object_get(record, "sample_columns"))};
}

double step_time_mean(const json_t *record)
{
    double mean = mean_of(json_object_get(record, "samples_ms"));
    return isfinite(mean) ? mean : number(record, "median_ms");
}
