// Routing: rebuilds that choose experts anew: a row per chunk size, a series per method.
#include "harness/plot/figure.h"
#include "harness/table/series.h"
#include "kernels/base/status.h"
#include <math.h>

// A chunk of 0, or above the context, is the whole context, as a rebuild without chunks is.
static double chunk_of(const struct record *record)
{
    double chunk = record_option_number(record, "chunk"), context = record->trial.context;
    return chunk > 0 && chunk < context ? chunk : context;
}

static int by_chunk(const void *a, const void *b)
{
    double x = chunk_of(*(const struct record *const *)a), y = chunk_of(*(const struct record *const *)b);
    return (x > y) - (x < y);
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const omit[] = {"chunk", NULL};
    const struct record **kept = calloc(count + 1, sizeof *kept);
    CHECK(kept);
    size_t kept_count = 0, most = 0;
    for (size_t i = 0; i < count; i++)
        if (records[i]->status == RECORD_OK && records[i]->routing->given)
            kept[kept_count++] = records[i];
    struct series_table all;
    series_make(&all, kept, kept_count, omit, true);
    figure_table_columns(table, "chunk\tflips\tflips_max\trelative_l2\tkept_relative_l2\treference_relative_l2");
    for (size_t s = 0; s < all.count; s++) {
        struct series *series = &all.series[s];
        qsort(series->records, series->record_count, sizeof *series->records, by_chunk);
        most = series->record_count > most ? series->record_count : most;
        for (size_t i = 0; i < series->record_count; i++) {
            const struct record_routing *routing = series->records[i]->routing;
            figure_table_row(table, s + 1, series->method, series->rank, "%s", series->label);
            FIGURE_NUMBERS(table, chunk_of(series->records[i]), routing->flips, routing->flips_max,
                           routing->relative_l2, routing->kept_relative_l2, routing->reference_relative_l2);
        }
    }
    series_free(&all);
    free(kept);
    return most >= 2;
}

static const char *const nothing[] = {NULL};

const struct figure figure_routing = {
    .name = "routing",
    .along = "chunk",
    .logarithmic = true,
    .panels = "flips,error",
    .part = "routing",
    .needs = "\"routing\": \"as-is\" or \"reversed\" at two chunk sizes or more of a method at one context",
    .one_context = true,
    .within = nothing,
    .tabulate = tabulate,
};
