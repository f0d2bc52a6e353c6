// Tests of harness/stats/sample.h and harness/stats/student_t.h: quantiles by hand, Student's t by its table.
#include "harness/stats/sample.h"
#include "harness/stats/student_t.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define VALUES(...)  ((const double[]){__VA_ARGS__}), COUNT(((const double[]){__VA_ARGS__}))

static void expect_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("expected %.15g, found %.15g", expected, found);
}

static void quantiles_by_hand(void **state)
{
    (void)state;
    expect_near(sample_quantile(VALUES(5, 1, 3), 0.5), 3, 0);
    expect_near(sample_quantile(VALUES(5, 1, 3), 0.25), 2, 0);
    expect_near(sample_quantile(VALUES(5, 1, 3), 0), 1, 0);
    expect_near(sample_quantile(VALUES(5, 1, 3), 1), 5, 0);
    expect_near(sample_quantile(VALUES(4), 0.75), 4, 0);
}

static void students_t_by_its_table(void **state)
{
    (void)state;
    static const struct {
        size_t freedom;
        double t; // of which two-sided 5 % are larger
    } cases[] = {{1, 12.7062}, {2, 4.3027}, {3, 3.1824}, {4, 2.7764}, {9, 2.2622}, {10, 2.2281}, {30, 2.0423}};
    expect_near(student_t_p(-1, 1), 0.5, 1e-15); // Cauchy's distribution
    expect_near(student_t_p(2, 2), 1 - 2 / sqrt(6), 1e-15);
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_near(student_t_quantile(0.05, cases[i].freedom), cases[i].t, 5e-5);
        expect_near(student_t_p(student_t_quantile(0.01, cases[i].freedom), cases[i].freedom), 0.01, 1e-12);
        expect_near(student_t_p(0, cases[i].freedom), 1, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_by_hand),
        cmocka_unit_test(students_t_by_its_table),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
