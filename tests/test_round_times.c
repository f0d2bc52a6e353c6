// Tests of harness/compare/round_times.h: a trial's time in a round, computed by hand, and the records that are
// rounds.
#include "harness/compare/round_times.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST(...)                                                                                                  \
    {                                                                                                              \
        sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[])                                               \
        {                                                                                                          \
            __VA_ARGS__                                                                                            \
        }                                                                                                          \
    }

#define RECORD(...)                                                                                                \
    &(const struct record)                                                                                         \
    {                                                                                                              \
        __VA_ARGS__                                                                                                \
    }
#define SAMPLES(...) .status = RECORD_OK, .samples_ms = LIST(__VA_ARGS__)
// Two threads that wait by spinning so often.
#define WAITING(spins) .provenance = {.threads = 2, .spin_count = (spins)}

#define TAKE(base, new, clock)                                                                                     \
    round_times_take(&(const struct record_list){.count = sizeof base / sizeof *base, .records = base},            \
                     &(const struct record_list){.count = sizeof new / sizeof *new, .records = new}, clock)

static void assert_ms(double logarithm, double ms)
{
    if (!(fabs(exp(logarithm) - ms) <= 1e-9 * ms))
        fail_msg("expected %.12g ms, found %.12g", ms, exp(logarithm));
}

static void a_round_is_the_faster_half_of_its_samples(void **state)
{
    (void)state;
    const struct record *base[] = {RECORD(SAMPLES(90, 20, 80, 5)), RECORD(SAMPLES(7))},
                        *new[] = {RECORD(SAMPLES(9, 4, 2, 1, 8)), RECORD(SAMPLES(3, 2))};
    struct round_times times = TAKE(base, new, false);
    assert_null(times.unusable);
    assert_false(times.processor_time);
    assert_true(times.rounds == 2 && times.left_out == 0);
    assert_ms(times.base[1], 10); // of 5 and 20 the geometric mean
    assert_ms(times.base[0], 7);
    assert_ms(times.new[1], 2); // of an odd number the middle one, too: 1, 2 and 4
    assert_ms(times.new[0], 2);
    free(times.base);
}

// The last rounds count: of unequal counts so many as the side with fewer has, and none that was not ok or timed.
static void rounds_that_one_side_has_are_left_out(void **state)
{
    (void)state;
    const struct record *base[] = {RECORD(SAMPLES(1)), RECORD(SAMPLES(2)), RECORD(SAMPLES(3))},
                        *new[] = {RECORD(SAMPLES(4)), RECORD(.status = RECORD_OK),
                                  RECORD(.status = RECORD_CRASH, .samples_ms = LIST(5)), RECORD(SAMPLES(6))};
    struct round_times times = TAKE(base, new, false);
    assert_true(times.rounds == 2 && times.left_out == 1);
    assert_ms(times.base[0], 3);
    assert_ms(times.base[1], 2);
    assert_ms(times.new[0], 6);
    assert_ms(times.new[1], 4);
    assert_true(times.places[0] == 0 && times.places[1] == 1); // rounds from the end
    free(times.base);
    const struct record *untimed[] = {RECORD(.status = RECORD_OK)};
    times = TAKE(base, untimed, false);
    assert_string_equal(times.unusable, "one of the two files alone has samples");
    assert_true(times.rounds == 0 && times.left_out == 3 && !times.base);
    times = TAKE(untimed, untimed, false);
    assert_true(times.rounds == 0 && times.left_out == 0 && !times.unusable && !times.base);
}

// By their numbers, whichever side lacks one; the last of several of one number.
static void rounds_are_paired_by_their_numbers(void **state)
{
    (void)state;
#define NUMBERED(number, ms) RECORD(SAMPLES(ms), .round = number)
    const struct record *base[] = {NUMBERED(1, 10), NUMBERED(2, 20), NUMBERED(3, 30)},
                        *last[] = {NUMBERED(1, 11), NUMBERED(2, 21)},
                        *middle[] = {NUMBERED(1, 11), NUMBERED(3, 31), NUMBERED(3, 32)},
                        *other[] = {NUMBERED(70, 40)}, *some[] = {NUMBERED(1, 11), RECORD(SAMPLES(12))};
    struct round_times times = TAKE(base, last, false);
    assert_true(times.rounds == 2 && times.left_out == 1);
    assert_true(times.left_rounds[0] == 4 && times.left_rounds[1] == 0);
    for (size_t k = 0; k < 2; k++) {
        assert_ms(times.base[k], 20 - 10. * (double)k);
        assert_ms(times.new[k], 21 - 10. * (double)k);
        assert_true(times.places[k] == 1 - (double)k);
    }
    free(times.base);
    times = TAKE(base, middle, false);
    assert_true(times.rounds == 2 && times.left_out == 2 && times.places[0] == 2);
    assert_true(times.left_rounds[0] == 2 && times.left_rounds[1] == 0);
    assert_ms(times.base[0], 30);
    assert_ms(times.new[0], 32);
    free(times.base);
    times = TAKE(base, other, false);
    assert_string_equal(times.unusable, "no round is in both files");
    assert_true(times.rounds == 0 && times.left_rounds[1] == (uint64_t)1 << 63);
    free(times.base);
    times = TAKE(base, some, false); // from the end, as if none had a number
    assert_true(times.rounds == 2 && times.left_rounds[0] == 0 && times.left_rounds[1] == 0);
    assert_ms(times.base[1], 20);
    assert_ms(times.new[1], 11);
    free(times.base);
}

// Sample i is divided by the median of draw i over both builds: 10, 100 and 1000 ms here.
static void samples_are_held_against_their_draws(void **state)
{
    (void)state;
#define DRAWS(...) .sample_chunks = LIST(__VA_ARGS__)
    const struct record *base[] = {RECORD(SAMPLES(10, 100, 900), DRAWS(1, 2, 4)),
                                   RECORD(SAMPLES(10, 100, 1000), DRAWS(1, 2, 4))},
                        *new[] = {RECORD(SAMPLES(12, 110, 1000), DRAWS(1, 2, 4)),
                                  RECORD(SAMPLES(10, 100, 1300), DRAWS(1, 2, 4))};
    struct round_times times = TAKE(base, new, false);
    assert_null(times.unusable);
    assert_ms(times.base[1], sqrt(0.9 * 1)); // of 1, 1 and 0.9
    assert_ms(times.base[0], 1);
    assert_ms(times.new[1], sqrt(1 * 1.1)); // of 1.2, 1.1 and 1
    assert_ms(times.new[0], 1);
    free(times.base);
    // A draw of no chunk takes next to no time.
    const struct record *empty[] = {RECORD(SAMPLES(1, 50), DRAWS(0, 3)), RECORD(SAMPLES(3, 70), DRAWS(0, 3))};
    times = TAKE(empty, empty, false);
    assert_null(times.unusable);
    assert_ms(times.base[1], 50 / sqrt(50 * 70));
    assert_ms(times.new[0], 70 / sqrt(50 * 70));
    free(times.base);
    const struct record *none[] = {RECORD(SAMPLES(1, 2), DRAWS(0, 0))};
    times = TAKE(none, none, false);
    assert_string_equal(times.unusable, "no draw has a chunk");
    free(times.base);
    times = TAKE(base, empty, false);
    assert_string_equal(times.unusable, "the samples have other draws of chunks");
    assert_true(times.rounds == 0 && times.left_out == 4);
}

static void times_of_another_machine_are_unusable(void **state)
{
    (void)state;
    const struct record *base[] = {RECORD(SAMPLES(1), .provenance = {.cpu = "A", .threads = 1})},
                        *new[] = {RECORD(SAMPLES(1), .provenance = {.cpu = "B", .threads = 1})},
                        *threads[] = {RECORD(SAMPLES(1), .provenance = {.cpu = "A", .threads = 2})};
    static const char reason[] = "measured on another processor or card, or with another number of threads";
    struct round_times times = TAKE(base, new, false);
    assert_string_equal(times.unusable, reason);
    assert_true(times.rounds == 0 && times.left_out == 2 && !times.base);
    assert_string_equal(TAKE(base, threads, false).unusable, reason);
}

// Processor times stand in for samples that were disturbed, where every record of both sides has them.
static void processor_times_stand_in_for_disturbed_samples(void **state)
{
    (void)state;
#define ALONE     .provenance = {.threads = 1 }
#define CPU(...)  .cpu_ms = LIST(__VA_ARGS__)
#define DISTURBED .load = {.given = true, .cores = 2, .other_cores = 2, .stolen_cores = 0, .waited_cores = NAN}
#define QUIET     .load = {.given = true, .cores = 2, .other_cores = 0, .stolen_cores = 0, .waited_cores = NAN}
    const struct record *quiet[] = {RECORD(SAMPLES(11), CPU(10), QUIET, ALONE),
                                    RECORD(SAMPLES(13), CPU(12), QUIET, ALONE)},
                        *disturbed[] = {RECORD(SAMPLES(11), CPU(10), QUIET, ALONE),
                                        RECORD(SAMPLES(40), CPU(12), DISTURBED, ALONE)},
                        *unknown[] = {RECORD(SAMPLES(11), QUIET, ALONE),
                                      RECORD(SAMPLES(40), CPU(12), DISTURBED, ALONE)};
    struct round_times times = TAKE(quiet, disturbed, false);
    assert_true(times.processor_time);
    assert_ms(times.base[1], 10);
    assert_ms(times.new[0], 12);
    free(times.base);
    times = TAKE(quiet, disturbed, true); // by the clock
    assert_false(times.processor_time);
    assert_ms(times.new[0], 40);
    free(times.base);
    times = TAKE(quiet, quiet, false);
    assert_false(times.processor_time);
    assert_ms(times.base[1], 11);
    free(times.base);
    times = TAKE(unknown, disturbed, false);
    assert_false(times.processor_time);
    assert_ms(times.new[0], 40);
    free(times.base);
    // Several threads may wait for each other, where none spins.
    const struct record *two[] = {RECORD(SAMPLES(40), CPU(20), DISTURBED, WAITING(0))},
                        *spinning[] = {RECORD(SAMPLES(40), CPU(20), DISTURBED, WAITING(5000))};
    times = TAKE(two, two, false);
    assert_true(times.processor_time);
    free(times.base);
    times = TAKE(spinning, spinning, false);
    assert_false(times.processor_time);
    free(times.base);
}

// The way to wait at barriers that both sides have most rounds of counts, the latest of equals.
static void rounds_wait_alike(void **state)
{
    (void)state;
    const struct record *base[] = {RECORD(SAMPLES(1), WAITING(0)), RECORD(SAMPLES(2), WAITING(5000)),
                                   RECORD(SAMPLES(3), WAITING(0))},
                        *new[] = {RECORD(SAMPLES(4), WAITING(0)), RECORD(SAMPLES(5), WAITING(0)),
                                  RECORD(SAMPLES(6), WAITING(5000))};
    struct round_times times = TAKE(base, new, false);
    assert_null(times.unusable);
    assert_true(times.rounds == 2 && times.left_out == 2);
    assert_ms(times.base[0], 3);
    assert_ms(times.new[0], 5);
    free(times.base);
    const struct record *either[] = {RECORD(SAMPLES(7), WAITING(0)), RECORD(SAMPLES(8), WAITING(5000))};
    times = TAKE(base, either, false);
    assert_true(times.rounds == 1 && times.left_out == 3);
    assert_ms(times.base[0], 2);
    assert_ms(times.new[0], 8);
    free(times.base);
    const struct record *slept[] = {RECORD(SAMPLES(1), WAITING(0))}, *spun[] = {RECORD(SAMPLES(1), WAITING(5000))},
                        *unsaid[] = {RECORD(SAMPLES(9), WAITING(NAN))};
    times = TAKE(slept, spun, false);
    assert_string_equal(times.unusable, "threads waited in another way at barriers (provenance.spin_count)");
    assert_int_equal(times.left_out, 2);
    times = TAKE(slept, unsaid, false);
    assert_null(times.unusable);
    free(times.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_the_faster_half_of_its_samples),
        cmocka_unit_test(rounds_that_one_side_has_are_left_out),
        cmocka_unit_test(rounds_are_paired_by_their_numbers),
        cmocka_unit_test(samples_are_held_against_their_draws),
        cmocka_unit_test(times_of_another_machine_are_unusable),
        cmocka_unit_test(processor_times_stand_in_for_disturbed_samples),
        cmocka_unit_test(rounds_wait_alike),
    };
    return cmocka_run_group_tests_name("round_times", tests, NULL, NULL);
}
