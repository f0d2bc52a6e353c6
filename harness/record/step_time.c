#include "harness/record/step_time.h"
#include "harness/record/record_json.h"
#include "harness/record/recorded_method.h"
#include <math.h>
#include <stdlib.h>

// NaN for an empty list.
static double mean_of(const struct number_list *list)
{
    double sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += list->items[i];
    return sum / (double)list->count;
}

static bool has_draws(const struct record *record)
{
    return record->sample_chunks.count > 0;
}

bool step_time_is_drawn(const struct record *record)
{
    return has_draws(record) || recorded_method_draws(record->trial.method);
}

static bool is_one_draw(const struct record *record)
{
    return step_time_is_drawn(record) && !has_draws(record);
}

// +infinity for an empty list.
static double fastest_of(const struct number_list *samples)
{
    double fastest = INFINITY;
    for (size_t i = 0; i < samples->count; i++)
        fastest = fmin(fastest, samples->items[i]);
    return fastest;
}

struct step_time step_time_of(const struct record *record)
{
    struct step_time time = {NAN, NAN, NAN, NAN};
    if (is_one_draw(record))
        return time;
    if (has_draws(record)) {
        double error = record->mean_error_ms;
        time.ms = record->mean_ms;
        time.low = time.ms - 2 * error;
        time.high = time.ms + 2 * error;
        if (time.low <= 0) // few draws, far apart; a logarithmic axis cannot show 0
            time.low = fmin(fastest_of(&record->samples_ms), time.ms);
        time.drawn_chunks = mean_of(&record->sample_chunks);
        return time;
    }
    time.ms = time.low = time.high = record->median_ms;
    time.low = fmin(time.low, fastest_of(&record->samples_ms));
    for (size_t i = 0; i < record->samples_ms.count; i++)
        time.high = fmax(time.high, record->samples_ms.items[i]);
    return time;
}

double step_time_at_profile_speed(const struct record *record)
{
    const struct number_list *samples = &record->samples_ms, *slowdown = &record->slowdown;
    if (!slowdown->count || slowdown->count != samples->count || is_one_draw(record))
        return NAN;
    struct number_list at_speed = number_list_make(samples->count);
    for (size_t i = 0; i < samples->count; i++)
        at_speed.items[i] = samples->items[i] / slowdown->items[i];
    double ms = has_draws(record) ? mean_of(&at_speed) : sample_quantile(at_speed.items, at_speed.count, 0.5);
    free(at_speed.items);
    return ms;
}

struct step_time step_time_estimate(const struct record *record)
{
    double ms = is_one_draw(record) ? NAN : record->estimate_ms;
    return (struct step_time){ms, ms, ms, mean_of(&record->sample_chunks)};
}

double step_time_mean(const struct record *record)
{
    double mean = mean_of(&record->samples_ms);
    return isfinite(mean) ? mean : record->median_ms;
}

struct shift round_ratio(const struct number_list *times, const struct number_list *over)
{
    size_t rounds = times->count < over->count ? times->count : over->count;
    const double *last = times->items + times->count - rounds, *last_over = over->items + over->count - rounds;
    double *logs = malloc((rounds + 1) * sizeof *logs);
    for (size_t i = 0; i < rounds; i++)
        logs[i] = log(last[i] / last_over[i]);
    struct sample_mean mean = sample_mean(logs, rounds);
    free(logs);
    return sample_ratio(mean.estimate, sample_half_interval(mean, rounds, 0));
}

// The times of each joined round.
static struct number_list times_of_rounds(const struct record *record)
{
    const struct record_rounds *rounds = &record->rounds;
    struct number_list times = number_list_make(rounds->count ? rounds->count : 1);
    for (size_t i = 0; i < times.count; i++)
        times.items[i] = step_time_of(rounds->count ? rounds->items[i] : record).ms;
    return times;
}

struct shift step_time_ratio(const struct record *record, const struct record *over)
{
    struct number_list times = times_of_rounds(record), others = times_of_rounds(over);
    struct shift ratio = round_ratio(&times, &others);
    free(times.items);
    free(others.items);
    return ratio;
}
