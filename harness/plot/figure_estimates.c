// Estimates: bias and error of sampled gradients against the mean work of their steps, both relative to those of
// the exact method with the same chunk, which is a point at work 1 without error. A series per sampler; its points
// have other shares of chunks. Estimates that skip some chunks, or drop all gradients of keys and values, are
// series of their own.
#include "harness/plot/figure.h"
#include "harness/table/series.h"
#include "kernels/base/status.h"
#include "methods/method.h"
#include <math.h>
#include <string.h>

static double chunk_of(const struct record *record)
{
    return record_option_number(record, "chunk");
}

// The FLOPs of the exact method with the same chunk, or NaN.
static double whole_flops(const struct record *record, const struct record *const *records, size_t count)
{
    const struct method *method = method_find(record_method(record));
    for (size_t i = 0; method && method->estimates && i < count; i++)
        if (records[i]->status == RECORD_OK && strcmp(record_method(records[i]), method->estimates) == 0 &&
            chunk_of(records[i]) == chunk_of(record))
            return records[i]->flops;
    return NAN;
}

static bool has_work(const struct record *record, const struct record *const *records, size_t count)
{
    return record->status == RECORD_OK && isfinite(record->bias.flops) && isfinite(record->bias.rms_error) &&
           isfinite(whole_flops(record, records, count));
}

static bool is_pointless(const struct record *record, const struct record *const *records, size_t count)
{
    const struct method *method = method_find(record_method(record));
    return method && method->estimates && !has_work(record, records, count);
}

static int by_work(const void *a, const void *b)
{
    double x = (*(const struct record *const *)a)->bias.flops, y = (*(const struct record *const *)b)->bias.flops;
    return (x > y) - (x < y);
}

enum kind { ALL_CHUNKS, SOME_CHUNKS, OWN_KEYS, KINDS };

static enum kind kind_of(const struct record *record)
{
    return record_option_number(record, "deferral") == 0        ? OWN_KEYS
           : record_option_number(record, "backward_share") < 1 ? SOME_CHUNKS
                                                                : ALL_CHUNKS;
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const omit[] = {"budget", "deferral", "backward_share", NULL}, *const suffixes[] = {
                                                                                          "",
                                                                                          ", some chunks skipped",
                                                                                          ", no gradients of keys"};
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t written = 0;
    bool enough = false;
    CHECK(kept);
    figure_table_columns(table, "work\tbias\trms_error\tdraws");
    for (enum kind kind = ALL_CHUNKS; kind < KINDS; kind++) {
        size_t kept_count = 0;
        for (size_t i = 0; i < count; i++)
            if (has_work(records[i], records, count) && kind_of(records[i]) == kind)
                kept[kept_count++] = records[i];
        struct series_table all;
        series_make(&all, kept, kept_count, omit, true);
        for (size_t s = 0; s < all.count; s++, written++) {
            struct series *series = &all.series[s];
            qsort(series->records, series->record_count, sizeof *series->records, by_work);
            enough |= series->record_count >= 2;
            for (size_t i = 0; i < series->record_count; i++) {
                const struct record *record = series->records[i];
                figure_table_row(table, written + 1, series->method, written, "%s%s", series->label,
                                 suffixes[kind]);
                FIGURE_NUMBERS(table, record->bias.flops / whole_flops(record, records, count),
                               record->bias.relative_l2, record->bias.rms_error, record->bias.subsets);
            }
        }
        series_free(&all);
    }
    free(kept);
    return enough;
}

static const char *const nothing[] = {NULL};

const struct figure figure_estimates = {
    .name = "estimates",
    .panels = "bias,rms",
    .part = "bias",
    .needs = "\"bias\": true in two estimates or more of one sampler at one context, and seco with the same chunk",
    .one_context = true,
    .within = nothing,
    .tabulate = tabulate,
    .is_pointless = is_pointless,
    .point_needs = "\"bias\": true, and seco with the same chunk",
};
