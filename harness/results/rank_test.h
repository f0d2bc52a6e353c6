// Rank test: whether one sample tends to be larger than another, by how much, and how sure that is, without a guess
// at how the values are distributed.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define RANK_TEST_LEVEL 0.05 // of every test; intervals are of level 1 - this

// An estimate and its interval; without one, low and high are infinite.
struct shift {
    double estimate, low, high;
};

struct rank_test {
    double u;           // pairs in which b is the larger, ties counted as half (Mann & Whitney 1947)
    double p;           // two-sided: of a u at least this far from what equal distributions would give
    struct shift shift; // of b against a: the median of all pairwise differences, and the interval of those that
                        // the test does not reject (Hodges & Lehmann 1963)
};

// Both counts > 0, all values finite. p is exact, also with ties, for up to RANK_TEST_EXACT values in all; above
// that it is the normal approximation with continuity and ties corrected. With ties the interval is conservative.
//
// blocks: 1, or both samples consist of so many blocks of equal size, one after the other, and only values of one
// block are measured under one condition. They are to be aligned first: less the mean of their block, of a and b
// together. Ranks are then of all values, and p is that of exchanging values within blocks (Hodges & Lehmann 1962);
// of one value of each sample in a block that is the signed rank test, of which the interval is exact, too.
#define RANK_TEST_EXACT 50
void rank_test(struct rank_test *test, const double *a, size_t a_count, const double *b, size_t b_count,
               size_t blocks);
// The smallest that p can be for two samples of these sizes without ties.
double rank_test_least_p(size_t a_count, size_t b_count, size_t blocks);
// Adjusts p-values of several tests such that the chance of one false alarm in all is the level (Holm 1979).
void rank_test_holm(double *p, size_t count);
// The median and the interval that the sign test gives for it (Thompson 1936); it needs 6 values to have one.
// count > 0.
struct shift sign_test_interval(const double *values, size_t count);
// The value below which the fraction lies, interpolated between neighbours. count > 0.
double sample_quantile(const double *values, size_t count, double fraction);
