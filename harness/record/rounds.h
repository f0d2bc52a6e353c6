// Rounds: a trial that one build measured several times on one machine, as `run --rounds` does, as one record.
#pragma once
#include "harness/record/record.h"

// Whether sample i of both walked the same columns, as far as records tell; also if no columns were drawn.
bool rounds_same_draws(const struct record *a, const struct record *b);
// Whether both are of one revision and one BLAS.
bool rounds_same_build(const struct record *a, const struct record *b);
// Whether both are of one revision, machine and BLAS, with samples, which of draws walked the same ones: samples of
// one step.
bool rounds_belong(const struct record *a, const struct record *b);
// The later record with what `count` earlier rounds, which are one already, and it were measured to take: all their
// samples, and of draws, of which each round walks the same, each sample's mean over the rounds. It borrows all but
// these from the later one, and both must stay: it lists the rounds. Release with rounds_free.
struct record rounds_join(const struct record *earlier, size_t count, const struct record *later);
void rounds_free(struct record *joined);
