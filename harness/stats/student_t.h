// Student's t: how far the mean of a few values that differ by chance is off (Student 1908).
#pragma once
#include <stddef.h>

// Two-sided: of a |t| at least this large with so many degrees of freedom, > 0. Exact (Abramowitz & Stegun 26.7.3
// and 26.7.4).
double student_t_p(double t, size_t freedom);
// The t of which that is p. 0 < p < 1.
double student_t_quantile(double p, size_t freedom);
