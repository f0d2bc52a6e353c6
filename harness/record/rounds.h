// Rounds: joins several measurements of a trial by one build on one machine, as from `run --rounds`, into one
// record.
#pragma once
#include "harness/record/record.h"

// Sets median_ms and, for draws, mean_ms and mean_error_ms, from the samples.
void record_set_times(struct record *record);
// Tells whether sample i of both used the same chunks, as far as recorded; true if none were drawn.
bool rounds_same_draws(const struct record *a, const struct record *b);
// Tells whether both have the same revision and BLAS.
bool rounds_same_build(const struct record *a, const struct record *b);
// Tells whether both have the same revision, machine and BLAS, and samples of the same draws: samples of one step.
bool rounds_belong(const struct record *a, const struct record *b);
// The later record with the values of it and `count` earlier, already joined rounds together, by the rows of
// record_fields.c; each round has the same draws. It borrows everything but the samples from the later one and
// lists the rounds, so both must stay. Release with rounds_free.
struct record rounds_join(const struct record *earlier, size_t count, const struct record *later);
void rounds_free(struct record *joined);
