#include "harness/compare/comparison.h"
#include <math.h>
#include <string.h>

const char *const gradient_bits_causes[GRADIENT_BITS_CAUSES] = {
    "data_hash", "model_hash", "drawn_chunks", "cpu", "card", "blas", "compiler", "flags", "threads"};

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
                                             !record_other_chunks(base, new),
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

struct gradient_bits gradient_bits_compare(const struct record *base, const struct record *new)
{
    const struct record_parts *tensors = &base->gradient.tensors;
    bool known = base->gradient.hash && new->gradient.hash &&is_repeatable(base) && is_repeatable(new);
    struct gradient_bits bits = {.known = known};
    if (!known)
        return bits;
    bits.causes = different_causes(base, new);
    bits.tensors = tensors->count;
    for (size_t i = 0; i < tensors->count; i++) {
        const struct record_tensor *before = (const struct record_tensor *)tensors->items + i,
                                   *after = record_tensor_find(&new->gradient, tensors->names[i], i);
        if (before->hash && after && before->hash == after->hash)
            continue;
        bits.first = bits.first ? bits.first : tensors->names[i];
        bits.changed++;
    }
    return bits;
}
