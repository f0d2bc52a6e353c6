#include "harness/stats/student_t.h"
#include <math.h>

double student_t_p(double t, size_t freedom)
{
    double angle = atan(fabs(t) / sqrt((double)freedom)), cosine = cos(angle), term, sum = 0;
    if (freedom % 2 == 0) {
        term = sin(angle);
        for (size_t k = 2; k <= freedom; k += 2) {
            sum += term;
            term *= cosine * cosine * (double)(k - 1) / (double)k;
        }
        return 1 - sum;
    }
    term = sin(angle) * cosine;
    for (size_t k = 3; k <= freedom; k += 2) {
        sum += term;
        term *= cosine * cosine * (double)(k - 1) / (double)k;
    }
    return 1 - 2 / acos(-1) * (angle + sum);
}

double student_t_quantile(double p, size_t freedom)
{
    double low = 0, high = 1;
    while (student_t_p(high, freedom) > p)
        high *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(student_t_p(middle, freedom) > p ? &low : &high) = middle;
    }
    return high;
}
