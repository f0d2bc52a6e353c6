// Tests of harness/time_samples: which samples of several runs count.
#include "harness/results/time_samples.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void faster_half_of_several_runs_counts(void **state)
{
    (void)state;
    double ms[] = {5, 1, 2, 9, 3, 4, 8, 7, 6};
    struct time_run one[] = {{ms, 9}}, three[] = {{ms, 3}, {ms + 3, 3}, {ms + 6, 3}},
                    two[] = {{ms, 1}, {ms + 1, 2}};
    struct time_samples samples = time_samples_pool(one, 1, false);
    assert_true(samples.count == 9 && samples.taken == 9 && samples.runs == 1 && samples.disturbed == 0);
    assert_true(samples.ms == ms && ms[0] == 5);  // as they were taken
    samples = time_samples_pool(three, 3, false); // medians 2, 4 and 7
    assert_true(samples.count == 5 && samples.taken == 9 && samples.runs == 3 && samples.disturbed == 2);
    for (size_t i = 0; i < samples.count; i++)
        assert_true(samples.ms[i] == (double)i + 1);
    samples = time_samples_pool(two, 2, false); // too few to leave any out
    assert_true(samples.count == 3 && samples.taken == 3 && samples.disturbed == 1);
    samples = time_samples_pool(NULL, 0, false);
    assert_true(samples.count == 0 && samples.runs == 0 && samples.disturbed == 0);
}

// In rounds all count, as they were taken, but no more of one than of the shortest.
static void samples_stay_in_their_rounds(void **state)
{
    (void)state;
    double ms[] = {5, 1, 2, 9, 3, 8, 7};
    struct time_run runs[] = {{ms, 3}, {ms + 3, 2}, {ms + 5, 2}};
    static const double kept[] = {5, 1, 9, 3, 8, 7};
    struct time_samples samples = time_samples_rounds(runs, 3);
    assert_true(samples.count == 6 && samples.taken == 7 && samples.runs == 3 && samples.rounds == 3);
    assert_int_equal(samples.disturbed, 2); // medians 2, 6 and 7.5
    for (size_t i = 0; i < COUNT(kept); i++)
        assert_true(samples.ms[i] == kept[i]);
    assert_true(time_samples_middle(samples) == 6);
}

// Five draws of 1, 8, 0.1, 4 and 6 ms in three runs, of which the second was slowed and the third is cut short.
static void faster_half_of_each_draw_counts(void **state)
{
    (void)state;
    double ms[] = {1, 8, 0.1, 4, 6, 1.2, 9.6, 0.12, 4.8, 7.2, 1.1, 8.1, 0.09, 4.1}, alone[] = {1, 8, 0.1, 4, 6};
    static const double kept[] = {1, 1.1, 8, 8.1, 0.09, 0.1, 4, 4.1};
    struct time_run three[] = {{ms, 5}, {ms + 5, 5}, {ms + 10, 4}}, one[] = {{alone, 5}};
    struct time_samples samples = time_samples_pool(three, 3, true);
    assert_true(samples.count == 8 && samples.draws == 4 && samples.taken == 14 && samples.runs == 3);
    assert_int_equal(samples.disturbed, 1);
    for (size_t i = 0; i < COUNT(kept); i++)
        assert_true(samples.ms[i] == kept[i]);
    assert_true(fabs(time_samples_middle(samples) - 26.49 / 8) < 1e-12); // the mean, not the median
    struct time_samples single = time_samples_pool(one, 1, true);
    assert_true(single.count == 5 && single.draws == 5 && single.ms == alone && single.disturbed == 0);
    time_samples_match(&samples, &single);
    assert_true(single.count == 4 && single.draws == 4 && samples.count == 8);
    assert_true(fabs(time_samples_middle(single) - 13.1 / 4) < 1e-12);
    struct time_samples plain = time_samples_pool(one, 1, false);
    time_samples_match(&samples, &plain);
    assert_true(samples.draws == 4 && plain.count == 5 && time_samples_middle(plain) == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_half_of_several_runs_counts),
        cmocka_unit_test(samples_stay_in_their_rounds),
        cmocka_unit_test(faster_half_of_each_draw_counts),
    };
    return cmocka_run_group_tests_name("time_samples", tests, NULL, NULL);
}
