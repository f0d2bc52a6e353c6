// Sampler: selects the chunks that SpaCO backpropagates through, and the factors that compensate for the others. t:
// budget, K: chunks. A contribution over p chunks survives only if all p were drawn.
//   uniform     t of K without replacement; factor K / t. Biased towards short chains (Li et al. 2025).
//   bernoulli   each chunk with probability t / K; factor K / t. Unbiased: the draws are independent.
//   sequential  right to left, with probability p = clip(budget left / chunks left, minimum, 1); factor 1 / p.
//               Unbiased for any p > 0 that depends on earlier draws alone, at nearly the fixed cost of uniform.
//   fixed       the given chunks; factor K / t, or with compensation sequential that sampler's factor.
#pragma once
#include "methods/schedule/chunks.h"
#include "methods/spaco_options.h"

struct draw {
    struct index_list chunks; // left to right
    double *loss_factor;      // [chunks.count] s: of the chunk's loss
    double *kv_factor;        // [chunks.count] s': of the gradient arriving at its keys and values
};

// Check that there are no more than DRAWN_CHUNKS_MAX chunks, and that these are of them. Return false and a status.
bool sampler_check_count(struct chunks chunks, struct status *status);
bool sampler_check_chunks(const struct index_list *list, struct chunks chunks, struct status *status);
// The seed of draw `index` of a trial with a draw per step: for draw 0 sampler_seed itself, otherwise a number
// derived from both, at most 2^53, so that it can be given as sampler_seed to repeat the draw.
size_t sampler_seed_of(size_t sampler_seed, size_t index);
// count: number of chunks. The draw depends on options->sampler_seed alone. Release with draw_free.
struct draw sampler_draw(const struct spaco_options *options, size_t count);
void draw_free(struct draw *draw);
// The number of chunks that only one draw in a million exceeds; for uniform and fixed the exact number.
size_t sampler_max_drawn(const struct spaco_options *options, size_t count);
// Probability that chunk i of `count` is drawn if `taken` chunks to its right were.
typedef double sampler_odds(const void *of, size_t count, size_t i, size_t taken);
// The number of chunks that only one draw in a million exceeds, if they are drawn from the right with these odds.
size_t sampler_rarely_exceeded(size_t count, sampler_odds *odds, const void *of);
// Probability that the sampler draws exactly this set (left to right). For fixed: 1 for its own set.
double sampler_probability(const struct spaco_options *options, size_t count, const struct index_list *chunks);
