#include "harness/compare/gradient_bits.h"
#include <math.h>
#include <string.h>

const char *const gradient_bits_causes[GRADIENT_BITS_CAUSES] = {
    "data_hash", "model_hash", "columns", "cpu", "card", "blas", "compiler", "flags", "threads"};

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_repeatable(const struct record *record)
{
    return strcmp(record->trial.device, "cpu") == 0 || record->trial.deterministic == 1;
}

static unsigned long different_causes(const struct record *base, const struct record *new)
{
    const struct record_provenance *a = &base->provenance, *b = &new->provenance;
    const bool same[GRADIENT_BITS_CAUSES] = {record_same_data(base, new),
                                             record_same_model(base, new),
                                             !record_other_columns(base, new),
                                             same_text(a->cpu, b->cpu),
                                             same_text(a->card, b->card),
                                             same_text(a->blas, b->blas),
                                             same_text(a->compiler, b->compiler),
                                             same_text(a->flags, b->flags),
                                             a->threads == b->threads || (isnan(a->threads) && isnan(b->threads))};
    unsigned long causes = 0;
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++)
        causes |= same[i] ? 0 : 1UL << i;
    return causes;
}

// The hash of the tensor of that name, most likely at the same place; 0: there is none.
static uint64_t hash_of(const struct record_gradient *gradient, const char *name, size_t place)
{
    const struct record_tensor *tensors = gradient->tensors.items;
    size_t count = gradient->tensors.count;
    for (size_t i = 0; i < count; i++) {
        size_t at = (place + i) % count;
        if (strcmp(gradient->tensors.names[at], name) == 0)
            return tensors[at].hash;
    }
    return 0;
}

struct gradient_bits gradient_bits_compare(const struct record *base, const struct record *new)
{
    const struct record_gradient *before = &base->gradient, *after = &new->gradient;
    struct gradient_bits bits = {.known = before->hash && after->hash && is_repeatable(base) && is_repeatable(new)};
    if (!bits.known)
        return bits;
    const struct record_tensor *tensors = before->tensors.items;
    bits.causes = different_causes(base, new);
    bits.tensors = before->tensors.count;
    for (size_t i = 0; i < bits.tensors; i++) {
        uint64_t hash = tensors[i].hash;
        if (hash && hash == hash_of(after, before->tensors.names[i], i))
            continue;
        bits.first = bits.first ? bits.first : before->tensors.names[i];
        bits.changed++;
    }
    return bits;
}
