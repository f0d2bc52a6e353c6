// Tests of harness/stats/sample.h: quantiles by hand, Student's t by its table.
#include "harness/stats/sample.h"
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
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t count = cases[i].freedom + 1;
        struct sample_mean mean = {.deviation = sqrt((double)count)}; // of a standard error of 1
        expect_near(sample_half_interval(mean, count, 0), cases[i].t, 5e-5);
        expect_near(sample_half_interval(mean, count, 2), 2 * cases[i].t, 1e-4);
    }
    assert_true(isinf(sample_half_interval((struct sample_mean){.deviation = 1}, 1, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_by_hand),
        cmocka_unit_test(students_t_by_its_table),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
