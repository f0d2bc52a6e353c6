// Tests of harness/compare/time_change.h on cases small enough to be computed by hand: ratios and intervals,
// verdicts, and the number of rounds that would suffice. Its error rates: tests/test_time_noise.c.
#include "harness/compare/time_change.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { TRIALS = 8, ROUNDS = 10 };

// Trials whose times are written in ms; 0 is no more rounds.
struct machine {
    size_t count;
    double base[TRIALS][ROUNDS], new[TRIALS][ROUNDS];
    struct time_trial trials[TRIALS];
};

static size_t take_logs(double *times)
{
    size_t rounds = 0;
    for (; rounds < ROUNDS && times[rounds] > 0; rounds++)
        times[rounds] = log(times[rounds]);
    return rounds;
}

// The method of trial i is "a" in the first half and "b" in the second, context and dtype are the same.
static struct time_change judge(struct machine *machine)
{
    struct time_change change;
    for (size_t i = 0; i < machine->count; i++) {
        struct time_trial *trial = &machine->trials[i];
        trial->groups[0] = 2 * i < machine->count ? "a" : "b";
        trial->groups[1] = "512";
        trial->groups[2] = "f32";
        trial->rounds = take_logs(machine->base[i]);
        assert_int_equal(take_logs(machine->new[i]), trial->rounds);
        trial->base = machine->base[i];
        trial->new = machine->new[i];
    }
    time_change_judge(&change, 0.10, machine->trials, machine->count);
    return change;
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected)))
        fail_msg("expected %.12g, found %.12g", expected, found);
}

static void assert_verdict(enum verdict found, enum verdict expected)
{
    assert_string_equal(verdict_name(found), verdict_name(expected));
}

static void nothing_is_not_judged(void **state)
{
    (void)state;
    struct machine machine = {.count = 2}; // neither was timed
    struct time_change change = judge(&machine);
    assert_verdict(change.verdict, VERDICT_NONE);
    assert_verdict(machine.trials[1].verdict, VERDICT_NONE);
    assert_string_equal(machine.trials[1].reason, "");
    assert_true(change.timed == 0 && change.judged == 0 && change.rounds == 0 && change.rounds_wanted == 0);
    time_change_free(&change);
    machine.count = 0;
    change = judge(&machine);
    assert_verdict(change.verdict, VERDICT_NONE);
    assert_int_equal(change.all.trials, 0);
    time_change_free(&change);
}

// Student's t of 95 % at one degree of freedom is 12.706.
static void one_trial_of_two_rounds(void **state)
{
    (void)state;
    struct machine machine = {.count = 1, .base = {{100, 104}}, .new = {{120, 130}}};
    struct time_change change = judge(&machine);
    double mean = (log(120. / 100) + log(130. / 104)) / 2,
           deviation = (log(130. / 104) - log(120. / 100)) / sqrt(2),
           half = 12.706204736174694 * deviation / sqrt(2);
    assert_near(change.all.ratio.estimate, exp(mean));
    assert_near(change.all.ratio.low, exp(mean - half));
    assert_near(change.all.ratio.high, exp(mean + half));
    assert_verdict(change.all.verdict, VERDICT_UNDECIDED); // from 0.945 on
    // Nothing tells the trial from all. Its fastest rounds would be off by 1.23 times the median of how far the
    // second ones lie above them.
    const struct shift ratio = machine.trials[0].ratio;
    assert_near(change.error, 1.23 * (log(104. / 100) + log(130. / 120)) / 2);
    assert_near(ratio.estimate, exp(mean));
    assert_near(ratio.low, exp(mean - half));
    assert_near(ratio.high, exp(mean + half));
    assert_verdict(machine.trials[0].verdict, VERDICT_UNDECIDED);
    assert_string_equal(machine.trials[0].reason, "the rounds differ too much, or are too few");
    assert_true(change.timed == 1 && change.judged == 1 && change.rounds == 2 && change.group_count == 0);
    // Neither of the two rounds that are not the fastest took 10 % more; Laplace's rule of succession.
    assert_near(change.disturbed, 1. / 4);
    time_change_free(&change);
}

static void one_round_decides_nothing(void **state)
{
    (void)state;
    struct machine machine = {.count = 2, .base = {{100}, {50}}, .new = {{300}, {50}}};
    struct time_change change = judge(&machine);
    for (size_t i = 0; i < 2; i++) {
        assert_verdict(machine.trials[i].verdict, VERDICT_UNDECIDED);
        assert_string_equal(machine.trials[i].reason, "one round");
        assert_true(machine.trials[i].ratio.low == 0 && isinf(machine.trials[i].ratio.high));
    }
    assert_near(machine.trials[0].ratio.estimate, 3);
    assert_verdict(change.all.verdict, VERDICT_UNDECIDED);
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    assert_int_equal(change.rounds_wanted, 3);
    time_change_free(&change);
}

// Disturbances only add time: a trial's minimum times count, and their error is 1.52 times the median of how far
// the second ones lie above them.
static void disturbed_rounds_do_not_count(void **state)
{
    (void)state;
    struct machine machine = {.count = 3,
                              .base = {{100, 150, 103}, {14, 10, 18}, {50, 53, 90}},
                              .new = {{160, 100, 104}, {10.2, 17, 10}, {85, 64, 60}}};
    struct time_change change = judge(&machine);
    assert_false(change.paired);
    assert_near(machine.trials[0].ratio.estimate, 1);
    assert_near(machine.trials[1].ratio.estimate, 1);
    assert_near(machine.trials[2].ratio.estimate, 1.2);
    // The gaps are of 3, 4, 40, 2, 6 and 6.7 %, and six of twelve other rounds took 10 % more than the minimum.
    assert_near(change.error, 1.52 * (log(104. / 100) + log(53. / 50)) / 2);
    assert_near(change.disturbed, 8. / 14);
    // The median of the trials of each round: 1.6, 1.2 and 0.667.
    assert_near(change.all.ratio.estimate, cbrt(1.6 * (64. / 53) * (60. / 90)));
    time_change_free(&change);
}

// All trials lie at `ratio` in `rounds` rounds, without noise: half the interval is t * 0.005.
static struct time_change judge_all_at(double ratio, size_t trials, size_t rounds, struct machine *machine)
{
    *machine = (struct machine){.count = trials};
    for (size_t i = 0; i < trials; i++)
        for (size_t k = 0; k < rounds; k++) {
            machine->base[i][k] = 100;
            machine->new[i][k] = 100 * ratio;
        }
    return judge(machine);
}

static void thresholds(void **state)
{
    (void)state;
    // Student's t is 4.3027 at two degrees of freedom: half the interval is 0.0215 in the logarithm, 2.17 %.
    static const struct {
        double ratio;
        size_t trials, rounds;
        enum verdict all, trial;
    } cases[] = {
        {1, 4, 3, VERDICT_SAME, VERDICT_SAME},
        {1.049, 4, 3, VERDICT_SAME, VERDICT_SAME},
        {1.051, 4, 3, VERDICT_WORSE, VERDICT_WORSE}, // half the threshold, and its trials with it
        {0.953, 4, 3, VERDICT_SAME, VERDICT_SAME},
        {0.952, 4, 3, VERDICT_BETTER, VERDICT_BETTER},
        {1.02, 4, 2, VERDICT_SAME, VERDICT_SAME}, // two rounds: 6.56 %
        {1.04, 4, 2, VERDICT_UNDECIDED, VERDICT_SAME},
        {1.06, 4, 2, VERDICT_UNDECIDED, VERDICT_SAME},
        {1.07, 4, 2, VERDICT_WORSE, VERDICT_WORSE},
        {1.04, 1, 2, VERDICT_SAME, VERDICT_SAME}, // of one trial 15 %
        {1.3, 1, 2, VERDICT_WORSE, VERDICT_WORSE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct machine machine;
        struct time_change change = judge_all_at(cases[i].ratio, cases[i].trials, cases[i].rounds, &machine);
        assert_verdict(change.all.verdict, cases[i].all);
        assert_verdict(machine.trials[0].verdict, cases[i].trial);
        assert_verdict(change.verdict, verdict_worst(cases[i].all, cases[i].trial));
        time_change_free(&change);
    }
}

// Four trials are the same, and the fifth takes `ratio` times as long.
static struct time_change judge_one_at(double ratio, size_t rounds, bool disturbed, enum verdict expected)
{
    struct machine machine = {.count = 5};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < rounds; k++) {
            machine.base[i][k] = disturbed && i == k ? 150 : 100;
            machine.new[i][k] = i == 4 ? 100 * ratio : 100;
        }
    struct time_change change = judge(&machine);
    for (size_t i = 0; i < 4; i++)
        assert_verdict(machine.trials[i].verdict, VERDICT_SAME);
    assert_verdict(machine.trials[4].verdict, expected);
    assert_verdict(change.all.verdict, VERDICT_SAME);
    return change;
}

static void a_trial_stands_out_from_the_others(void **state)
{
    (void)state;
    static const struct {
        double ratio;
        size_t rounds;
        bool disturbed;
        enum verdict expected;
        size_t rounds_wanted;
    } cases[] = {
        // The threshold of one trial is 15 %, 0.1398 in the logarithm, of which 0.02 are nearly as much.
        {1.125, 3, false, VERDICT_SAME, 0},  // 0.1178
        {1.135, 3, false, VERDICT_WORSE, 0}, // 0.1266
        {0.90, 3, false, VERDICT_SAME, 0},
        {0.88, 3, false, VERDICT_BETTER, 0},
        // That chance slowed it in all rounds: 5 (1 / 12)^2 = 0.03, 5 (1 / 12)^3 = 0.003; of the disturbed ones
        // 5 (4 / 22)^3 = 0.03, 5 (4 / 22)^4 = 0.005 and 5 (6 / 42)^5 = 0.0003.
        {2, 2, false, VERDICT_UNDECIDED, 3},
        {2, 3, false, VERDICT_WORSE, 0},
        {2, 3, true, VERDICT_UNDECIDED, 4},
        {2, 5, true, VERDICT_WORSE, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct time_change change =
            judge_one_at(cases[i].ratio, cases[i].rounds, cases[i].disturbed, cases[i].expected);
        assert_int_equal(change.rounds_wanted, cases[i].rounds_wanted);
        time_change_free(&change);
    }
}

// If two of three rounds of every trial are disturbed, 21 / 22 of them in all, no number of rounds would do.
static void a_restless_machine_proves_nothing(void **state)
{
    (void)state;
    struct machine machine = {
        .count = 5,
        .base = {{150, 100, 150}, {100, 150, 150}, {150, 150, 100}, {150, 150, 100}, {150, 150, 100}},
        .new = {{150, 150, 100}, {150, 100, 150}, {100, 150, 150}, {150, 150, 100}, {300, 450, 450}}};
    struct time_change change = judge(&machine);
    assert_false(change.paired);
    assert_near(change.disturbed, 21. / 22);
    assert_near(machine.trials[4].ratio.estimate, 3);
    assert_verdict(machine.trials[4].verdict, VERDICT_UNDECIDED);
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    assert_int_equal(change.rounds_wanted, 0);
    time_change_free(&change);
}

// The machine's speed changes by a half from trial to trial and round to round, for both builds alike: what a
// trial's pairs say is as sure as they are alike. The middle one of each trial's counts.
static void a_changing_speed_is_told_in_pairs(void **state)
{
    (void)state;
    struct machine machine = {
        .count = 3,
        .base = {{100, 120, 140, 160, 180}, {180, 140, 100, 120, 160}, {140, 180, 120, 100, 160}},
        .new = {{101, 122, 140, 161, 150}, {180, 141, 102, 120, 161}, {210, 270, 181, 151, 241}}};
    struct time_change change = judge(&machine);
    assert_true(change.paired);
    assert_near(machine.trials[0].ratio.estimate, 161. / 160);
    assert_near(machine.trials[2].ratio.estimate, 241. / 160);
    // The middle trial's deviations: 0, 0, 0.0001, 0.007 and 0.013; the least error is that of ERROR_LEAST.
    assert_near(change.error, 0.01);
    assert_near(change.disturbed, 2. / 17); // 150 for 180
    assert_verdict(machine.trials[0].verdict, VERDICT_SAME);
    assert_verdict(machine.trials[1].verdict, VERDICT_SAME);
    // Chance slows one of three trials in three and more of five rounds with 4.1 %, in five of nine with 0.6 %.
    assert_verdict(machine.trials[2].verdict, VERDICT_UNDECIDED);
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    assert_int_equal(change.rounds_wanted, 9);
    time_change_free(&change);
}

// 4 % in two rounds may be 11 %, in three it is at most 6.3 %.
static void so_many_rounds_would_do(void **state)
{
    (void)state;
    struct machine machine;
    struct time_change change = judge_all_at(1.04, 4, 2, &machine);
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    assert_int_equal(change.rounds_wanted, 3);
    time_change_free(&change);
}

// A round that fewer than half of the trials have says nothing about all.
static void trials_of_unequal_counts_of_rounds(void **state)
{
    (void)state;
    struct machine machine = {.count = 4,
                              .base = {{100, 100, 100, 100}, {100, 100, 100}, {100, 100, 100}, {100}},
                              .new = {{100, 100, 100, 900}, {100, 100, 100}, {100, 100, 100}, {100}}};
    struct time_change change = judge(&machine);
    assert_int_equal(change.rounds, 4);
    assert_int_equal(change.judged, 4);
    assert_near(change.all.ratio.estimate, 1);
    assert_near(change.all.ratio.high, exp(4.302652729911275 * 0.005)); // of three rounds
    assert_verdict(change.all.verdict, VERDICT_SAME);
    for (size_t i = 0; i < 3; i++)
        assert_verdict(machine.trials[i].verdict, VERDICT_SAME);
    assert_verdict(machine.trials[3].verdict, VERDICT_UNDECIDED);
    assert_string_equal(machine.trials[3].reason, "one round");
    assert_true(isinf(machine.trials[3].ratio.high));
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    time_change_free(&change);
}

static void what_cannot_be_compared_is_undecided(void **state)
{
    (void)state;
    struct machine machine = {.count = 3,
                              .base = {{100, 100, 100}, {0}, {100, 100, 100}},
                              .new = {{100, 100, 100}, {0}, {100, 100, 100}}};
    machine.trials[1].unusable = "measured elsewhere";
    struct time_change change = judge(&machine);
    assert_true(change.timed == 3 && change.judged == 2 && change.all.trials == 2);
    assert_verdict(machine.trials[0].verdict, VERDICT_SAME);
    assert_verdict(machine.trials[1].verdict, VERDICT_UNDECIDED);
    assert_string_equal(machine.trials[1].reason, "measured elsewhere");
    assert_true(isnan(machine.trials[1].ratio.estimate) && isnan(machine.trials[1].ratio.low));
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    assert_int_equal(change.rounds_wanted, 0); // more rounds would not change it
    time_change_free(&change);
    machine.count = 2;
    machine.trials[0].unusable = "measured elsewhere";
    for (size_t i = 0; i < 2; i++)
        machine.base[i][0] = machine.new[i][0] = 0;
    change = judge(&machine);
    assert_true(change.timed == 2 && change.judged == 0);
    assert_verdict(change.verdict, VERDICT_UNDECIDED);
    assert_int_equal(change.rounds_wanted, 0);
    time_change_free(&change);
}

// Methods a and b of four trials each; three of b's take `ratio` times as long, in three rounds.
static void judge_method_at(double ratio, enum verdict expected)
{
    struct machine machine = {.count = 8};
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 3; k++) {
            machine.base[i][k] = 100;
            machine.new[i][k] = i > 4 ? 100 * ratio : 100;
        }
    struct time_change change = judge(&machine);
    assert_int_equal(change.group_count, 2); // context and dtype are those of all
    for (size_t g = 0; g < 2; g++) {
        const struct time_group *group = &change.groups[g];
        assert_string_equal(group->name, g ? "b" : "a");
        assert_true(group->axis == 0 && group->trials == 4);
        double mean = g ? 0.75 * log(ratio) : 0;
        assert_near(group->ratio.estimate, exp(mean));
        assert_near(group->ratio.low, exp(mean - 2 * 0.01 / 2));
        assert_verdict(group->verdict, g ? expected : VERDICT_SAME);
    }
    // A trial that does not stand out by itself is what its group is, unless it is none of what makes it so.
    for (size_t i = 0; i < 8; i++)
        assert_verdict(machine.trials[i].verdict, i > 4 ? expected : VERDICT_SAME);
    assert_verdict(change.verdict, verdict_worst(expected, VERDICT_SAME));
    time_change_free(&change);
}

// All trials are a fifth slower, and in two rounds no group stands out: none is told as undecided beside them.
static void a_group_is_no_better_than_all(void **state)
{
    (void)state;
    struct machine machine = {.count = 8};
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 2; k++) {
            machine.base[i][k] = 100 + 8. * (double)k;
            machine.new[i][k] = machine.base[i][k] * (i < 4 ? 1.12 : 1.4);
        }
    struct time_change change = judge(&machine);
    assert_verdict(change.all.verdict, VERDICT_WORSE);
    assert_int_equal(change.group_count, 2);
    for (size_t g = 0; g < 2; g++)
        assert_verdict(change.groups[g].verdict, VERDICT_WORSE);
    time_change_free(&change);
    // A group that is not slower gets no verdict: each of its trials was disturbed in one of two rounds.
    machine = (struct machine){.count = 8};
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 2; k++) {
            machine.base[i][k] = i % 2 == k ? 130 : 100;
            machine.new[i][k] = machine.base[i][k] * (i < 4 ? 0.99 : 1.4);
        }
    change = judge(&machine);
    assert_verdict(change.all.verdict, VERDICT_WORSE);
    assert_string_equal(change.groups[0].name, "a");
    assert_verdict(change.groups[0].verdict, VERDICT_NONE);
    assert_verdict(change.groups[1].verdict, VERDICT_WORSE);
    time_change_free(&change);
}

// Half of the trials lack the middle round: its median is that of the others.
static void a_round_is_one_of_all_trials(void **state)
{
    (void)state;
    static const double places[] = {0, 2};
    struct machine machine = {.count = 4,
                              .base = {{100, 200}, {100, 200}, {100, 150, 200}, {100, 150, 200}},
                              .new = {{100, 200}, {100, 200}, {100, 180, 200}, {100, 180, 200}}};
    machine.trials[0].places = machine.trials[1].places = places;
    struct time_change change = judge(&machine);
    assert_near(change.all.ratio.estimate, cbrt(1.2));
    assert_int_equal(change.rounds, 3);
    time_change_free(&change);
}

// The threshold of four trials is 12.5 %, 0.1178 in the logarithm; of each alone, 15 %.
static void groups_of_trials(void **state)
{
    (void)state;
    judge_method_at(1.10, VERDICT_SAME);
    judge_method_at(1.12, VERDICT_WORSE);
    judge_method_at(0.89, VERDICT_BETTER);
}

// A trial's ratio is off by 1.23 x 0.0325 = 0.04. A group that is slower by 0.11 lies above the others by 3.9
// errors of two trials, 0.0283, which need four, or by 4.8 errors of three, 0.0231, which need three.
static void a_group_of_two_stands_out_as_a_trial_does(void **state)
{
    (void)state;
    static const enum verdict expected[] = {VERDICT_UNDECIDED, VERDICT_WORSE};
    for (size_t i = 0; i < 2; i++) {
        struct machine machine = {.count = 4 + 2 * i};
        for (size_t t = 0; t < machine.count; t++)
            for (size_t k = 0; k < 2; k++) { // no round is slower for all
                machine.base[t][k] = 100 * exp((t + k) % 2 ? 0.0325 : 0);
                machine.new[t][k] = machine.base[t][k] * exp(2 * t < machine.count ? 0.11 : 0);
            }
        struct time_change change = judge(&machine);
        assert_near(change.error, 1.23 * 0.0325);
        assert_int_equal(change.groups[0].trials, 2 + i);
        assert_verdict(change.groups[0].verdict, expected[i]);
        time_change_free(&change);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_of_two_stands_out_as_a_trial_does),
        cmocka_unit_test(nothing_is_not_judged),
        cmocka_unit_test(one_trial_of_two_rounds),
        cmocka_unit_test(one_round_decides_nothing),
        cmocka_unit_test(disturbed_rounds_do_not_count),
        cmocka_unit_test(thresholds),
        cmocka_unit_test(a_trial_stands_out_from_the_others),
        cmocka_unit_test(a_restless_machine_proves_nothing),
        cmocka_unit_test(a_changing_speed_is_told_in_pairs),
        cmocka_unit_test(so_many_rounds_would_do),
        cmocka_unit_test(trials_of_unequal_counts_of_rounds),
        cmocka_unit_test(what_cannot_be_compared_is_undecided),
        cmocka_unit_test(groups_of_trials),
        cmocka_unit_test(a_group_is_no_better_than_all),
        cmocka_unit_test(a_round_is_one_of_all_trials),
    };
    return cmocka_run_group_tests_name("time_change", tests, NULL, NULL);
}
