#include "harness/results/prediction_report.h"
#include "harness/results/series.h"
#include "harness/results/setting.h"
#include "harness/results/step_time.h"
#include "harness/results/text_table.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define APART 1.1 // times that differ by less are not told apart

static const char *const nothing[] = {NULL};

bool prediction_counts(const struct record *record)
{
    return record->status == RECORD_OK && record->estimate_ms > 0 && isfinite(record->estimate_low_ms) &&
           step_time_of(record).ms > 0;
}

static double measured_ms(const struct record *record)
{
    return step_time_of(record).ms;
}

static double error_of(const struct record *record)
{
    return record->estimate_ms / measured_ms(record) - 1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of one setting and context.
static bool are_comparable(const struct record *a, const struct record *b)
{
    json_t *of_a = setting_of_record(a, nothing), *of_b = setting_of_record(b, nothing);
    bool same = a->trial.context == b->trial.context && json_equal(of_a, of_b);
    json_decref(of_b);
    json_decref(of_a);
    return same;
}

static void compare(struct prediction_errors *errors, const struct record *a, const struct record *b)
{
    double ratio = measured_ms(a) / measured_ms(b);
    if ((ratio < APART && ratio > 1 / APART) || !are_comparable(a, b))
        return;
    errors->pairs++;
    errors->reversed += (ratio > 1) != (a->estimate_ms > b->estimate_ms);
}

struct prediction_errors prediction_errors_of(const struct record *const *records, size_t count)
{
    struct prediction_errors errors = {0};
    double *sizes = calloc(count + 1, sizeof *sizes);
    CHECK(sizes);
    for (size_t i = 0; i < count; i++) {
        if (!prediction_counts(records[i]))
            continue;
        double size = fabs(error_of(records[i])), ms = measured_ms(records[i]);
        sizes[errors.count++] = size;
        errors.in_range += ms >= records[i]->estimate_low_ms && ms <= records[i]->estimate_high_ms;
        if (!errors.worst_record || size > errors.worst) {
            errors.worst = size;
            errors.worst_record = records[i];
        }
        for (size_t j = 0; j < i; j++)
            if (prediction_counts(records[j]))
                compare(&errors, records[i], records[j]);
    }
    qsort(sizes, errors.count, sizeof *sizes, by_size);
    size_t half = errors.count / 2;
    if (errors.count)
        errors.median = errors.count % 2 ? sizes[half] : (sizes[half - 1] + sizes[half]) / 2;
    free(sizes);
    return errors;
}

static void print_points(const struct series_table *all, enum table_format format, FILE *stream)
{
    struct text_table table = {0};
    const char *const head[] = {"", "context", "measured ms", "predicted ms", "from", "to", "error %", NULL};
    text_table_row(&table, head);
    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 0; i < all->series[s].record_count; i++) {
            const struct record *record = all->series[s].records[i];
            const struct text_table_word words[] = {
                text_table_number(record->trial.context, 0),    text_table_number(measured_ms(record), 1),
                text_table_number(record->estimate_ms, 1),      text_table_number(record->estimate_low_ms, 1),
                text_table_number(record->estimate_high_ms, 1), text_table_number(100 * error_of(record), 1)};
            const char *const row[] = {all->series[s].label, words[0].text, words[1].text, words[2].text,
                                       words[3].text,        words[4].text, words[5].text, NULL};
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

bool prediction_report_write(const struct results *results, bool points, enum table_format format, FILE *stream)
{
    const struct record **records = calloc(results->count + 1, sizeof *records);
    CHECK(records);
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++)
        if (prediction_counts(results->records[i]))
            records[count++] = results->records[i];
    struct prediction_errors errors = prediction_errors_of(records, count);
    if (errors.worst_record) {
        struct series_table all;
        series_make(&all, records, count, nothing, true);
        fprintf(stream, "%sstep times, predicted by measured rates and measured\n\n",
                format == TABLE_MARKDOWN ? "## " : "");
        if (points)
            print_points(&all, format, stream);
        fprintf(
            stream,
            "%zu trials: median error %.1f %%, worst %.1f %% (%s, context %.0f); %zu measured within the range of "
            "their prediction; of %zu pairs whose times differ by more than %.0f %%, %zu in the wrong order\n",
            errors.count, 100 * errors.median, 100 * errors.worst, label_of(&all, errors.worst_record),
            errors.worst_record->trial.context, errors.in_range, errors.pairs, 100 * (APART - 1), errors.reversed);
        series_free(&all);
    }
    free(records);
    return count > 0;
}
