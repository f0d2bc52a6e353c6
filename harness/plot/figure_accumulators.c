// Accumulator error: the effect of bf16 accumulators on accuracy: a row per chunk size, a series per method and
// pair of accumulator dtypes (dKV, weight gradients dW).
#include "harness/plot/figure.h"
#include "harness/spec/trial.h"
#include "harness/table/series.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

// A chunk of 0 is the whole context; NaN: no chunks.
static double chunks_of(const struct record *record)
{
    double chunk = record_option_number(record, "chunk");
    return chunk == 0 ? 1 : ceil(record->trial.context / chunk);
}

static bool counts(const struct record *record, const char *dkv_dtype, const char *dw_dtype)
{
    const struct record_trial *trial = &record->trial;
    return strcmp(text_or(trial->kv_gradient_dtype, ""), dkv_dtype) == 0 &&
           strcmp(text_or(trial->gradient_dtype, ""), dw_dtype) == 0 && isfinite(record->gradient.relative_l2) &&
           isfinite(chunks_of(record)) && record->status == RECORD_OK;
}

static int by_chunks(const void *a, const void *b)
{
    double x = chunks_of(*(const struct record *const *)a), y = chunks_of(*(const struct record *const *)b);
    return (x > y) - (x < y);
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const pairs[][2] = {{"f32", "f32"},   {"bf16", "f32"},          {"f32", "bf16"},
                                           {"bf16", "bf16"}, {BF16_STOCHASTIC, "f32"}, {BF16_STOCHASTIC, "bf16"}};
    static const char *const omit[] = {"chunk", NULL};
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t written = 0, narrow = 0; // series; maximum points of a series with bf16 accumulators
    figure_table_columns(table, "chunks\trelative_l2\tnoise_floor\tsums_relative_l2");
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        size_t kept_count = 0;
        for (size_t i = 0; i < count; i++)
            if (counts(records[i], pairs[p][0], pairs[p][1]))
                kept[kept_count++] = records[i];
        struct series_table all;
        series_make(&all, kept, kept_count, omit, true);
        for (size_t s = 0; s < all.count; s++) {
            struct series *series = &all.series[s];
            qsort(series->records, series->record_count, sizeof *series->records, by_chunks);
            written++;
            for (size_t i = 0; i < series->record_count; i++) {
                const struct record *record = series->records[i];
                const struct record_gradient *gradient = &record->gradient;
                figure_table_row(table, written, series->method, p, "%s, dKV in %s, dW in %s", series->label,
                                 pairs[p][0], pairs[p][1]);
                FIGURE_NUMBERS(table, chunks_of(record), gradient->relative_l2, gradient->noise_floor,
                               gradient->sums_relative_l2);
            }
            narrow = p > 0 && series->record_count > narrow ? series->record_count : narrow;
        }
        series_free(&all);
    }
    free(kept);
    return narrow >= 2;
}

static const char *const along_sums[] = {"kv_gradient_dtype", "gradient_dtype", NULL};

const struct figure figure_accumulators = {
    .name = "accumulators",
    .panels = "error,sums",
    .part = "gradient",
    .needs =
        "a gradient check (\"gradient\": \"full-f64\") at two chunk sizes or more at one context, in bf16 with "
        "\"kv_gradient_dtype\" or \"gradient_dtype\" bf16",
    .one_context = true,
    .within = along_sums,
    .tabulate = tabulate,
};
