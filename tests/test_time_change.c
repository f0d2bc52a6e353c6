// Tests of harness/time_change: each rule on samples made for it.
#include "tests/noisy_machine.h"

// --- trials that draw

// A trial of which sample i takes the time of draw i: `runs` runs of so many draws of one to eight columns. What a
// column costs may differ from base to new; what is paid without one does not.
static struct time_trial draw_trial(struct stream *stream, size_t draws, size_t runs, double noise, double factor,
                                    double *base, double *new)
{
    struct time_run base_runs[RUNS_MAX], new_runs[RUNS_MAX];
    uint64_t first = stream->next;
    for (size_t run = 0; run < runs; run++) {
        base_runs[run] = (struct time_run){base + run * draws, draws};
        new_runs[run] = (struct time_run){new + run *draws, draws};
        for (size_t i = 0; i < draws; i++) {
            double columns = 1 + (double)random_below(&stream->random, first + i, 8);
            base_runs[run].ms[i] = (0.1 + 2 * columns) * exp(noise * normal(stream));
            new_runs[run].ms[i] = (0.1 + 2 * columns * factor) * exp(noise * normal(stream));
        }
    }
    stream->next += draws;
    return (struct time_trial){.base = time_samples_pool(base_runs, runs, true),
                               .new = time_samples_pool(new_runs, runs, true),
                               .groups = {"spaco", "1024", "f32"}};
}

// Draws that differ eightfold scatter, but not their ratios: a build is called the same, and one of which every
// column takes 15 % more is found, from 12 draws of one run and from 5 of three, each time with 8 % of noise.
static void draws_are_compared_one_by_one(void **state)
{
    (void)state;
    static const struct {
        size_t draws, runs;
    } sizes[] = {{12, 1}, {5, 3}, {40, 2}};
    struct stream stream = {.random = random_named(11, "draws")};
    for (size_t k = 0; k < COUNT(sizes); k++) {
        size_t good = 0, slower = 0, tries = 200;
        for (size_t try = 0; try < 2 * tries; try++) {
            double base[RUNS_MAX * SAMPLES_MAX], new[RUNS_MAX * SAMPLES_MAX];
            struct time_trial trial =
                draw_trial(&stream, sizes[k].draws, sizes[k].runs, 0.08, try < tries ? 1 : 1.15, base, new);
            struct time_change change;
            time_change_judge(&change, TIME_THRESHOLD, &trial, 1);
            good += try < tries && change.verdict == TIME_SAME;
            slower += try >= tries && change.verdict == TIME_SLOWER;
            time_change_free(&change);
        }
        print_message("%zu draws, %zu runs: same %zu, slower %zu of %zu\n", sizes[k].draws, sizes[k].runs, good,
                      slower, tries);
        assert_true(good >= 180 && slower >= 180);
    }
}

static void draws_that_cannot_be_compared(void **state)
{
    (void)state;
    struct stream stream = {.random = random_named(12, "few draws")};
    double base[SAMPLES_MAX], new[SAMPLES_MAX];
    struct time_change change;
    for (size_t draws = 5; draws <= 6; draws++) { // 2 / 2^5 > 0.05
        struct time_trial trial = draw_trial(&stream, draws, 1, 0.01, 1.5, base, new);
        time_change_judge(&change, TIME_THRESHOLD, &trial, 1);
        assert_int_equal(trial.judged, draws == 6);
        assert_int_equal(strstr(change.reason, "too few draws") != NULL, draws == 5);
        time_change_free(&change);
    }
    struct time_trial trial = draw_trial(&stream, 10, 1, 0.01, 1, base, new);
    trial.base.draws = 0; // of a build whose samples all walked the first draw
    time_change_judge(&change, TIME_THRESHOLD, &trial, 1);
    assert_non_null(strstr(change.reason, "walked a draw of columns each"));
    time_change_free(&change);
    trial = draw_trial(&stream, 20, 1, 0.5, 1, base, new); // the same draws, which scatter
    time_change_judge(&change, TIME_THRESHOLD, &trial, 1);
    assert_non_null(strstr(trial.reason, "the machine was busy"));
    time_change_free(&change);
}

// --- one rule at a time, on a machine without noise but for a last digit that keeps samples apart

static const struct machine still = {.noise = 0.001};

static struct attempt *still_trial(const struct sweep *sweep)
{
    struct attempt *attempt = malloc(sizeof *attempt);
    struct stream stream = {.random = random_named(7, "still")};
    assert_non_null(attempt);
    measure(attempt, &stream, &still, sweep, NOTHING, 1);
    return attempt;
}

static void slow_down(struct attempt *attempt, size_t trial, double factor)
{
    for (size_t i = 0; i < attempt->trials[trial].new.count; i++)
        attempt->new[trial][i] *= factor;
}

static struct time_change judged(struct attempt *attempt)
{
    struct time_change change;
    time_change_judge(&change, TIME_THRESHOLD, attempt->trials, attempt->count);
    return change;
}

static const struct sweep single = {.methods = 1, .options = 1, .contexts = 1, .samples = 5, .runs = 1};

static void ratio_decides_within_and_beyond_the_threshold(void **state)
{
    (void)state;
    static const struct {
        double factor;
        enum time_verdict verdict;
    } cases[] = {{1, TIME_SAME},        {1.06, TIME_SAME},       {1.08, TIME_SLOWER}, {2, TIME_SLOWER},
                 {1 / 1.06, TIME_SAME}, {1 / 1.08, TIME_FASTER}, {0.1, TIME_FASTER}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct attempt *attempt = still_trial(&single);
        slow_down(attempt, 0, cases[i].factor);
        struct time_change change = judged(attempt);
        assert_int_equal(change.verdict, cases[i].verdict);
        assert_int_equal(attempt->trials[0].verdict, cases[i].verdict);
        assert_int_equal(change.all.regression, cases[i].verdict == TIME_SLOWER);
        assert_true(fabs(attempt->trials[0].ratio.estimate / cases[i].factor - 1) < 0.005);
        assert_string_equal(change.reason, "");
        time_change_free(&change);
        free(attempt);
    }
}

// Three samples of five are slower: so is their median ratio, but not surely.
static void an_interval_that_holds_1_proves_nothing(void **state)
{
    (void)state;
    struct attempt *attempt = still_trial(&single);
    for (size_t i = 0; i < 3; i++)
        attempt->new[0][i] *= 1.2;
    struct time_change change = judged(attempt);
    assert_true(attempt->trials[0].ratio.estimate > 1 + TIME_THRESHOLD && attempt->trials[0].ratio.low <= 1);
    assert_int_equal(attempt->trials[0].verdict, TIME_CANNOT_TELL);
    assert_int_equal(change.verdict, TIME_CANNOT_TELL);
    time_change_free(&change);
    free(attempt);
}

static void few_samples_cannot_tell(void **state)
{
    (void)state;
    for (size_t samples = 0; samples <= 4; samples++) {
        struct sweep sweep = single;
        sweep.samples = samples;
        struct attempt *attempt = still_trial(&sweep);
        slow_down(attempt, 0, 3);
        struct time_change change = judged(attempt);
        assert_int_equal(change.verdict, samples == 0   ? TIME_NOT_MEASURED
                                         : samples <= 3 ? TIME_CANNOT_TELL
                                                        : TIME_SLOWER);
        assert_int_equal(strstr(change.reason, "too few samples") != NULL, samples > 0 && samples <= 3);
        time_change_free(&change);
        free(attempt);
    }
    struct attempt *attempt = still_trial(&single);
    attempt->trials[0].new.count = 0;
    struct time_change change = judged(attempt);
    assert_int_equal(change.verdict, TIME_CANNOT_TELL);
    assert_non_null(strstr(change.reason, "only one of the two files"));
    time_change_free(&change);
    attempt->trials[0].new.count = 5;
    attempt->trials[0].unusable = "another machine";
    change = judged(attempt);
    assert_int_equal(change.verdict, TIME_CANNOT_TELL);
    assert_non_null(strstr(change.reason, "another machine"));
    time_change_free(&change);
    free(attempt);
}

// Among few trials Holm's correction decides: 5 and 5 samples have p 0.0079 at best, enough for 4 trials, and 4 and
// 4 have 0.029, enough for one.
static void few_cells_go_by_corrected_p(void **state)
{
    (void)state;
    for (size_t samples = 4; samples <= 5; samples++) {
        struct sweep sweep = {.methods = 4, .options = 1, .contexts = 1, .samples = samples, .runs = 1};
        struct attempt *attempt = still_trial(&sweep);
        slow_down(attempt, 2, 1.3);
        struct time_change change = judged(attempt);
        assert_false(change.spread_known);
        assert_true(change.shared < 1.01); // one of four is not what three quarters have
        assert_int_equal(change.verdict, samples == 5 ? TIME_SLOWER : TIME_CANNOT_TELL);
        assert_int_equal(attempt->trials[2].regression, samples == 5);
        assert_int_equal(attempt->trials[2].open, samples == 4);
        assert_true(fabs(attempt->trials[2].p_holm - (samples == 5 ? 4 * 2.0 / 252 : 4 * 2.0 / 70)) < 1e-12);
        assert_false(attempt->trials[1].regression || attempt->trials[1].open);
        time_change_free(&change);
        free(attempt);
    }
}

// What all trials share may be the machine's; only what exceeds it is a method's.
static void part_must_stand_out_from_what_is_shared(void **state)
{
    (void)state;
    for (int exceeds = 0; exceeds < 2; exceeds++) {
        struct attempt *attempt = still_trial(&baseline);
        for (size_t i = 0; i < attempt->count; i++) {
            bool seco = strcmp(attempt->trials[i].groups[0], "seco") == 0;
            slow_down(attempt, i, 1.05 * (seco ? exceeds ? 1.1 : 1.04 : 1));
        }
        struct time_change change = judged(attempt);
        assert_true(fabs(change.shared - 1.05) < 0.005);
        assert_int_equal(change.verdict, exceeds ? TIME_SLOWER : TIME_SAME);
        for (size_t i = 0; i < change.group_count; i++) {
            bool seco = strcmp(change.groups[i].name, "seco") == 0;
            assert_int_equal(change.groups[i].verdict, seco ? TIME_SLOWER : TIME_SAME);
            assert_int_equal(change.groups[i].regression, seco && exceeds);
            assert_int_equal(change.groups[i].trials, change.groups[i].axis == 0 ? 8 : 24);
        }
        time_change_free(&change);
        free(attempt);
    }
}

static void others_that_became_faster_make_nobody_slower(void **state)
{
    (void)state;
    struct attempt *attempt = still_trial(&baseline);
    for (size_t i = 0; i < attempt->count; i++)
        slow_down(attempt, i, strcmp(attempt->trials[i].groups[0], "seco") == 0 ? 1 : 0.5);
    struct time_change change = judged(attempt);
    assert_int_equal(change.verdict, TIME_FASTER);
    time_change_free(&change);
    free(attempt);
}

static void single_trial_of_one_run_stays_open(void **state)
{
    (void)state;
    struct sweep sweep = baseline;
    sweep.samples = 10;
    struct attempt *attempt = still_trial(&sweep);
    slow_down(attempt, 5, 1.5);
    for (size_t runs = 1; runs <= 2; runs++) {
        attempt->trials[5].base.runs = 2;
        attempt->trials[5].new.runs = runs;
        struct time_change change = judged(attempt);
        assert_int_equal(change.verdict, runs == 2 ? TIME_SLOWER : TIME_CANNOT_TELL);
        assert_int_equal(strstr(change.reason, "a single trial looks slower") != NULL, runs == 1);
        assert_int_equal(attempt->trials[5].regression, runs == 2);
        assert_int_equal(attempt->trials[5].open, runs == 1);
        assert_false(attempt->trials[4].regression || attempt->trials[4].open);
        time_change_free(&change);
    }
    free(attempt);
}

// One processor time, which would differ by more than the threshold, leaves eight quiet trials as they are; of its
// own it proves less.
static void one_processor_time_hides_no_other_trial(void **state)
{
    (void)state;
    static const struct {
        size_t slower;
        double factor;
        bool regression;
    } cases[] = {{5, 2, true}, {8, 2, true}, {5, 1.2, true}, {8, 1.2, false}};
    struct sweep sweep = {.methods = 3, .options = 3, .contexts = 1, .samples = 10, .runs = 2};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct attempt *attempt = still_trial(&sweep);
        struct time_change change;
        attempt->trials[8].processor_time = true;
        slow_down(attempt, cases[i].slower, cases[i].factor);
        time_change_judge(&change, 0.05, attempt->trials, attempt->count);
        assert_true(change.spread_known && change.spread < 0.05);
        assert_int_equal(change.verdict, cases[i].regression ? TIME_SLOWER : TIME_SAME);
        assert_int_equal(attempt->trials[cases[i].slower].regression, cases[i].regression);
        time_change_free(&change);
        free(attempt);
    }
}

// A trial that is slower in both runs proves something where runs agree, and nothing where one in four is
// disturbed: then chance alone makes three of 48 trials look so.
// What few processor times differ by is assumed, and less of more runs. Times by the clock of a quiet machine prove
// more.
static void few_processor_times_prove_little(void **state)
{
    (void)state;
    static const struct {
        size_t trials, runs;
        double factor;
        enum time_verdict verdict, by_the_clock;
    } cases[] = {{1, 1, 1.4, TIME_CANNOT_TELL, TIME_SLOWER},      {1, 1, 1.6, TIME_SLOWER, TIME_SLOWER},
                 {1, 3, 1.2, TIME_CANNOT_TELL, TIME_SLOWER},      {1, 3, 1.3, TIME_SLOWER, TIME_SLOWER},
                 {1, 12, 1.1, TIME_CANNOT_TELL, TIME_SLOWER},     {1, 12, 1.15, TIME_SLOWER, TIME_SLOWER},
                 {2, 3, 1.15, TIME_CANNOT_TELL, TIME_SLOWER},     {2, 3, 1.2, TIME_SLOWER, TIME_SLOWER},
                 {3, 3, 1.15, TIME_CANNOT_TELL, TIME_SLOWER},     {3, 3, 1.2, TIME_SLOWER, TIME_SLOWER},
                 {3, 3, 1 / 1.15, TIME_CANNOT_TELL, TIME_FASTER}, {3, 3, 1.05, TIME_SAME, TIME_SAME}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sweep sweep = {.methods = 1, .options = cases[i].trials, .contexts = 1, .samples = 10, .runs = 1};
        struct attempt *attempt = still_trial(&sweep);
        for (size_t k = 0; k < attempt->count; k++) {
            attempt->trials[k].base.runs = attempt->trials[k].new.runs = cases[i].runs;
            slow_down(attempt, k, cases[i].factor);
        }
        for (int processor_time = 0; processor_time < 2; processor_time++) {
            for (size_t k = 0; k < attempt->count; k++)
                attempt->trials[k].processor_time = processor_time;
            struct time_change change = judged(attempt);
            assert_int_equal(change.verdict, processor_time ? cases[i].verdict : cases[i].by_the_clock);
            assert_int_equal(strstr(change.reason, "in more rounds") != NULL, change.verdict == TIME_CANNOT_TELL);
            time_change_free(&change);
        }
        free(attempt);
    }
}

// Samples of one process are alike: the interval is that of the rounds' mean log ratio by Student's t. Of three
// rounds whose ratios differ nothing is proven, however many samples they have, of three that agree it is.
static void rounds_that_differ_prove_nothing(void **state)
{
    (void)state;
    static const struct {
        double factors[4];
        size_t rounds;
        double low, high; // of the interval, by 12.706, 4.303 or 3.182 standard errors
        enum time_verdict verdict;
    } cases[] = {{{1, 1.35, 1.25}, 3, 0.8083, 1.7535, TIME_CANNOT_TELL},
                 {{1.19, 1.2, 1.21}, 3, 1.1755, 1.2250, TIME_SLOWER},
                 {{1 / 1.19, 1 / 1.2, 1 / 1.21}, 3, 0.8163, 0.8507, TIME_FASTER},
                 {{1.1, 1.3}, 2, 0.4138, 3.4560, TIME_CANNOT_TELL},
                 {{1.19, 1.21}, 2, 1.0794, 1.3340, TIME_SLOWER},
                 {{1.1, 1.3, 1.2, 1.15}, 4, 1.0584, 1.3273, TIME_SLOWER}};
    struct stream stream = {.random = random_named(8, "rounds")};
    for (size_t i = 0; i < COUNT(cases); i++) {
        double base[40], new[40];
        struct time_run base_runs[4], new_runs[4];
        size_t rounds = cases[i].rounds;
        for (size_t r = 0; r < rounds; r++) {
            base_runs[r] = (struct time_run){base + 10 * r, 10};
            new_runs[r] = (struct time_run){new + 10 * r, 10};
            for (size_t k = 0; k < 10; k++) {
                base_runs[r].ms[k] = (double)(r + 1) * exp(1e-5 * normal(&stream));
                new_runs[r].ms[k] = cases[i].factors[r] * (double)(r + 1) * exp(1e-5 * normal(&stream));
            }
        }
        struct time_trial trial = {.base = time_samples_rounds(base_runs, rounds),
                                   .new = time_samples_rounds(new_runs, rounds),
                                   .groups = {"full", "1024", "f32"},
                                   .processor_time = true};
        struct time_change change;
        time_change_judge(&change, TIME_THRESHOLD, &trial, 1);
        assert_int_equal(change.verdict, cases[i].verdict);
        assert_true(fabs(trial.ratio.low / cases[i].low - 1) < 1e-3);
        assert_true(fabs(trial.ratio.high / cases[i].high - 1) < 1e-3);
        assert_int_equal(trial.p > RANK_TEST_LEVEL, cases[i].verdict == TIME_CANNOT_TELL);
        time_change_free(&change);
    }
}

static void single_trial_that_chance_explains_decides_nothing(void **state)
{
    (void)state;
    struct sweep sweep = baseline;
    sweep.runs = 2;
    sweep.samples = 10;
    struct attempt *attempt = still_trial(&sweep);
    slow_down(attempt, 5, 1.5);
    for (int restless = 0; restless < 2; restless++) {
        for (size_t i = 0; i < attempt->count; i++)
            attempt->trials[i].base.disturbed = (size_t)restless;
        struct time_change change = judged(attempt);
        assert_true(fabs(change.disturbed - 0.25 * restless) < 1e-12);
        assert_true(fabs(change.chance - 48 * 0.0625 * restless) < 1e-12);
        assert_int_equal(change.verdict, restless ? TIME_SAME : TIME_SLOWER);
        assert_int_equal(attempt->trials[5].regression, !restless);
        assert_int_equal(attempt->trials[5].open, restless);
        time_change_free(&change);
    }
    free(attempt);
}

// Five of 48 trials whose samples scatter: whatever the rest says is not to be trusted, if it says anything.
static void busy_machine_proves_nothing(void **state)
{
    (void)state;
    for (size_t scattered = 4; scattered <= 5; scattered++) {
        static const double factors[] = {1, 1.3, 0.7};
        static const enum time_verdict quiet[] = {TIME_SAME, TIME_SLOWER, TIME_FASTER};
        for (size_t k = 0; k < COUNT(factors); k++) {
            struct attempt *attempt = still_trial(&baseline);
            for (size_t i = 0; i < attempt->count; i++)
                slow_down(attempt, i, factors[k]);
            for (size_t i = 0; i < scattered; i++)
                for (size_t j = 0; j < 5; j++)
                    attempt->base[10 + i][j] *= 1 + (double)j;
            struct time_change change = judged(attempt);
            assert_int_equal(change.unsteady, scattered);
            assert_int_equal(change.judged, 48 - scattered);
            assert_int_equal(change.verdict, scattered == 4 || k == 0 ? quiet[k] : TIME_CANNOT_TELL);
            assert_int_equal(strstr(change.reason, "the machine was busy") != NULL, scattered == 5 && k > 0);
            if (scattered == 5)
                for (size_t i = 0; i < attempt->count; i++)
                    assert_false(attempt->trials[i].regression);
            time_change_free(&change);
            free(attempt);
        }
    }
}

// Every other trial 30 % off in one direction or the other: no group is to be trusted.
static void restless_machine_proves_nothing(void **state)
{
    (void)state;
    static const double factors[] = {1, 1.5, 0.6};
    struct stream stream = {.random = random_named(9, "restless")};
    for (size_t k = 0; k < COUNT(factors); k++) {
        struct attempt *attempt = still_trial(&baseline);
        for (size_t i = 0; i < attempt->count; i++)
            slow_down(attempt, i, factors[k] * exp(0.3 * normal(&stream)));
        struct time_change change = judged(attempt);
        assert_true(change.spread > 0.15 && change.spread < 0.5);
        assert_int_equal(change.verdict, TIME_CANNOT_TELL);
        assert_non_null(strstr(change.reason, "the machine drifted"));
        assert_int_equal(strstr(change.reason, "something looks slower, but trials") != NULL, k == 1);
        assert_int_equal(strstr(change.reason, "it looks faster, but trials") != NULL, k == 2);
        assert_false(change.all.regression);
        time_change_free(&change);
        free(attempt);
    }
}

static void no_cells_are_not_measured(void **state)
{
    (void)state;
    struct time_change change;
    time_change_judge(&change, TIME_THRESHOLD, NULL, 0);
    assert_int_equal(change.verdict, TIME_NOT_MEASURED);
    assert_int_equal(change.group_count, 0);
    time_change_free(&change);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_compared_one_by_one),
        cmocka_unit_test(draws_that_cannot_be_compared),
        cmocka_unit_test(ratio_decides_within_and_beyond_the_threshold),
        cmocka_unit_test(an_interval_that_holds_1_proves_nothing),
        cmocka_unit_test(few_samples_cannot_tell),
        cmocka_unit_test(few_cells_go_by_corrected_p),
        cmocka_unit_test(part_must_stand_out_from_what_is_shared),
        cmocka_unit_test(others_that_became_faster_make_nobody_slower),
        cmocka_unit_test(single_trial_of_one_run_stays_open),
        cmocka_unit_test(one_processor_time_hides_no_other_trial),
        cmocka_unit_test(few_processor_times_prove_little),
        cmocka_unit_test(rounds_that_differ_prove_nothing),
        cmocka_unit_test(single_trial_that_chance_explains_decides_nothing),
        cmocka_unit_test(busy_machine_proves_nothing),
        cmocka_unit_test(restless_machine_proves_nothing),
        cmocka_unit_test(no_cells_are_not_measured),
    };
    return cmocka_run_group_tests_name("time_change", tests, NULL, NULL);
}
