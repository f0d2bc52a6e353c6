#include "harness/record/rounds.h"
#include "harness/record/record_json.h"
#include "harness/stats/sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Compares as far as both lists reach.
static bool begin_alike(const struct number_list *a, const struct number_list *b)
{
    bool same = true;
    for (size_t i = 0; same && i < a->count && i < b->count; i++)
        same = a->items[i] == b->items[i];
    return same;
}

bool rounds_same_draws(const struct record *a, const struct record *b)
{
    return (a->sample_chunks.count > 0) == (b->sample_chunks.count > 0) &&
           begin_alike(&a->sample_chunks, &b->sample_chunks) && a->drawn_chunks.count == b->drawn_chunks.count &&
           begin_alike(&a->drawn_chunks, &b->drawn_chunks) && a->skipped_chunks.count == b->skipped_chunks.count &&
           begin_alike(&a->skipped_chunks, &b->skipped_chunks);
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
    if (!a->count || !b->count) // unknown in one
        return (struct number_list){0};
    return drawn ? join_draws(a, rounds, b) : join_samples(a, b);
}

void record_set_times(struct record *record)
{
    const struct number_list *samples = &record->samples_ms;
    double sum = 0, squares = 0, count = (double)samples->count;
    record->median_ms = samples->count ? sample_quantile(samples->items, samples->count, 0.5) : NAN;
    if (!samples->count || !record->sample_chunks.count)
        return;
    for (size_t i = 0; i < samples->count; i++)
        sum += samples->items[i];
    record->mean_ms = sum / count;
    for (size_t i = 0; i < samples->count; i++)
        squares += (samples->items[i] - record->mean_ms) * (samples->items[i] - record->mean_ms);
    record->mean_error_ms = sqrt(squares / (count - 1) / count);
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

struct joining {
    size_t count;        // of earlier rounds
    bool drawn, samples; // samples: joins only these, else all others
    double faster,
        first_faster; // factors by which all rounds together, and draw 0, are faster than the later round
};

// Joins fields of the record, or of an object in it; `joined` has the later round's values.
static void join_fields(const struct joining *joining, const struct record_field *fields, const void *earlier,
                        const void *later, void *joined)
{
    double count = (double)joining->count;
    for (const struct record_field *field = fields; field->name; field++) {
        const void *before = (const char *)earlier + field->offset, *after = (const char *)later + field->offset;
        void *to = (char *)joined + field->offset;
        if (field->type == FIELD_OBJECT && field->members && !field->absent)
            join_fields(joining, field->members, before, after, to);
        if (joining->samples != (field->rounds == ROUNDS_SAMPLES))
            continue;
        if (field->rounds == ROUNDS_SAMPLES)
            *(struct number_list *)to = join_lists(before, joining->count, after, joining->drawn);
        else if (field->rounds == ROUNDS_MEAN)
            *(double *)to = (count * *(const double *)before + *(const double *)after) / (count + 1);
        else if (field->rounds == ROUNDS_RATE)
            *(double *)to *= joining->faster;
        else if (field->rounds == ROUNDS_DRAW_RATE)
            *(double *)to *= joining->first_faster;
    }
}

struct record rounds_join(const struct record *earlier, size_t count, const struct record *later)
{
    struct record joined = *later;
    struct joining joining = {.count = count, .drawn = later->sample_chunks.count > 0, .samples = true};
    join_fields(&joining, record_fields, earlier, later, &joined);
    if (joining.drawn)
        joined.sample_chunks.count = joined.samples_ms.count;
    record_set_times(&joined);
    joining.faster = joining.drawn ? later->mean_ms / joined.mean_ms : later->median_ms / joined.median_ms;
    joining.first_faster = joining.drawn ? later->samples_ms.items[0] / joined.samples_ms.items[0] : joining.faster;
    joining.samples = false;
    join_fields(&joining, record_fields, earlier, later, &joined);
    joined.rounds = join_rounds(earlier, later);
    return joined;
}

void rounds_free(struct record *joined)
{
    for (const struct record_field *field = record_fields; field->name; field++)
        if (field->rounds == ROUNDS_SAMPLES)
            free(((struct number_list *)(void *)((char *)joined + field->offset))->items);
    free(joined->rounds.items);
}
