// Pair sums: the error of a pair's difference of log-probs by accumulator dtype: a series per accumulator, a row
// per context.
#include "harness/plot/figure.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define MEMBER(name) offsetof(struct record_pair_sums, name)

static const struct {
    const char *label;
    size_t member;
} accumulators[] = {
    {"rows and sums in bf16", MEMBER(bf16_error)},
    {"rows in bf16, each sum rounded to it once", MEMBER(bf16_once_error)},
    {"sums in f32", MEMBER(f32_error)},
    {"sums in f64", MEMBER(f64_error)},
};

static double error_of(const struct record *record, size_t accumulator)
{
    const void *error = (const char *)record->pair_sums + accumulators[accumulator].member;
    return *(const double *)error;
}

// A series of zeros cannot be shown on a logarithmic axis, and is labelled so.
static void put_series(struct figure_table *table, const struct record *const *records, size_t count,
                       size_t accumulator)
{
    const char *label = accumulators[accumulator].label;
    bool exact = true;
    for (size_t i = 0; i < count; i++)
        exact &= error_of(records[i], accumulator) == 0;
    for (size_t i = 0; i < count; i++) {
        figure_table_row(table, accumulator + 1, label, accumulator, "%s%s", label, exact ? ": no error" : "");
        FIGURE_NUMBERS(table, records[i]->trial.context, error_of(records[i], accumulator),
                       records[i]->pair_sums->difference);
    }
}

static int by_context(const void *a, const void *b)
{
    double x = (*(const struct record *const *)a)->trial.context,
           y = (*(const struct record *const *)b)->trial.context;
    return (x > y) - (x < y);
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++)
        if (records[i]->status == RECORD_OK && records[i]->pair_sums->given)
            kept[kept_count++] = records[i];
    qsort(kept, kept_count, sizeof *kept, by_context);
    figure_table_columns(table, "context\terror\tdifference");
    for (size_t s = 0; s < sizeof accumulators / sizeof *accumulators; s++)
        put_series(table, kept, kept_count, s);
    free(kept);
    return kept_count >= 2;
}

static const char *const along_context[] = {"context", NULL};

const struct figure figure_pair_sums = {
    .name = "pair-sums",
    .part = "pair_sums",
    .needs = "\"pair_sums\": true at two contexts or more, of an objective over pairs",
    .within = along_context,
    .tabulate = tabulate,
};
