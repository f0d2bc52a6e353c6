// Shared prompts: the saving of a prompt shared by a group: a row per group size, a series per method and prompt
// length; values are relative to sequences without sharing.
#include "harness/plot/figure.h"
#include "harness/record/step_time.h"
#include "harness/table/series.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

#define PROMPTS_MAX 16

// Older records lack the keys.
static double group_of(const struct record *record)
{
    return isnan(record->trial.group) ? 1 : record->trial.group;
}

static double prompt_of(const struct record *record)
{
    return isnan(record->trial.prompt) ? 0 : record->trial.prompt;
}

// Measured times with an interval if there are several rounds; otherwise estimates.
static struct shift time_ratio(const struct record *record, const struct record *apart)
{
    struct shift measured = step_time_ratio(record, apart);
    double estimated = step_time_estimate(record).ms / step_time_estimate(apart).ms;
    if (isfinite(measured.high))
        return measured;
    return (struct shift){isfinite(measured.estimate) ? measured.estimate : estimated, NAN, NAN};
}

static int by_group(const void *a, const void *b)
{
    double x = group_of(*(const struct record *const *)a), y = group_of(*(const struct record *const *)b);
    return (x > y) - (x < y);
}

// The lengths of prompts, in the records' order.
static size_t find_prompts(const struct record *const *records, size_t count, double prompts[PROMPTS_MAX])
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < found && prompts[at] != prompt_of(records[i]))
            at++;
        if (at == found && found < PROMPTS_MAX)
            prompts[found++] = prompt_of(records[i]);
    }
    return found;
}

// Adds the rows of one series, whose first record has no sharing; returns their number; *shared: some share a
// prompt.
static size_t put_series(struct figure_table *table, const struct series *series, size_t number, double prompt,
                         size_t rank, bool *shared)
{
    const struct record *apart = series->records[0];
    size_t rows = 0;
    for (; group_of(apart) == 1 && rows < series->record_count; rows++) {
        const struct record *record = series->records[rows];
        figure_table_row(table, number, series->method, rank, "%s, prompt %.0f of %.0f", series->label, prompt,
                         record->trial.context);
        struct shift time = time_ratio(record, apart);
        FIGURE_NUMBERS(table, group_of(record), record->flops / apart->flops,
                       record->peak_bytes / apart->peak_bytes, time.estimate, time.low, time.high);
        *shared |= group_of(record) > 1;
    }
    return rows;
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const nothing[] = {NULL};
    double prompts[PROMPTS_MAX];
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t written = 0;
    bool shared = false;
    figure_table_columns(table, "group\tflops_ratio\tpeak_ratio\ttime_ratio\ttime_ratio_low\ttime_ratio_"
                                "high");
    for (size_t p = 0, found = find_prompts(records, count, prompts); p < found; p++) {
        size_t kept_count = 0;
        for (size_t i = 0; i < count; i++) {
            const struct record *record = records[i];
            bool whole = record->status == RECORD_OK && record->flops > 0 && record->peak_bytes > 0;
            if (whole && prompt_of(record) == prompts[p])
                kept[kept_count++] = record;
        }
        struct series_table all;
        series_make(&all, kept, kept_count, nothing, true);
        for (size_t s = 0; s < all.count; s++) {
            struct series *series = &all.series[s];
            qsort(series->records, series->record_count, sizeof *series->records, by_group);
            size_t rows = put_series(table, series, written + 1, prompts[p], p, &shared);
            written += rows > 0;
        }
        series_free(&all);
    }
    free(kept);
    return shared;
}

static const char *const along_groups[] = {"group", "prompt", NULL};

const struct figure figure_prompt = {
    .name = "prompt",
    .panels = "flops,memory,time",
    .times = true,
    .needs = "groups of two sizes or more that share a prompt, one of them 1, at one context",
    .one_context = true,
    .estimates = true,
    .within = along_groups,
    .tabulate = tabulate,
};
