#include "harness/record/rounds.h"
#include "harness/record/record_json.h"
#include "harness/stats/sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// As far as both lists reach.
static bool begin_alike(const struct number_list *a, const struct number_list *b)
{
    bool same = true;
    for (size_t i = 0; same && i < a->count && i < b->count; i++)
        same = a->items[i] == b->items[i];
    return same;
}

bool rounds_same_draws(const struct record *a, const struct record *b)
{
    return (a->sample_columns.count > 0) == (b->sample_columns.count > 0) &&
           begin_alike(&a->sample_columns, &b->sample_columns) && a->columns.count == b->columns.count &&
           begin_alike(&a->columns, &b->columns);
}

static bool has_samples(const struct record *record)
{
    return record->status == RECORD_OK && record->samples_ms.count > 0;
}

bool rounds_same_build(const struct record *a, const struct record *b)
{
    const struct record_provenance *first = &a->provenance, *second = &b->provenance;
    return strcmp(text_or(first->revision, ""), text_or(second->revision, "")) == 0 &&
           strcmp(text_or(first->blas, ""), text_or(second->blas, "")) == 0;
}

bool rounds_belong(const struct record *a, const struct record *b)
{
    return has_samples(a) && has_samples(b) && record_same_machine(a, b) && rounds_same_draws(a, b) &&
           rounds_same_build(a, b);
}

static struct number_list join_samples(const struct number_list *a, const struct number_list *b)
{
    struct number_list joined = number_list_make(a->count + b->count);
    memcpy(joined.items, a->items, a->count * sizeof *a->items);
    memcpy(joined.items + a->count, b->items, b->count * sizeof *b->items);
    return joined;
}

static struct number_list join_draws(const struct number_list *a, size_t rounds, const struct number_list *b)
{
    struct number_list joined = number_list_make(a->count < b->count ? a->count : b->count);
    for (size_t i = 0; i < joined.count; i++)
        joined.items[i] = ((double)rounds * a->items[i] + b->items[i]) / ((double)rounds + 1);
    return joined;
}

static struct number_list join_lists(const struct number_list *a, size_t rounds, const struct number_list *b,
                                     bool drawn)
{
    if (!a->count || !b->count) // not known of all
        return (struct number_list){0};
    return drawn ? join_draws(a, rounds, b) : join_samples(a, b);
}

static void set_mean(struct record *record)
{
    const struct number_list *samples = &record->samples_ms;
    double sum = 0, squares = 0, count = (double)samples->count;
    for (size_t i = 0; i < samples->count; i++)
        sum += samples->items[i];
    record->mean_ms = sum / count;
    for (size_t i = 0; i < samples->count; i++)
        squares += pow(samples->items[i] - record->mean_ms, 2);
    record->mean_error_ms = sqrt(squares / (count - 1) / count);
}

static double first_of(const struct number_list *list)
{
    return list->count ? list->items[0] : NAN;
}

// Of all rounds the mean.
static void join_number(double *later, double earlier, size_t rounds)
{
    *later = ((double)rounds * earlier + *later) / ((double)rounds + 1);
}

static struct record_rounds join_rounds(const struct record *earlier, const struct record *later)
{
    const struct record_rounds *before = &earlier->rounds;
    size_t count = before->count ? before->count : 1;
    struct record_rounds joined = {count + 1, calloc(count + 1, sizeof *joined.items)};
    CHECK(joined.items);
    memcpy(joined.items, before->count ? before->items : &earlier, count * sizeof *joined.items);
    joined.items[count] = later;
    return joined;
}

struct record rounds_join(const struct record *earlier, size_t count, const struct record *later)
{
    struct record joined = *later;
    bool drawn = later->sample_columns.count > 0;
    joined.samples_ms = join_lists(&earlier->samples_ms, count, &later->samples_ms, drawn);
    joined.cpu_ms = join_lists(&earlier->cpu_ms, count, &later->cpu_ms, drawn);
    joined.slowdown = join_lists(&earlier->slowdown, count, &later->slowdown, drawn);
    joined.median_ms = sample_quantile(joined.samples_ms.items, joined.samples_ms.count, 0.5);
    if (drawn) {
        joined.sample_columns.count = joined.samples_ms.count;
        set_mean(&joined);
    }
    double faster = drawn ? later->mean_ms / joined.mean_ms : later->median_ms / joined.median_ms;
    joined.flops_per_s *= drawn ? first_of(&later->samples_ms) / first_of(&joined.samples_ms) : faster;
    joined.model_flops_per_s *= faster;
    joined.model_flops_share *= faster;
    join_number(&joined.asked_ms, earlier->asked_ms, count);
    join_number(&joined.energy_j, earlier->energy_j, count);
    join_number(&joined.load.before, earlier->load.before, count);
    join_number(&joined.load.other_cores, earlier->load.other_cores, count);
    join_number(&joined.load.stolen_cores, earlier->load.stolen_cores, count);
    join_number(&joined.load.waited_cores, earlier->load.waited_cores, count);
    joined.rounds = join_rounds(earlier, later);
    return joined;
}

void rounds_free(struct record *joined)
{
    free(joined->samples_ms.items);
    free(joined->cpu_ms.items);
    free(joined->slowdown.items);
    free(joined->rounds.items);
}
