#include "harness/compare/processor_time.h"
#include <math.h>

// Of the samples' time, that one thread must have run in.
#define RUNNING_LEAST 0.95

bool processor_time_known(const struct record *record)
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

bool processor_time_wanted(const struct record *record)
{
    // Where it is known that nobody was there, one thread that did not run waited for something of its own: a disk.
    bool told = record->load.given && isfinite(record->load.other_cores);
    bool alone = !told && record->provenance.threads == 1 && record->cpu_ms.count == record->samples_ms.count;
    return record_disturbed(record) || record_perhaps_disturbed(record) ||
           (alone && sum(&record->cpu_ms) < RUNNING_LEAST * sum(&record->samples_ms));
}
