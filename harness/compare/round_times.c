#include "harness/compare/round_times.h"
#include "harness/results/processor_time.h"
#include "harness/results/rounds.h"
#include "harness/results/sample.h"
#include <math.h>
#include <stdlib.h>

// The records of one side that are timed alike, in their order.
struct timed {
    size_t count;
    const struct record **records; // [count], to be freed
};

static bool is_timed(const struct record *record)
{
    return record->status == RECORD_OK && record->samples_ms.count > 0;
}

static struct timed timed_of(const struct record_list *list, const struct record *waits)
{
    struct timed timed = {.records = calloc(list->count + 1, sizeof(void *))};
    CHECK(timed.records);
    for (size_t i = 0; i < list->count; i++)
        if (is_timed(list->records[i]) && (!waits || record_waits_alike(list->records[i], waits)))
            timed.records[timed.count++] = list->records[i];
    return timed;
}

// The last `rounds` of them.
static const struct record *const *last(const struct timed *timed, size_t rounds)
{
    return timed->records + (timed->count - rounds);
}

// The way in which threads waited that both sides have most rounds of, the latest of equals.
static const struct record *most_common_waits(const struct record_list *base, const struct timed *all)
{
    const struct record *most = all->records[all->count - 1];
    size_t rounds = 0;
    for (size_t i = all->count; i-- > 0;) {
        struct timed a = timed_of(base, all->records[i]);
        size_t b = 0;
        for (size_t j = 0; j < all->count; j++)
            b += record_waits_alike(all->records[j], all->records[i]);
        size_t both = a.count < b ? a.count : b;
        if (both > rounds) {
            rounds = both;
            most = all->records[i];
        }
        free(a.records);
    }
    return most;
}

// A draw of no column takes next to no time: held against the same one, it would only hide what the others show.
static bool counts(const struct record *record, size_t sample)
{
    return sample >= record->sample_columns.count || record->sample_columns.items[sample] > 0;
}

static const struct number_list *times_of(const struct record *record, bool processor_time)
{
    return processor_time ? &record->cpu_ms : &record->samples_ms;
}

// The median over all records of the logarithm of draw i, which tells a large draw from a slow one.
static double draw_level(const struct timed *base, const struct timed *new, size_t draw, bool processor_time)
{
    double *values = calloc(base->count + new->count + 1, sizeof *values);
    CHECK(values);
    size_t count = 0;
    const struct timed *const sides[] = {base, new};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->count; i++) {
            const struct number_list *times = times_of(sides[s]->records[i], processor_time);
            if (draw < times->count)
                values[count++] = log(times->items[draw]);
        }
    double level = count ? sample_quantile(values, count, 0.5) : 0;
    free(values);
    return level;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The mean logarithm of the faster half of a record's samples, without their draws' levels: [count], 0 of no draws.
static double time_of(const struct record *record, const double *levels, bool processor_time)
{
    const struct number_list *times = times_of(record, processor_time);
    double *logs = calloc(times->count + 1, sizeof *logs), sum = 0;
    CHECK(logs);
    size_t count = 0;
    for (size_t i = 0; i < times->count; i++)
        if (counts(record, i))
            logs[count++] = log(times->items[i]) - levels[i];
    qsort(logs, count, sizeof *logs, by_value);
    size_t faster = (count + 1) / 2;
    for (size_t i = 0; i < faster; i++)
        sum += logs[i];
    free(logs);
    return faster ? sum / (double)faster : NAN;
}

static size_t most_samples(const struct timed *base, const struct timed *new)
{
    size_t most = 0;
    const struct timed *const sides[] = {base, new};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->count; i++) {
            size_t count = sides[s]->records[i]->samples_ms.count;
            most = count > most ? count : most;
        }
    return most;
}

static bool may_use_processor_time(const struct timed *base, const struct timed *new)
{
    bool known = true, wanted = false;
    const struct timed *const sides[] = {base, new};
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->count; i++) {
            known &= processor_time_known(sides[s]->records[i]);
            wanted |= processor_time_wanted(sides[s]->records[i]);
        }
    return known && wanted;
}

static void take(struct round_times *times, const struct timed *base, const struct timed *new)
{
    bool drawn = new->records[new->count - 1]->sample_columns.count > 0;
    size_t samples = most_samples(base, new), rounds = base->count < new->count ? base->count : new->count;
    double *levels = calloc(samples + 1, sizeof *levels);
    times->base = calloc(2 * rounds + 1, sizeof *times->base);
    CHECK(levels && times->base);
    for (size_t i = 0; drawn && i < samples; i++)
        levels[i] = draw_level(base, new, i, times->processor_time);
    times->rounds = rounds;
    times->new = times->base + rounds;
    for (size_t k = 0; k < rounds; k++) {
        times->base[k] = time_of(last(base, rounds)[k], levels, times->processor_time);
        times->new[k] = time_of(last(new, rounds)[k], levels, times->processor_time);
        if (isnan(times->base[k]) || isnan(times->new[k]))
            times->unusable = "no draw has a column";
    }
    free(levels);
}

static const char *why_unusable(const struct timed *base, const struct timed *new)
{
    const struct record *before = base->records[base->count - 1], *after = new->records[new->count - 1];
    if (!record_same_machine(before, after))
        return "measured on another processor or card, or with another number of threads";
    return rounds_same_draws(before, after) ? NULL : "the samples are of other draws of columns";
}

struct round_times round_times_take(const struct record_list *base, const struct record_list *new, bool clock)
{
    struct round_times times = {0};
    struct timed before = timed_of(base, NULL), after = timed_of(new, NULL);
    size_t all = before.count + after.count;
    if (before.count && after.count) {
        const struct record *waits = most_common_waits(base, &after);
        free(before.records);
        free(after.records);
        before = timed_of(base, waits);
        after = timed_of(new, waits);
        times.unusable = before.count && after.count ? why_unusable(&before, &after)
                                                     : "threads waited in another way at barriers "
                                                       "(provenance.spin_count)";
        times.processor_time = !clock && !times.unusable && may_use_processor_time(&before, &after);
        if (!times.unusable)
            take(&times, &before, &after);
    } else if (all) {
        times.unusable = "one of the two files alone has samples";
    }
    times.left_out = all - 2 * times.rounds;
    free(before.records);
    free(after.records);
    return times;
}

bool round_times_wait(const struct round_times *times, const struct record_list *new)
{
    return times->processor_time && record_list_last(new)->provenance.threads != 1;
}
