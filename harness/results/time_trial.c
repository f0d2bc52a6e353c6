#include "harness/results/time_trial.h"
#include "harness/results/student_t.h"
#include "kernels/base/status.h"
#include <math.h>

#define SAME_INTERVAL    1.5 // bounds of a ratio that is called the same
#define STEADY_QUARTILES 1.3 // quartile ratio of samples that a quiet machine stays below

const char *time_verdict_name(enum time_verdict verdict)
{
    static const char *const names[] = {"not measured", "same", "faster", "slower", "cannot tell"};
    return names[verdict];
}

struct shift time_shift_as_ratio(struct shift logs)
{
    return (struct shift){exp(logs.estimate), exp(logs.low), exp(logs.high)};
}

enum time_verdict time_verdict_of(struct shift ratio, double threshold)
{
    double limit = 1 + threshold;
    if (ratio.estimate > limit && ratio.low > 1)
        return TIME_SLOWER;
    if (ratio.estimate < 1 / limit && ratio.high < 1)
        return TIME_FASTER;
    bool within = ratio.estimate <= limit && ratio.estimate >= 1 / limit;
    return within && ratio.low >= 1 / SAME_INTERVAL && ratio.high <= SAME_INTERVAL ? TIME_SAME : TIME_CANNOT_TELL;
}

static double *logarithms(struct time_samples samples)
{
    double *logs = malloc(samples.count * sizeof *logs);
    CHECK(logs);
    for (size_t i = 0; i < samples.count; i++)
        logs[i] = log(samples.ms[i]);
    return logs;
}

static double mean_of(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

// The samples of a trial as logarithms, in blocks of draws or rounds; blocks: 0: there are none.
struct trial_logs {
    double *base, *new;
    size_t base_count, new_count, blocks;
};

// Of every block the ratio of its means: the times of blocks differ, but for both sides alike.
static double *block_ratios(const struct trial_logs *logs)
{
    size_t m = logs->base_count / logs->blocks, n = logs->new_count / logs->blocks;
    double *ratios = malloc(logs->blocks * sizeof *ratios);
    CHECK(ratios);
    for (size_t d = 0; d < logs->blocks; d++)
        ratios[d] = exp(mean_of(logs->new + d *n, n) - mean_of(logs->base + d * m, m));
    return ratios;
}

// What is left of each block's samples without the mean of all of them.
static void align_blocks(struct trial_logs *logs)
{
    for (size_t d = 0; d < logs->blocks; d++) {
        size_t m = logs->base_count / logs->blocks, n = logs->new_count / logs->blocks;
        double *base = logs->base + d * m, *new = logs->new + d *n;
        double mean = (mean_of(base, m) * (double)m + mean_of(new, n) * (double)n) / (double)(m + n);
        for (size_t i = 0; i < m; i++)
            base[i] -= mean;
        for (size_t j = 0; j < n; j++)
            new[j] -= mean;
    }
}

static bool narrow(const double *values, size_t count)
{
    return sample_quantile(values, count, 0.75) <= STEADY_QUARTILES * sample_quantile(values, count, 0.25);
}

static bool steady(const struct time_trial *trial, const struct trial_logs *logs)
{
    if (!logs->blocks)
        return (trial->base.runs > 1 || narrow(trial->base.ms, trial->base.count)) &&
               (trial->new.runs > 1 || narrow(trial->new.ms, trial->new.count));
    double *ratios = block_ratios(logs);
    bool result = (trial->base.runs > 1 && trial->new.runs > 1) || narrow(ratios, logs->blocks);
    free(ratios);
    return result;
}

static size_t block_count(const struct time_samples *samples)
{
    return samples->draws ? samples->draws : samples->rounds;
}

// Why the samples of a trial allow for no ratio, or NULL.
static const char *unfit(const struct time_trial *trial)
{
    if (trial->unusable)
        return trial->unusable;
    if (trial->base.count == 0 || trial->new.count == 0)
        return "only one of the two files has samples";
    if (!trial->base.draws != !trial->new.draws)
        return "the samples of one file walked a draw of columns each, those of the other all the same";
    size_t blocks = block_count(&trial->base);
    if (rank_test_least_p(trial->base.count, trial->new.count, blocks ? blocks : 1) > RANK_TEST_LEVEL)
        return trial->base.draws ? "too few draws for any conclusion; 6 in one round or 5 in three are the least"
                                 : "too few samples for any conclusion; 4 and 4 are the least, 10 and 10 are good";
    return NULL;
}

// Samples of one round share what its two processes met: how far the ratios of rounds differ says how far their
// mean may be off (Student 1908). Widens the test's interval to it.
static void allow_for_rounds(struct rank_test *test, const struct trial_logs *logs)
{
    double *ratios = block_ratios(logs), mean = 0, squares = 0;
    for (size_t d = 0; d < logs->blocks; d++)
        mean += log(ratios[d]) / (double)logs->blocks;
    for (size_t d = 0; d < logs->blocks; d++)
        squares += pow(log(ratios[d]) - mean, 2);
    size_t freedom = logs->blocks - 1;
    double error = sqrt(squares / (double)freedom / (double)logs->blocks),
           interval = student_t_quantile(RANK_TEST_LEVEL, freedom) * error;
    test->shift.low = fmin(test->shift.low, mean - interval);
    test->shift.high = fmax(test->shift.high, mean + interval);
    test->p = fmax(test->p, error > 0 ? student_t_p(mean / error, freedom) : 0);
    free(ratios);
}

static void judge_samples(struct time_trial *trial, double threshold, struct trial_logs *logs)
{
    if (!steady(trial, logs)) {
        trial->reason = "the samples scatter: the machine was busy";
        trial->unsteady = true;
        return;
    }
    struct rank_test test;
    align_blocks(logs);
    rank_test(&test, logs->base, logs->base_count, logs->new, logs->new_count, logs->blocks ? logs->blocks : 1);
    if (trial->base.rounds > 1)
        allow_for_rounds(&test, logs);
    trial->judged = true;
    trial->ratio = time_shift_as_ratio(test.shift);
    trial->p = test.p;
    trial->verdict = time_verdict_of(trial->ratio, threshold);
    trial->reason = trial->verdict == TIME_CANNOT_TELL ? "the interval is too wide" : "";
}

// Of several threads that wait for each other more than before, no processor time grows.
static void judge_waits(struct time_trial *trial, double threshold)
{
    struct time_trial clock = {.base = trial->clock_base, .new = trial->clock_new};
    time_trial_judge(&clock, threshold);
    trial->waited = trial->verdict == TIME_SAME && clock.verdict == TIME_SLOWER;
    if (trial->waited) {
        trial->verdict = TIME_CANNOT_TELL;
        trial->reason = "slower by the clock, but not by processor time: threads waited, or other programs ran";
    }
}

void time_trial_judge(struct time_trial *trial, double threshold)
{
    trial->reason = "";
    trial->verdict = TIME_NOT_MEASURED;
    trial->judged = trial->unsteady = trial->regression = trial->open = trial->waited = false;
    if (trial->base.count == 0 && trial->new.count == 0)
        return;
    time_samples_match(&trial->base, &trial->new);
    trial->verdict = TIME_CANNOT_TELL;
    const char *reason = unfit(trial);
    if (reason) {
        trial->reason = reason;
        return;
    }
    struct trial_logs logs = {logarithms(trial->base), logarithms(trial->new), trial->base.count, trial->new.count,
                              block_count(&trial->base)};
    judge_samples(trial, threshold, &logs);
    free(logs.base);
    free(logs.new);
    if (trial->clock_base.count && trial->clock_new.count)
        judge_waits(trial, threshold);
}
