#include "harness/table/record_figure.h"
#include "harness/json/number_json.h"
#include "harness/record/step_time.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double ratio(double value, double base)
{
    return base > 0 ? value / base : NAN;
}

static json_t *setting(const struct table_row *row)
{
    return json_string(row->name);
}

static json_t *time_ms(const struct table_row *row)
{
    return number_json(step_time_of(row->record).ms);
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

// The quantile q of sorted numbers, linearly interpolated.
static double quantile(const double *sorted, size_t count, double q)
{
    double place = q * (double)(count - 1);
    size_t below = (size_t)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

static json_t *spread_ms(const struct table_row *row)
{
    const struct number_list *samples = &row->record->samples_ms;
    if (step_time_is_drawn(row->record))
        return number_json(row->record->mean_error_ms);
    if (samples->count < 2)
        return json_null();
    double *sorted = malloc(samples->count * sizeof *sorted);
    memcpy(sorted, samples->items, samples->count * sizeof *sorted);
    qsort(sorted, samples->count, sizeof *sorted, ascending);
    double between = quantile(sorted, samples->count, 0.75) - quantile(sorted, samples->count, 0.25);
    free(sorted);
    return number_json(between / 2);
}

struct shift table_row_time_ratio(const struct table_row *row)
{
    const struct record *own = row->record, *base = row->base_timed;
    if (!base)
        return (struct shift){NAN, NAN, NAN};
    if (own != base && (own->samples_ms.count || base->samples_ms.count))
        return step_time_ratio(own, base);
    bool measured = own->samples_ms.count;
    double value = measured ? ratio(step_time_of(own).ms, step_time_of(base).ms)
                            : ratio(step_time_estimate(own).ms, step_time_estimate(base).ms);
    return (struct shift){value, value, value};
}

static json_t *time_ratio(const struct table_row *row)
{
    return number_json(table_row_time_ratio(row).estimate);
}

static json_t *time_ratio_low(const struct table_row *row)
{
    double low = table_row_time_ratio(row).low;
    return number_json(low > 0 ? low : NAN);
}

static json_t *time_ratio_high(const struct table_row *row)
{
    return number_json(table_row_time_ratio(row).high);
}

static json_t *peak_ratio(const struct table_row *row)
{
    if (!row->base || row->record->status == RECORD_OOM || row->base->status == RECORD_OOM)
        return json_null();
    return number_json(ratio(row->record->peak_bytes, row->base->peak_bytes));
}

static json_t *last_loss(const struct table_row *row)
{
    return number_json(record_last_loss(row->record));
}

static json_t *held_out_loss(const struct table_row *row)
{
    return number_json(record_held_out_loss(row->record));
}

const struct record_figure record_figures[] = {
    {"setting", "setting", NULL, "method, options and keys, as far as the rows differ in them", setting},
    {"last_loss", "last loss, nats", "nats", "of a training run: the mean over its last quarter of steps",
     last_loss},
    {"held_out_loss", "held-out loss, nats", "nats", "of a training run: its last evaluation's", held_out_loss},
    {"time_ms", "time, ms", "ms", "measured: the median of the samples; where chunks are drawn the mean over draws",
     time_ms},
    {"spread_ms", "+-", "ms",
     "half the distance between the quartiles of the samples; of a mean over draws its standard error", spread_ms},
    {"time_ratio", "time / ", NULL,
     "time over the baseline's at the same model, context and batch: geometric mean of the rounds' ratios; for "
     "plans a ratio of estimates",
     time_ratio},
    {"time_ratio_low", "from", NULL, "the lower end of time_ratio's interval of 95 %", time_ratio_low},
    {"time_ratio_high", "to", NULL, "its upper end", time_ratio_high},
    {"peak_ratio", "peak / ", NULL, "peak_bytes over the baseline's, of the same model, context and batch",
     peak_ratio},
    {0}};

const struct record_figure *record_figure_find(const char *name)
{
    const struct record_figure *figure = record_figures;
    while (figure->name && strcmp(figure->name, name) != 0)
        figure++;
    return figure->name ? figure : NULL;
}
