#include "methods/draws.h"
#include "methods/sampler.h"
#include "methods/schedule/chunks.h"

// Subsets of K chunks as bit masks in increasing order: all of them, or for `uniform` those with t bits.
struct subsets {
    size_t chunks, count; // count is limited to one more than requested
    uint64_t mask, end;
    bool same_size;
};

static size_t choose(size_t n, size_t k, size_t max)
{
    size_t result = k <= n;
    k = k > n - k ? n - k : k;
    for (size_t i = 1; i <= k && result && result <= max; i++)
        result = result * (n - k + i) / i;
    return result <= max ? result : max + 1;
}

static struct subsets subsets_of(size_t chunks, const struct spaco_options *options, size_t max)
{
    struct subsets s = {.chunks = chunks, .same_size = options->sampler == SAMPLER_UNIFORM};
    if (chunks >= 64) {
        s.count = max + 1;
        return s;
    }
    s.end = (uint64_t)1 << chunks;
    if (s.same_size) {
        s.count = choose(chunks, options->budget, max);
        s.mask = ((uint64_t)1 << options->budget) - 1;
    } else if (options->sampler == SAMPLER_FIXED) {
        s.count = 1;
        for (size_t i = 0; i < options->drawn_chunks.count; i++)
            s.mask |= (uint64_t)1 << options->drawn_chunks.items[i];
        s.end = s.mask + 1;
    } else {
        s.count = s.end <= max ? s.end : max + 1;
    }
    return s;
}

static void advance(struct subsets *s)
{
    if (!s->same_size || s->mask == 0) {
        s->mask = s->mask == 0 && s->same_size ? s->end : s->mask + 1;
        return;
    }
    // The next number with as many bits (Gosper; HAKMEM item 175).
    uint64_t lowest = s->mask & -s->mask, ripple = s->mask + lowest;
    s->mask = ripple | ((ripple ^ s->mask) >> 2) / lowest;
}

// Makes `fixed` reproduce the estimate of the sampler in `options` for the subset; returns the subset's
// probability.
static double fix(struct spaco_options *fixed, const struct spaco_options *options, const struct subsets *s)
{
    size_t count = 0;
    index_list_resize(&fixed->drawn_chunks, s->chunks);
    for (size_t i = 0; i < s->chunks; i++)
        if (s->mask >> i & 1)
            fixed->drawn_chunks.items[count++] = (uint32_t)i;
    index_list_resize(&fixed->drawn_chunks, count);
    fixed->sampler = SAMPLER_FIXED;
    if (options->sampler == SAMPLER_SEQUENTIAL)
        fixed->compensation = COMPENSATION_SEQUENTIAL;
    return sampler_probability(options, s->chunks, &fixed->drawn_chunks);
}

bool draws_each(const void *spaco_options, size_t context, size_t max, draw_visit *visit, void *visitor,
                struct status *status)
{
    const struct spaco_options *options = spaco_options;
    struct subsets s = subsets_of(chunks_of(context, options->common.chunk).count, options, max);
    if (s.count > max) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "sampler and budget allow more than %zu sets of %zu chunks; use a larger chunk", max,
                          s.chunks);
    }
    if (options->sampler == SAMPLER_SEQUENTIAL && options->compensation != COMPENSATION_PAPER &&
        options->compensation != COMPENSATION_SEQUENTIAL) {
        return status_set(
            status, STATUS_UNSUPPORTED,
            "a draw of sampler sequential can be repeated only with its own factors (compensation paper)");
    }
    struct spaco_options fixed = *options;
    fixed.drawn_chunks = (struct index_list){0};
    bool going = true;
    for (; going && s.mask < s.end; advance(&s)) {
        double probability = fix(&fixed, options, &s);
        going = probability == 0 || visit(visitor, &fixed, probability);
    }
    index_list_free(&fixed.drawn_chunks);
    return true;
}
