#include "harness/report/prediction_report.h"
#include "harness/record/step_time.h"
#include "harness/stats/sample.h"
#include "harness/table/series.h"
#include "harness/table/setting.h"
#include "harness/table/text_table.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define APART 1.1 // smaller ratios of times count as equal

static const char *const nothing[] = {NULL};

double prediction_measured_ms(const struct record *record, enum prediction_speed speed)
{
    double ms = speed == PREDICTION_AS_MEASURED ? step_time_of(record).ms : step_time_at_profile_speed(record);
    bool scaled = record->estimate && strcmp(record->estimate, "scaled rates") == 0;
    bool counts =
        record->status == RECORD_OK && record->estimate_ms > 0 && isfinite(record->estimate_low_ms) && !scaled;
    return counts && ms > 0 ? ms : NAN;
}

static double error_of(const struct record *record, enum prediction_speed speed)
{
    return record->estimate_ms / prediction_measured_ms(record, speed) - 1;
}

// --- order

static int by_measured(const void *a, const void *b)
{
    return sample_by_value(&((const struct predicted_time *)a)->measured_ms,
                           &((const struct predicted_time *)b)->measured_ms);
}

// Number of smaller values among the ascending ones.
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

// A tree of partial sums (Fenwick 1994): sums[i] counts additions at the places before i that its lowest bit
// covers.
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
    size_t *sums = calloc(count + 1, sizeof *sums), faster = 0; // faster: number of pairs that differ enough
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

struct comparable {
    char *setting;
    double context;
    struct predicted_time time;
};

// Groups records of one setting and context.
static int compare_comparable(const void *a, const void *b)
{
    const struct comparable *left = a, *right = b;
    int order = (left->context > right->context) - (left->context < right->context);
    return order ? order : strcmp(left->setting, right->setting);
}

static char *setting_text(const struct record *record)
{
    json_t *setting = setting_of_record(record, nothing);
    char *text = json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text);
    json_decref(setting);
    return text;
}

// ms: each record's time; NaN: ignored.
static struct predicted_order order_of(const struct record *const *records, const double *ms, size_t count)
{
    struct predicted_order order = {0};
    struct comparable *all = malloc((count + 1) * sizeof *all);
    struct predicted_time *times = malloc((count + 1) * sizeof *times);
    size_t counted = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(ms[i]))
            all[counted++] = (struct comparable){
                setting_text(records[i]), records[i]->trial.context, {ms[i], records[i]->estimate_ms}};
    qsort(all, counted, sizeof *all, compare_comparable);
    for (size_t first = 0, last; first < counted; first = last) {
        for (last = first; last < counted && compare_comparable(&all[first], &all[last]) == 0; last++)
            times[last - first] = all[last].time;
        struct predicted_order part = predicted_order_of(times, last - first, APART);
        order.pairs += part.pairs;
        order.reversed += part.reversed;
    }
    for (size_t i = 0; i < counted; i++)
        free(all[i].setting);
    free(times);
    free(all);
    return order;
}

struct prediction_errors prediction_errors_of(const struct record *const *records, size_t count,
                                              enum prediction_speed speed)
{
    struct prediction_errors errors = {0};
    double *sizes = calloc(count + 1, sizeof *sizes), *ms = calloc(count + 1, sizeof *ms);
    for (size_t i = 0; i < count; i++) {
        ms[i] = prediction_measured_ms(records[i], speed);
        if (isnan(ms[i]))
            continue;
        double size = fabs(records[i]->estimate_ms / ms[i] - 1);
        sizes[errors.count++] = size;
        errors.in_range += ms[i] >= records[i]->estimate_low_ms && ms[i] <= records[i]->estimate_high_ms;
        if (!errors.worst_record || size > errors.worst) {
            errors.worst = size;
            errors.worst_record = records[i];
        }
    }
    errors.order = order_of(records, ms, count);
    errors.median = errors.count ? sample_quantile(sizes, errors.count, 0.5) : NAN;
    free(ms);
    free(sizes);
    return errors;
}

static void print_points(const struct series_table *all, enum table_format format, FILE *stream)
{
    struct text_table table = {0};
    const char *const head[] = {"",   "context", "measured ms", "predicted ms",       "from",
                                "to", "error %", "slowdown",    "error % without it", NULL};
    text_table_row(&table, head);
    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 0; i < all->series[s].record_count; i++) {
            const struct record *record = all->series[s].records[i];
            double measured_ms = prediction_measured_ms(record, PREDICTION_AS_MEASURED);
            const struct text_table_word words[] = {
                text_table_number(record->trial.context, 0),
                text_table_number(measured_ms, 1),
                text_table_number(record->estimate_ms, 1),
                text_table_number(record->estimate_low_ms, 1),
                text_table_number(record->estimate_high_ms, 1),
                text_table_number(100 * error_of(record, PREDICTION_AS_MEASURED), 1),
                text_table_number(measured_ms / prediction_measured_ms(record, PREDICTION_AT_PROFILE_SPEED), 2),
                text_table_number(100 * error_of(record, PREDICTION_AT_PROFILE_SPEED), 1)};
            const char *const row[] = {all->series[s].label, words[0].text, words[1].text, words[2].text,
                                       words[3].text,        words[4].text, words[5].text, words[6].text,
                                       words[7].text,        NULL};
            text_table_row(&table, row);
        }
    text_table_print(&table, format, stream);
    text_table_free(&table);
    fputs("\n", stream);
}

static const char *label_of(const struct series_table *all, const struct record *record)
{
    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 0; i < all->series[s].record_count; i++)
            if (all->series[s].records[i] == record)
                return all->series[s].label;
    return record_method(record);
}

static void print_errors(const struct prediction_errors *errors, const struct series_table *all, FILE *stream)
{
    fprintf(stream,
            "median error %.1f %%, worst %.1f %% (%s, context %.0f); of %zu pairs whose times differ by more than "
            "%.0f %%, %zu in the right order, %zu in the wrong one\n",
            100 * errors->median, 100 * errors->worst, label_of(all, errors->worst_record),
            errors->worst_record->trial.context, errors->order.pairs, 100 * (APART - 1),
            errors->order.pairs - errors->order.reversed, errors->order.reversed);
}

static void print_summary(const struct record *const *records, size_t count, const struct series_table *all,
                          FILE *stream)
{
    struct prediction_errors errors = prediction_errors_of(records, count, PREDICTION_AS_MEASURED);
    if (!errors.worst_record)
        return;
    fprintf(stream, "%zu trials, %zu of them measured within the range of their prediction: ", errors.count,
            errors.in_range);
    print_errors(&errors, all, stream);
    errors = prediction_errors_of(records, count, PREDICTION_AT_PROFILE_SPEED);
    if (!errors.worst_record)
        return;
    double min = INFINITY, max = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < records[i]->slowdown.count; j++) {
            min = fmin(min, records[i]->slowdown.items[j]);
            max = fmax(max, records[i]->slowdown.items[j]);
        }
    fprintf(
        stream,
        "%zu trials at the speed of the calibration, each sample divided by its slowdown, which is how many times "
        "as long as then a reference kernel took around it (%.2f to %.2f): ",
        errors.count, min, max);
    print_errors(&errors, all, stream);
}

bool prediction_any(const struct results *results)
{
    for (size_t i = 0; i < results->count; i++)
        if (isfinite(prediction_measured_ms(results->records[i], PREDICTION_AS_MEASURED)))
            return true;
    return false;
}

bool prediction_report_write(const struct results *results, bool points, enum table_format format, FILE *stream)
{
    const struct record **records = calloc(results->count + 1, sizeof *records);
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++)
        if (isfinite(prediction_measured_ms(results->records[i], PREDICTION_AS_MEASURED)))
            records[count++] = results->records[i];
    if (count) {
        struct series_table all;
        series_make(&all, records, count, nothing, true);
        fprintf(stream, "%sstep times, predicted by measured rates and measured\n\n",
                format == TABLE_MARKDOWN ? "## " : "");
        if (points)
            print_points(&all, format, stream);
        print_summary(records, count, &all, stream);
        series_free(&all);
    }
    free(records);
    return count > 0;
}
