#include "harness/results/gradient_bits.h"
#include <string.h>

const char *const gradient_bits_causes[GRADIENT_BITS_CAUSES] = {"cpu",      "card",  "blas",
                                                                "compiler", "flags", "threads"};

static const char *hash_of(const json_t *object)
{
    return json_string_value(json_object_get(object, "hash"));
}

static bool same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool is_repeatable(const json_t *record)
{
    const json_t *trial = json_object_get(record, "trial");
    return same_text(json_string_value(json_object_get(trial, "device")), "cpu") ||
           json_is_true(json_object_get(trial, "deterministic"));
}

static unsigned long different_causes(const json_t *base, const json_t *new)
{
    const json_t *left = json_object_get(base, "provenance"), *right = json_object_get(new, "provenance");
    unsigned long causes = 0;
    for (size_t i = 0; i < GRADIENT_BITS_CAUSES; i++) {
        const json_t *a = json_object_get(left, gradient_bits_causes[i]);
        const json_t *b = json_object_get(right, gradient_bits_causes[i]);
        if (a != b && !(a && b && json_equal(a, b)))
            causes |= 1UL << i;
    }
    return causes;
}

struct gradient_bits gradient_bits_compare(const json_t *base, const json_t *new)
{
    const json_t *before = json_object_get(base, "gradient"), *after = json_object_get(new, "gradient");
    struct gradient_bits bits = {.known = hash_of(before) && hash_of(after) && is_repeatable(base) &&
                                          is_repeatable(new)};
    if (!bits.known)
        return bits;
    const json_t *before_tensors = json_object_get(before, "tensors");
    const json_t *after_tensors = json_object_get(after, "tensors");
    const char *name;
    json_t *tensor;
    bits.causes = different_causes(base, new);
    bits.tensors = json_object_size(before_tensors);
    json_object_foreach((json_t *)before_tensors, name, tensor)
    {
        if (same_text(hash_of(tensor), hash_of(json_object_get(after_tensors, name))))
            continue;
        bits.first = bits.first ? bits.first : name;
        bits.changed++;
    }
    return bits;
}
