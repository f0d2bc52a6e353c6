// What the rules of harness/time_change are for, simulated: on a machine that drifts, two runs of one build must be
// called the same and a slow-down of 15 % be found, each in 19 of 20 tries.
#include "tests/chosen_tests.h"
#include "tests/noisy_machine.h"

struct rates {
    double good, slower; // good: the same or faster, exit 0
};

static struct rates simulate(const char *name, const struct machine *machine, const struct sweep *sweep,
                             enum slowed slowed, double factor)
{
    struct attempt *attempt = malloc(sizeof *attempt);
    struct rates rates = {0, 0};
    const size_t tries = exhaustive() ? 400 : 200;
    struct stream stream = {.random = random_named(1, name)};
    assert_non_null(attempt);
    for (size_t i = 0; i < tries; i++) {
        struct time_change change;
        measure(attempt, &stream, machine, sweep, slowed, factor);
        time_change_judge(&change, TIME_THRESHOLD, attempt->trials, attempt->count);
        rates.good += (change.verdict == TIME_SAME || change.verdict == TIME_FASTER) / (double)tries;
        rates.slower += (change.verdict == TIME_SLOWER) / (double)tries;
        time_change_free(&change);
    }
    free(attempt);
    print_message("%-40s same or faster %5.1f %%, slower %5.1f %%\n", name, 100 * rates.good, 100 * rates.slower);
    return rates;
}

// Neighbours slow a whole run by several percent (two runs differ by 2.8 %), a trial's process by as much again,
// and a sample in thirty is an outlier.
static const struct machine noisy = {.noise = 0.03, .outlier = 0.03, .trial = 0.02, .run = 0.02};
// The same drift between runs, trials and samples closer together.
static const struct machine drifting = {.noise = 0.02, .outlier = 0.03, .trial = 0.01, .run = 0.02};
// A neighbour comes and goes: in one of seven trials' processes every sample takes up to half as long again.
static const struct machine shared = {.noise = 0.03, .outlier = 0.03, .trial = 0.02, .run = 0.02, .hit = 0.15};
static const struct sweep three_rounds = {.methods = 6, .options = 4, .contexts = 2, .samples = 5, .runs = 3};
static const struct sweep default_sweep = {.methods = 4, .options = 2, .contexts = 4, .samples = 5, .runs = 1};
static const struct sweep small = {.methods = 5, .options = 1, .contexts = 2, .samples = 5, .runs = 1};
static const struct sweep one_trial_twice = {.methods = 1, .options = 1, .contexts = 1, .samples = 10, .runs = 2};

static void one_build_is_the_same(void **state)
{
    (void)state;
    assert_true(simulate("48 trials, noisy, nothing", &noisy, &baseline, NOTHING, 1).good >= 0.95);
    assert_true(simulate("32 trials, noisy, nothing", &noisy, &default_sweep, NOTHING, 1).good >= 0.95);
    assert_true(simulate("10 trials, noisy, nothing", &noisy, &small, NOTHING, 1).good >= 0.95);
    assert_true(simulate("48 trials, drifting, nothing", &drifting, &baseline, NOTHING, 1).good >= 0.95);
    assert_true(simulate("10 trials, drifting, nothing", &drifting, &small, NOTHING, 1).good >= 0.95);
    assert_true(simulate("48 trials, shared, three rounds, nothing", &shared, &three_rounds, NOTHING, 1).good >=
                0.95);
    assert_true(simulate("one trial, two runs, nothing", &drifting, &one_trial_twice, NOTHING, 1).good >= 0.95);
}

static void slow_build_is_found(void **state)
{
    (void)state;
    assert_true(simulate("48 trials, noisy, all", &noisy, &baseline, ALL_CELLS, 1.15).slower >= 0.95);
    assert_true(simulate("48 trials, noisy, a method", &noisy, &baseline, ONE_METHOD, 1.15).slower >= 0.95);
    assert_true(simulate("48 trials, noisy, a context", &noisy, &baseline, ONE_CONTEXT, 1.15).slower >= 0.95);
    assert_true(simulate("32 trials, noisy, all", &noisy, &default_sweep, ALL_CELLS, 1.15).slower >= 0.95);
    assert_true(simulate("32 trials, noisy, a method", &noisy, &default_sweep, ONE_METHOD, 1.15).slower >= 0.95);
    assert_true(simulate("32 trials, noisy, a context", &noisy, &default_sweep, ONE_CONTEXT, 1.15).slower >= 0.95);
    assert_true(simulate("48 trials, shared, three rounds, all", &shared, &three_rounds, ALL_CELLS, 1.15).slower >=
                0.95);
    assert_true(
        simulate("48 trials, shared, three rounds, a method", &shared, &three_rounds, ONE_METHOD, 1.15).slower >=
        0.95);
    assert_true(simulate("10 trials, drifting, all", &drifting, &small, ALL_CELLS, 1.15).slower >= 0.95);
    assert_true(simulate("10 trials, drifting, a context", &drifting, &small, ONE_CONTEXT, 1.15).slower >= 0.95);
    assert_true(simulate("one trial, two runs, slower", &drifting, &one_trial_twice, ALL_CELLS, 1.15).slower >=
                0.95);
}

static void single_trial_is_found_in_several_runs(void **state)
{
    (void)state;
    struct sweep sweep = baseline;
    struct rates once = simulate("48 trials, one trial by 40 %, a run", &drifting, &sweep, ONE_CELL, 1.4);
    assert_true(once.good <= 0.05 && once.slower <= 0.05); // cannot tell
    sweep.runs = 3;
    assert_true(simulate("48 trials, one trial by 40 %, three runs", &drifting, &sweep, ONE_CELL, 1.4).slower >=
                0.95);
    assert_true(simulate("48 trials, one trial by 15 %, three runs", &drifting, &sweep, ONE_CELL, 1.15).slower >=
                0.8);
    assert_true(simulate("48 trials, three runs, nothing", &noisy, &sweep, NOTHING, 1).good >= 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_build_is_the_same),
        cmocka_unit_test(slow_build_is_found),
        cmocka_unit_test(single_trial_is_found_in_several_runs),
    };
    return cmocka_run_group_tests_name("time_noise", tests, NULL, NULL);
}
