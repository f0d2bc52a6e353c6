// Student's t distribution, for the mean of a few random values (Student 1908).
#pragma once
#include <stddef.h>

// Two-sided probability of a |t| at least this large with `freedom` degrees of freedom, > 0. Exact (Abramowitz &
// Stegun 26.7.3 and 26.7.4).
double student_t_p(double t, size_t freedom);
// The t with this probability. 0 < p < 1.
double student_t_quantile(double p, size_t freedom);
