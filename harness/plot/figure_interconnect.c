// Ranks over an interconnect: estimated step time against the number of ranks, the busiest rank's waiting time, and
// the largest amount sent; a series per method, interconnect, exchange and ZeRO level. A single rank, which neither
// waits nor sends, is in every series over its interconnect.
#include "harness/plot/figure.h"
#include "harness/table/series.h"
#include "harness/text/text.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

#define KINDS_MAX 32

// Distinguishes series besides the method and its options.
struct kind {
    const char *interconnect, *exchange; // "": tokens are not shared
    double zero;
};

static struct kind kind_of(const struct record *record)
{
    const struct record_parallel *parallel = record->trial.parallel;
    return (struct kind){text_or(record->trial.interconnect, ""),
                         parallel->sequence > 1 ? text_or(parallel->exchange, "") : "", parallel->zero};
}

static bool same(struct kind a, struct kind b)
{
    return strcmp(a.interconnect, b.interconnect) == 0 && strcmp(a.exchange, b.exchange) == 0 && a.zero == b.zero;
}

static bool is_timed(const struct record *record)
{
    return record->status == RECORD_OK && record->ranks->idle_share.count > 0 && isfinite(record->estimate_ms);
}

static bool is_alone(const struct record *record)
{
    const struct record_parallel *parallel = record->trial.parallel;
    return record->status == RECORD_OK && !record->ranks->given && isfinite(record->estimate_ms) &&
           parallel->data * parallel->sequence * parallel->stage == 1;
}

static double rank_count(const struct record *record)
{
    return is_alone(record) ? 1 : record->ranks->count;
}

static bool is_of(const struct record *record, struct kind kind)
{
    return is_alone(record) ? strcmp(text_or(record->trial.interconnect, ""), kind.interconnect) == 0
                            : is_timed(record) && same(kind_of(record), kind);
}

// In the records' order.
static size_t find_kinds(const struct record *const *records, size_t count, struct kind kinds[KINDS_MAX])
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < found && !same(kinds[at], kind_of(records[i])))
            at++;
        if (at == found && found < KINDS_MAX && is_timed(records[i]))
            kinds[found++] = kind_of(records[i]);
    }
    return found;
}

// Number of earlier kinds with the same interconnect.
static size_t shares_before(const struct kind *kinds, size_t kind)
{
    size_t count = 0;
    for (size_t k = 0; k < kind; k++)
        count += strcmp(kinds[k].interconnect, kinds[kind].interconnect) == 0;
    return count;
}

// Number of interconnects before this kind's.
static size_t interconnect_before(const struct kind *kinds, size_t kind)
{
    size_t first = 0, count = 0;
    while (strcmp(kinds[first].interconnect, kinds[kind].interconnect) != 0)
        first++;
    for (size_t k = 0; k < first; k++)
        count += shares_before(kinds, k) == 0;
    return count;
}

static int by_ranks(const void *a, const void *b)
{
    double x = rank_count(*(const struct record *const *)a), y = rank_count(*(const struct record *const *)b);
    return (x > y) - (x < y);
}

static void put_record(struct figure_table *table, const struct record *record)
{
    const struct record_ranks *ranks = record->ranks;
    double idle = is_alone(record) ? 0 : 1, sent = 0;
    for (size_t i = 0; i < ranks->idle_share.count; i++) {
        idle = fmin(idle, ranks->idle_share.items[i]);
        sent = fmax(sent, ranks->sent_bytes.items[i]);
    }
    FIGURE_NUMBERS(table, rank_count(record), record->estimate_ms / 1e3, 100 * idle, sent / 1e9);
}

static bool tabulate(const struct record *const *records, size_t count, struct figure_table *table)
{
    static const char *const nothing[] = {NULL};
    struct kind kinds[KINDS_MAX];
    const struct record **kept = calloc(count + 1, sizeof *kept);
    size_t written = 0, max = 0;
    figure_table_columns(table, "kind\tranks\ttime_s\tidle_percent\tsent_GB");
    for (size_t k = 0, found = find_kinds(records, count, kinds); k < found; k++) {
        size_t kept_count = 0;
        for (size_t i = 0; i < count; i++)
            if (is_of(records[i], kinds[k]))
                kept[kept_count++] = records[i];
        struct series_table all;
        series_make(&all, kept, kept_count, nothing, true);
        for (size_t s = 0; s < all.count; s++) {
            struct series *series = &all.series[s];
            qsort(series->records, series->record_count, sizeof *series->records, by_ranks);
            written++;
            for (size_t r = 0; r < series->record_count; r++) {
                char zero[40] = "";
                if (kinds[k].zero > 0)
                    snprintf(zero, sizeof zero, "zero %.0f, ", kinds[k].zero);
                figure_table_row(table, written, series->method, shares_before(kinds, k), "%s, %s%s%s%s",
                                 series->label, zero, kinds[k].exchange, *kinds[k].exchange ? ", " : "",
                                 *kinds[k].interconnect ? kinds[k].interconnect : "the card's interconnect");
                FIGURE_NUMBERS(table, (double)interconnect_before(kinds, k) + 1);
                put_record(table, series->records[r]);
            }
            max = series->record_count > max ? series->record_count : max;
        }
        series_free(&all);
    }
    free(kept);
    return max >= 2;
}

static const char *const along_ranks[] = {"interconnect", "parallel", "batch", NULL};

const struct figure figure_interconnect = {
    .name = "interconnect",
    .panels = "time,idle,sent",
    .needs =
        "plans over two numbers of ranks or more with an estimate (a profile and an interconnect) at one context",
    .one_context = true,
    .estimates = true,
    .within = along_ranks,
    .tabulate = tabulate,
};
