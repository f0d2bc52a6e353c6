// Tests of the predicted order: it equals a comparison of all pairs.
#include "harness/report/prediction_report.h"
#include "kernels/base/random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_MAX 300
#define APART     1.5

static struct predicted_order pair_by_pair(const struct predicted_time *times, size_t count)
{
    struct predicted_order order = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (times[i].measured_ms / times[j].measured_ms >= APART) {
                order.pairs++;
                order.reversed += !(times[i].estimate_ms > times[j].estimate_ms);
            }
    return order;
}

// Few different values, so that many are equal, and some exactly as far apart as counts.
static void every_pair_is_counted(void **state)
{
    (void)state;
    struct random random = random_named(1, "times");
    struct predicted_time times[COUNT_MAX];
    size_t draw = 0, pairs = 0, reversed = 0;
    for (size_t count = 0; count < COUNT_MAX; count += 1 + count / 4) {
        for (size_t i = 0; i < count; i++, draw += 2)
            times[i] = (struct predicted_time){(double)(1 + random_below(&random, draw, 12)),
                                               (double)(1 + random_below(&random, draw + 1, 12))};
        struct predicted_order expected = pair_by_pair(times, count),
                               found = predicted_order_of(times, count, APART);
        assert_int_equal(found.pairs, expected.pairs);
        assert_int_equal(found.reversed, expected.reversed);
        pairs += found.pairs;
        reversed += found.reversed;
    }
    assert_true(reversed > pairs / 4 && reversed < pairs * 3 / 4);
}

static void equal_predictions_are_not_in_order(void **state)
{
    (void)state;
    struct predicted_time times[] = {{3, 5}, {1, 5}, {2, 4}};
    struct predicted_order order = predicted_order_of(times, 3, APART);
    assert_int_equal(order.pairs, 3);
    assert_int_equal(order.reversed, 2); // 2 over 1, predicted 4 and 5; 3 over 1, predicted 5 and 5
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_is_counted),
                                       cmocka_unit_test(equal_predictions_are_not_in_order)};
    return cmocka_run_group_tests_name("predicted_order", tests, NULL, NULL);
}
