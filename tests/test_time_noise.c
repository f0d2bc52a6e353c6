// The rule of time (harness/compare/time_change.h) on simulated machines: how often two runs of one build are
// called the same, and how often a slow-down passes as the same. 12 trials, a thousand pairs of each kind.
#include "harness/compare/round_times.h"
#include "harness/compare/time_change.h"
#include "kernels/base/random.h"
#include "tests/chosen_tests.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TRIALS      12
#define ROUNDS_MAX  5
#define SAMPLES_MAX 10
#define NOISE       0.05 // standard deviation of a sample's logarithm

struct machine {
    const char *name;
    double sample; // share of samples that take 1.3 times as long
    double round;  // standard deviation of what a round does to the trials of both builds
    double record; // share of a trial's rounds that take 1.25 times as long
    double speed;  // standard deviation of what a trial's round does to both builds, which run in turn
};

static const struct machine machines[] = {
    {.name = "lognormal"},
    {.name = "a quarter of samples x 1.3", .sample = 0.25},
    {.name = "rounds differ by 8 %", .round = 0.08},
    {.name = "15 % of records x 1.25", .record = 0.15},
    {.name = "the speed changes by 25 %", .speed = 0.25},
};

enum slowed { NOTHING, ONE_TRIAL, ONE_METHOD, ALL_TRIALS };

struct stream {
    struct random random;
    uint64_t next;
};

static double uniform(struct stream *stream)
{
    return random_uniform(&stream->random, stream->next++);
}

static double normal(struct stream *stream)
{
    return random_normal(&stream->random, stream->next++);
}

// A record that was measured by a build in a round.
static void measure(struct record *record, double *samples, size_t count, double level,
                    const struct machine *machine, struct stream *stream)
{
    double shared = level + (uniform(stream) < machine->record ? log(1.25) : 0);
    for (size_t i = 0; i < count; i++)
        samples[i] = exp(shared + NOISE * normal(stream) + (uniform(stream) < machine->sample ? log(1.3) : 0));
    *record = (struct record){.status = RECORD_OK,
                              .samples_ms = {count, samples},
                              .load = {.other_cores = NAN, .waited_cores = NAN, .before = NAN},
                              .provenance = {.threads = 1, .spin_count = 0}};
}

// The verdict over one pair of builds.
static struct time_change judge(const struct machine *machine, size_t rounds, size_t samples, enum slowed slowed,
                                double factor, struct stream *stream)
{
    static const char *const methods[] = {"full", "checkpoint", "streambp", "seco"}, *const contexts[] = {"1", "2",
                                                                                                          "3"};
    static struct record records[2][TRIALS][ROUNDS_MAX];
    static double values[2][TRIALS][ROUNDS_MAX][SAMPLES_MAX];
    struct time_trial trials[TRIALS] = {0};
    struct round_times times[TRIALS];
    double drift[ROUNDS_MAX], speed[TRIALS][ROUNDS_MAX];
    for (size_t k = 0; k < rounds; k++)
        drift[k] = machine->round * normal(stream);
    for (size_t t = 0; t < TRIALS; t++) {
        const struct record *lists[2][ROUNDS_MAX];
        double level = 3 * uniform(stream);
        for (size_t k = 0; k < rounds; k++)
            speed[t][k] = machine->speed > 0 ? machine->speed * normal(stream) : 0;
        for (size_t side = 0; side < 2; side++)
            for (size_t k = 0; k < rounds; k++) {
                bool slow = side && (slowed == ALL_TRIALS || (slowed == ONE_METHOD && t % 4 == 2) ||
                                     (slowed == ONE_TRIAL && t == 5));
                measure(&records[side][t][k], values[side][t][k], samples,
                        level + drift[k] + speed[t][k] + (slow ? log(factor) : 0), machine, stream);
                lists[side][k] = &records[side][t][k];
            }
        struct record_list base = {.count = rounds, .records = lists[0]},
                           new = {.count = rounds, .records = lists[1]};
        times[t] = round_times_take(&base, &new, false);
        assert_null(times[t].unusable);
        trials[t] = (struct time_trial){.groups = {methods[t % 4], contexts[t / 4], "f32"},
                                        .rounds = times[t].rounds,
                                        .base = times[t].base,
                                        .new = times[t].new};
    }
    struct time_change change;
    time_change_judge(&change, TIME_THRESHOLD, trials, TRIALS);
    time_change_free(&change);
    for (size_t t = 0; t < TRIALS; t++)
        free(times[t].base);
    return change;
}

struct rates {
    double good, worse; // exit 0, exit 1
};

static struct rates simulate(const struct machine *machine, size_t rounds, size_t samples, enum slowed slowed,
                             double factor)
{
    static const char *const names[] = {"nothing", "one trial", "one method", "all trials"};
    const size_t pairs = rounds == 1 ? 20 : exhaustive() ? 5000 : 1000;
    struct stream stream = {.random = random_named(1, machine->name)};
    struct rates rates = {0};
    for (size_t i = 0; i < pairs; i++) {
        enum verdict verdict = judge(machine, rounds, samples, slowed, factor, &stream).verdict;
        rates.good += verdict <= VERDICT_BETTER ? 1 / (double)pairs : 0;
        rates.worse += verdict == VERDICT_WORSE ? 1 / (double)pairs : 0;
    }
    print_message("%-27s %zu rounds of %2zu, %-10s x %.2f: exit 0 %5.1f %%, exit 1 %5.1f %%\n", machine->name,
                  rounds, samples, names[slowed], factor, 100 * rates.good, 100 * rates.worse);
    return rates;
}

#define EACH(machine)                                                                                              \
    for (const struct machine *machine = machines; machine < machines + sizeof machines / sizeof *machines;        \
         machine++)

static void one_build_is_the_same(void **state)
{
    (void)state;
    EACH(machine)
    {
        for (size_t samples = 5; samples <= 10; samples += 5) {
            struct rates rates = simulate(machine, 3, samples, NOTHING, 1);
            assert_true(rates.worse <= 0.01);
            assert_true(rates.good >= 0.90);
        }
    }
}

static void a_slow_trial_does_not_pass(void **state)
{
    (void)state;
    EACH(machine)
    for (size_t samples = 5; samples <= 10; samples += 5)
        assert_true(simulate(machine, 3, samples, ONE_TRIAL, 1.2).good <= 0.02);
}

static void a_slow_build_does_not_pass(void **state)
{
    (void)state;
    EACH(machine)
    for (size_t samples = 5; samples <= 10; samples += 5)
        assert_true(simulate(machine, 3, samples, ALL_TRIALS, 1.1).good <= 0.02);
}

static void a_slow_build_is_found(void **state)
{
    (void)state;
    EACH(machine)
    assert_true(simulate(machine, 5, 5, ALL_TRIALS, 1.2).worse >= 0.95);
}

static void a_slow_method_is_found(void **state)
{
    (void)state;
    EACH(machine)
    assert_true(simulate(machine, 5, 5, ONE_METHOD, 1.15).worse >= 0.95);
}

// One round says nothing about how far two rounds differ.
static void one_round_decides_nothing(void **state)
{
    (void)state;
    static const double factors[] = {1, 3, 50};
    EACH(machine)
    for (size_t i = 0; i < 3; i++) {
        assert_true(simulate(machine, 1, 5, ONE_TRIAL, factors[i]).good == 0);
        assert_true(simulate(machine, 1, 5, ALL_TRIALS, factors[i]).good == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_build_is_the_same),      cmocka_unit_test(a_slow_trial_does_not_pass),
        cmocka_unit_test(a_slow_build_does_not_pass), cmocka_unit_test(a_slow_build_is_found),
        cmocka_unit_test(a_slow_method_is_found),     cmocka_unit_test(one_round_decides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
