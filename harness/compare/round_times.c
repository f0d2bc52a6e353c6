#include "harness/compare/round_times.h"
#include "harness/record/rounds.h"
#include "harness/stats/sample.h"
#include <math.h>
#include <stdlib.h>

// --- processor time: the time that a trial's own threads ran. It replaces the time of samples that other programs
// disturbed. It excludes waits, and exceeds wall time if threads run in parallel.

// The minimum share of the samples' time in which a single thread runs.
#define RUNNING_MIN 0.95

// Tells whether the record has it for each sample, for work alone: spinning threads use processor time too.
static bool processor_time_known(const struct record *record)
{
    const struct number_list *times = &record->cpu_ms;
    bool known = times->count > 0 && times->count == record->samples_ms.count;
    for (size_t i = 0; known && i < times->count; i++)
        known = times->items[i] > 0;
    return known && (record->provenance.threads == 1 || record->provenance.spin_count == 0);
}

static double sum(const struct number_list *list)
{
    double all = 0;
    for (size_t i = 0; i < list->count; i++)
        all += list->items[i];
    return all;
}

// Tells whether the samples were disturbed: by the machine's load (record_disturbed) or, for one thread without a
// known load, by time in which it did not run.
static bool processor_time_wanted(const struct record *record)
{
    // Without other load, a thread that did not run waited for something of its own, such as a disk.
    bool told = record->load.given && isfinite(record->load.other_cores);
    bool alone = !told && record->provenance.threads == 1 && record->cpu_ms.count == record->samples_ms.count;
    return record_disturbed(record) || record_perhaps_disturbed(record) ||
           (alone && sum(&record->cpu_ms) < RUNNING_MIN * sum(&record->samples_ms));
}

// --- rounds

// The timed records of BASE, then of NEW, each in order.
struct timed {
    size_t counts[2], all;
    const struct record **records; // [all], to be freed
};

static struct timed timed_of(const struct record_list *const *lists, const struct record *waits)
{
    struct timed timed = {.records = calloc(lists[0]->count + lists[1]->count + 1, sizeof(void *))};
    CHECK(timed.records);
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < lists[side]->count; i++) {
            const struct record *record = lists[side]->records[i];
            bool taken = record->status == RECORD_OK && record->samples_ms.count > 0 &&
                         (!waits || record_waits_alike(record, waits));
            if (taken)
                timed.records[timed.all++] = record;
            timed.counts[side] += taken;
        }
    return timed;
}

static size_t min_count(const struct timed *timed)
{
    return timed->counts[timed->counts[1] < timed->counts[0]];
}

// Keeps the kind of waits with the most rounds on both sides, the latest on ties.
static struct timed timed_alike(const struct record_list *const *lists, const struct timed *all)
{
    struct timed max = timed_of(lists, all->records[all->all - 1]);
    for (size_t i = all->all; i-- > 0;) {
        if (record_waits_alike(all->records[i], max.records[0]))
            continue;
        struct timed alike = timed_of(lists, all->records[i]);
        struct timed *less = min_count(&alike) > min_count(&max) ? &max : &alike;
        free(less->records);
        max = less == &max ? alike : max;
    }
    return max;
}

static const struct number_list *times_of(const struct record *record, bool processor_time)
{
    return processor_time ? &record->cpu_ms : &record->samples_ms;
}

// The median logarithm of draw i over all records, which separates large draws from slow ones; 0: no draws.
static double draw_level(const struct timed *timed, size_t draw, bool processor_time)
{
    double *values = calloc(timed->all + 1, sizeof *values), level = 0;
    CHECK(values);
    size_t count = 0;
    for (size_t i = 0; i < timed->all; i++) {
        const struct number_list *times = times_of(timed->records[i], processor_time);
        if (draw < times->count && draw < timed->records[i]->sample_chunks.count)
            values[count++] = log(times->items[draw]);
    }
    if (count)
        level = sample_quantile(values, count, 0.5);
    free(values);
    return level;
}

// The mean logarithm of the faster half of a record's samples, relative to their draws' levels. Draws without
// chunks take almost no time and would hide the others. NaN: there are no others.
static double time_of(const struct record *record, const struct timed *timed, bool processor_time)
{
    const struct number_list *times = times_of(record, processor_time), *columns = &record->sample_chunks;
    double *logs = calloc(times->count + 1, sizeof *logs), sum = 0;
    CHECK(logs);
    size_t count = 0;
    for (size_t i = 0; i < times->count; i++)
        if (i >= columns->count || columns->items[i] > 0)
            logs[count++] = log(times->items[i]) - draw_level(timed, i, processor_time);
    qsort(logs, count, sizeof *logs, sample_by_value);
    size_t faster = (count + 1) / 2;
    for (size_t i = 0; i < faster; i++)
        sum += logs[i] / (double)faster;
    free(logs);
    return count ? sum : NAN;
}

static bool may_use_processor_time(const struct timed *timed)
{
    bool known = true, wanted = false;
    for (size_t i = 0; i < timed->all; i++) {
        known &= processor_time_known(timed->records[i]);
        wanted |= processor_time_wanted(timed->records[i]);
    }
    return known && wanted;
}

static bool is_numbered(const struct timed *timed)
{
    bool numbered = true;
    for (size_t i = 0; i < timed->all; i++)
        numbered &= timed->records[i]->round >= 1;
    return numbered;
}

// The last unpaired record of NEW in the round of a record of BASE; `all`: none.
static size_t partner_of(const struct timed *timed, const bool *paired, const struct record *base, bool numbered)
{
    for (size_t j = timed->all; j-- > timed->counts[0];)
        if (!paired[j] && (!numbered || timed->records[j]->round == base->round))
            return j;
    return timed->all;
}

static void take(struct round_times *times, const struct timed *timed)
{
    bool numbered = is_numbered(timed), *paired = calloc(timed->all, sizeof *paired);
    size_t max = min_count(timed);
    times->base = calloc(3 * max + 1, sizeof *times->base);
    times->new = times->base + max;
    times->places = times->new + max;
    for (size_t i = timed->counts[0]; i-- > 0;) {
        const struct record *base = timed->records[i];
        size_t partner = partner_of(timed, paired, base, numbered);
        if (partner == timed->all)
            continue;
        paired[partner] = true;
        size_t k = times->rounds++;
        times->base[k] = time_of(base, timed, times->processor_time);
        times->new[k] = time_of(timed->records[partner], timed, times->processor_time);
        times->places[k] = numbered ? base->round - 1 : (double)k;
        if (isnan(times->base[k]))
            times->unusable = "no draw has a chunk";
    }
    if (!times->rounds)
        times->unusable = "no round is in both files";
    free(paired);
}

static uint64_t bit_of(double round)
{
    return (uint64_t)1 << (size_t)fmin(round - 1, 63);
}

static const char *why_unusable(const struct timed *timed)
{
    if (!min_count(timed))
        return "threads waited in another way at barriers (provenance.spin_count)";
    const struct record *before = timed->records[timed->counts[0] - 1], *after = timed->records[timed->all - 1];
    if (!record_same_machine(before, after))
        return "measured on another processor or card, or with another number of threads";
    return rounds_same_draws(before, after) ? NULL : "the samples have other draws of chunks";
}

struct round_times round_times_take(const struct record_list *base, const struct record_list *new, bool clock)
{
    const struct record_list *const lists[] = {base, new};
    struct round_times times = {0};
    struct timed all = timed_of(lists, NULL), alike = {0};
    if (min_count(&all)) {
        alike = timed_alike(lists, &all);
        times.unusable = why_unusable(&alike);
        times.processor_time = !clock && !times.unusable && may_use_processor_time(&alike);
        if (!times.unusable)
            take(&times, &alike);
    } else if (all.all) {
        times.unusable = "one of the two files alone has samples";
    }
    times.left_out = all.all - 2 * times.rounds;
    for (size_t i = 0; is_numbered(&all) && i < all.all; i++)
        times.left_rounds[i >= all.counts[0]] |= bit_of(all.records[i]->round);
    for (size_t side = 0; side < 2; side++)
        for (size_t k = 0; k < times.rounds; k++)
            times.left_rounds[side] &= ~bit_of(times.places[k] + 1);
    free(all.records);
    free(alike.records);
    return times;
}
