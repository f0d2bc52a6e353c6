// Rounds: a trial that one build measured several times on one machine, as `run --rounds` does, as one record.
#pragma once
#include "harness/record/record.h"

// Sets median_ms and, of draws, mean_ms and mean_error_ms, from the samples.
void record_set_times(struct record *record);
// Whether sample i of both walked the same chunks, as far as records tell; also if no chunks were drawn.
bool rounds_same_draws(const struct record *a, const struct record *b);
// Whether both are of one revision and one BLAS.
bool rounds_same_build(const struct record *a, const struct record *b);
// Whether both are of one revision, machine and BLAS, with samples, which of draws walked the same ones: samples of
// one step.
bool rounds_belong(const struct record *a, const struct record *b);
// The later record with what `count` earlier rounds, which are one already, and it were measured to take: what
// the rows of record_fields.c say of rounds; of draws each round walks the same. It borrows all but the samples
// from the later one, and both must stay: it lists the rounds. Release with rounds_free.
struct record rounds_join(const struct record *earlier, size_t count, const struct record *later);
void rounds_free(struct record *joined);
