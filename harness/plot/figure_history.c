// History: time and peak memory of every trial with several commits, relative to its first, by commit, with the
// changes that `longbp history` finds.
#include "harness/compare/history.h"
#include "harness/plot/figure.h"
#include "harness/record/step_time.h"
#include "harness/text/text.h"
#include <math.h>
#include <string.h>

static double time_of(const struct record *record)
{
    return record->status == RECORD_OK ? step_time_of(record).ms : NAN;
}

static double peak_of(const struct record *record)
{
    return record->status == RECORD_OK ? record->peak_bytes : NAN;
}

static bool has_changed_time(const struct history *history, const struct history_trial *trial, size_t commit)
{
    const struct trial_comparison *change = history_change(history, trial, commit);
    return change && (change->time->verdict == VERDICT_WORSE || change->time->verdict == VERDICT_BETTER);
}

// Number of earlier trials (series) with this trial's method.
static size_t rank_of(const struct history *history, size_t at)
{
    size_t rank = 0;
    const char *method = record_method(history->trials[at].points[0].record);
    for (size_t i = 0; i < at; i++)
        rank +=
            history->trials[i].count > 1 && strcmp(record_method(history->trials[i].points[0].record), method) == 0;
    return rank;
}

static void put_trial(struct figure_table *table, const struct history *history, size_t at, size_t series)
{
    const struct history_trial *trial = &history->trials[at];
    const struct record *first = trial->points[0].record, *before = first;
    for (size_t p = 0; p < trial->count; p++) {
        const struct history_point *point = &trial->points[p];
        const struct history_commit *commit = &history->commits[point->commit];
        char revision[16] = "";
        text_append(revision, sizeof revision, "%.7s%s", commit->revision, commit->dirty ? "+" : "");
        bool known = isfinite(peak_of(before)) && isfinite(peak_of(point->record));
        figure_table_row(table, series, record_method(first), rank_of(history, at), "%s", trial->what.text);
        FIGURE_NUMBERS(table, (double)point->commit + 1);
        figure_table_word(table, revision);
        FIGURE_NUMBERS(table, time_of(point->record) / time_of(first), peak_of(point->record) / peak_of(first),
                       p > 0 && has_changed_time(history, trial, point->commit),
                       known && peak_of(before) != peak_of(point->record));
        before = point->record;
    }
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    struct histories histories;
    size_t series = 0;
    figure_table_columns(table, "commit\trevision\ttime_ratio\tpeak_ratio\ttime_changed\tpeak_changed");
    histories_make(&histories, records, count);
    for (size_t h = 0; h < histories.count; h++)
        for (size_t t = 0; t < histories.items[h].trial_count; t++)
            if (histories.items[h].trials[t].count > 1)
                put_trial(table, &histories.items[h], t, ++series);
    histories_free(&histories);
    return series > 0;
}

static const char *const along_all[] = {"context", "dtype", "device", "batch", NULL};

const struct figure figure_history = {
    .name = "history",
    .panels = "time,memory",
    .times = true,
    .needs = "a trial that several commits have",
    .every_commit = true,
    .within = along_all,
    .tabulate = tabulate,
};
