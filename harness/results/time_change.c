#include "harness/results/time_change.h"
#include "kernels/base/status.h"
#include <math.h>
#include <string.h>

#define BUSY_SHARE       0.1   // of unsteady trials
#define GROUP_STANDS_OUT 3     // standard errors
#define TRIAL_STANDS_OUT 4     // more, for there are many trials
#define OPEN_STANDS_OUT  5     // and more where no second run tells a trial from a moment
#define SPREAD_LEAST     0.025 // processes differ by this much on any machine that is shared
// And processor times beside many others by 3 to 7 %: eight to ten processes for each of two cores, three rounds.
#define SPREAD_DISTURBED 0.065
// Those of two processes that ran one after the other: by 0.14 to 0.27, steps of 6 to 50 ms, five processes for two
// cores.
#define SPREAD_OF_PAIRS  0.2
#define SPREAD_FREEDOM   5  // trials with another one to be compared to, that a spread needs
#define SPREAD_REACH     64 // trials further apart in the file make no pair, lest a large file has too many
#define SIGN_TEST_TRIALS 6  // the fewest that the sign test gives an interval for
// From the first quartile of pairwise distances to a normal's standard deviation (Q_n of Rousseeuw & Croux 1993):
// up to half of the trials may differ for a reason.
#define QUARTILE_TO_DEVIATION 2.2219

static void correct_for_count(struct time_trial *trials, size_t count)
{
    double *p = malloc((count + 1) * sizeof *p);
    CHECK(p);
    size_t judged = 0;
    for (size_t i = 0; i < count; i++)
        if (trials[i].judged)
            p[judged++] = trials[i].p;
    rank_test_holm(p, judged);
    for (size_t i = count; i-- > 0;)
        if (trials[i].judged)
            trials[i].p_holm = p[--judged];
    free(p);
}

// Each by itself, with what p is by their number.
static void judge_trials(struct time_change *change, struct time_trial *trials, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        time_trial_judge(&trials[i], change->threshold);
        change->measured += trials[i].verdict != TIME_NOT_MEASURED;
        change->judged += trials[i].judged;
        change->unsteady += trials[i].unsteady;
    }
    correct_for_count(trials, count);
}

// --- what trials share, and how far they differ

static double log_ratio(const struct time_trial *trial)
{
    return log(trial->ratio.estimate);
}

static bool belongs(const struct time_trial *trial, int axis, const char *name)
{
    return trial->judged && (axis < 0 || strcmp(trial->groups[axis], name) == 0);
}

// The standard deviation of log ratios among trials of one group of the axis; infinite if there are too few.
static double spread_along(const struct time_trial *trials, size_t count, int axis)
{
    double *distances = malloc((count * SPREAD_REACH + 1) * sizeof *distances);
    CHECK(distances);
    size_t pairs = 0, freedom = 0;
    for (size_t i = 0; i < count; i++) {
        size_t before = pairs;
        for (size_t j = i; trials[i].judged && j-- > 0 && i - j <= SPREAD_REACH;)
            if (belongs(&trials[j], axis, trials[i].groups[axis]))
                distances[pairs++] = fabs(log_ratio(&trials[i]) - log_ratio(&trials[j]));
        freedom += pairs > before;
    }
    double spread = INFINITY;
    if (freedom >= SPREAD_FREEDOM)
        spread = QUARTILE_TO_DEVIATION * sample_quantile(distances, pairs, 0.25);
    free(distances);
    return spread;
}

// A change of one method alone widens the spread along contexts, but not that along methods: the least is nearest
// to chance.
static void find_spread(struct time_change *change, const struct time_trial *trials, size_t count)
{
    double least = INFINITY;
    for (int axis = 0; axis < TIME_AXES; axis++)
        least = fmin(least, spread_along(trials, count, axis));
    change->spread_known = isfinite(least);
    change->spread = change->spread_known ? fmax(least, SPREAD_LEAST) : SPREAD_LEAST;
}

// How far trials differ of which some are processor times, beside many others. What is assumed of those says
// nothing about the others.
static double spread_of(const struct time_change *change, bool processor_time)
{
    return fmax(change->spread, processor_time ? SPREAD_DISTURBED : 0);
}

static void find_shared(struct time_change *change, const struct time_trial *trials, size_t count)
{
    double *logs = malloc((count + 1) * sizeof *logs);
    CHECK(logs);
    size_t judged = 0;
    for (size_t i = 0; i < count; i++)
        if (trials[i].judged)
            logs[judged++] = log_ratio(&trials[i]);
    change->shared = judged ? exp(fmax(sample_quantile(logs, judged, 0.25), 0)) : 1;
    free(logs);
}

// --- groups

static double median_of(const double *values, size_t count)
{
    return sign_test_interval(values, count).estimate;
}

// Half a 95 % interval of the median of so many, which of one or two is their mean.
static double median_error(double spread, size_t count)
{
    return 1.96 * (count > 2 ? 1.2533 : 1) * spread / sqrt((double)count);
}

// How far the trial's ratio is assumed to be off where trials are too few to show it. Of processor times in rounds
// the rounds show it.
static double assumed_spread(const struct time_trial *trial)
{
    size_t runs = trial->base.runs < trial->new.runs ? trial->base.runs : trial->new.runs;
    bool shown = !trial->processor_time || trial->base.rounds;
    return fmax(SPREAD_LEAST, shown ? 0 : SPREAD_OF_PAIRS / sqrt((double)runs));
}

// The interval of the log ratio of a group whose trials have these, and so much that is assumed.
static struct shift group_shift(const struct time_change *change, const struct time_group *group, double assumed,
                                const double *logs, const double *lows, const double *highs)
{
    struct shift shift = sign_test_interval(logs, group->trials);
    if (group->trials >= SIGN_TEST_TRIALS)
        return shift;
    double spread = change->spread_known ? spread_of(change, group->processor_time) : assumed;
    double error = median_error(spread, group->trials), low = shift.estimate - error, high = shift.estimate + error;
    if (change->spread_known)
        return (struct shift){shift.estimate, low, high};
    return (struct shift){shift.estimate, fmin(low, median_of(lows, group->trials)),
                          fmax(high, median_of(highs, group->trials))};
}

static struct time_group group_of(const struct time_change *change, const struct time_trial *trials, size_t count,
                                  int axis, const char *name)
{
    struct time_group group = {.axis = axis, .name = name, .verdict = TIME_CANNOT_TELL};
    double *logs = malloc(3 * (count + 1) * sizeof *logs);
    CHECK(logs);
    double *lows = logs + count + 1, *highs = lows + count + 1;
    double assumed = 0;
    for (size_t i = 0; i < count; i++) {
        if (belongs(&trials[i], axis, name)) {
            logs[group.trials] = log_ratio(&trials[i]);
            lows[group.trials] = log(trials[i].ratio.low);
            highs[group.trials++] = log(trials[i].ratio.high);
            group.processor_time |= trials[i].processor_time;
            assumed = fmax(assumed, assumed_spread(&trials[i]));
        }
    }
    if (group.trials) {
        group.ratio = time_shift_as_ratio(group_shift(change, &group, assumed, logs, lows, highs));
        group.verdict = time_verdict_of(group.ratio, change->threshold);
    }
    free(logs);
    return group;
}

static bool has_group(const struct time_change *change, int axis, const char *name)
{
    for (size_t i = 0; i < change->group_count; i++)
        if (change->groups[i].axis == axis && strcmp(change->groups[i].name, name) == 0)
            return true;
    return false;
}

// Every group of at least two trials that is not all of them.
static void find_groups(struct time_change *change, const struct time_trial *trials, size_t count)
{
    for (int axis = 0; axis < TIME_AXES; axis++) {
        for (size_t i = 0; i < count; i++) {
            if (!trials[i].judged || has_group(change, axis, trials[i].groups[axis]))
                continue;
            struct time_group group = group_of(change, trials, count, axis, trials[i].groups[axis]);
            change->groups = realloc(change->groups, (change->group_count + 1) * sizeof group);
            CHECK(change->groups);
            change->groups[change->group_count++] = group;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < change->group_count; i++)
        if (change->groups[i].trials > 1 && change->groups[i].trials < change->judged)
            change->groups[kept++] = change->groups[i];
    change->group_count = kept;
}

// --- regressions

static bool stands_out(const struct time_change *change, double spread, double ratio, double errors)
{
    double excess = log(ratio / change->shared), limit = log(1 + change->threshold);
    return ratio > 1 + change->threshold && excess > fmax(limit, errors * spread);
}

// How many trials look slower for no reason: those that something disturbed in every run.
static void find_chance(struct time_change *change, const struct time_trial *trials, size_t count)
{
    size_t disturbed = 0, runs = 0;
    for (size_t i = 0; i < count; i++) {
        if (trials[i].judged && trials[i].base.runs > 1 && trials[i].new.runs > 1) {
            disturbed += trials[i].base.disturbed + trials[i].new.disturbed;
            runs += trials[i].base.runs + trials[i].new.runs;
        }
    }
    change->disturbed = runs ? (double)disturbed / (double)runs : 0;
    for (size_t i = 0; i < count; i++)
        if (trials[i].judged && trials[i].new.runs > 1)
            change->chance += pow(change->disturbed, (double)trials[i].new.runs);
}

// Whether a trial's own samples may prove something: among many trials only those of several runs.
static bool may_prove(const struct time_change *change, const struct time_trial *trial)
{
    return !change->spread_known ||
           (trial->base.runs > 1 && trial->new.runs > 1 && change->chance <= RANK_TEST_LEVEL);
}

struct findings {
    bool regression;
    const char *open; // the first, or NULL
};

static bool in_regression(const struct time_change *change, const struct time_trial *trial)
{
    bool found = change->all.regression;
    for (size_t i = 0; i < change->group_count; i++)
        found |= change->groups[i].regression && belongs(trial, change->groups[i].axis, change->groups[i].name);
    return found;
}

static struct findings find_regressions(struct time_change *change, struct time_trial *trials, size_t count)
{
    change->all.regression = change->all.verdict == TIME_SLOWER;
    struct findings findings = {.regression = change->all.regression};
    for (size_t i = 0; i < change->group_count; i++) {
        struct time_group *group = &change->groups[i];
        double spread = spread_of(change, group->processor_time);
        bool out =
            stands_out(change, spread, group->ratio.estimate, GROUP_STANDS_OUT / sqrt((double)group->trials));
        group->regression = out && group->verdict == TIME_SLOWER;
        group->open = out && !group->regression;
        findings.regression |= group->regression;
        findings.open = group->open && !findings.open ? group->name : findings.open;
    }
    for (size_t i = 0; i < count; i++) {
        struct time_trial *trial = &trials[i];
        bool proves = may_prove(change, trial);
        double spread = spread_of(change, trial->processor_time);
        bool out = trial->judged &&
                   stands_out(change, spread, trial->ratio.estimate, proves ? TRIAL_STANDS_OUT : OPEN_STANDS_OUT);
        trial->regression = out && proves && trial->verdict == TIME_SLOWER && trial->p_holm <= RANK_TEST_LEVEL;
        trial->regression |= trial->verdict == TIME_SLOWER && in_regression(change, trial);
        trial->open = (out && !trial->regression) || trial->waited;
        findings.regression |= trial->regression;
        findings.open = trial->waited && !findings.open ? "by the clock a trial" : findings.open;
        if (trial->open && !findings.open && change->chance <= RANK_TEST_LEVEL)
            findings.open = "a single trial";
    }
    return findings;
}

static const char *first_reason(const struct time_trial *trials, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (trials[i].verdict == TIME_CANNOT_TELL && !trials[i].judged)
            return trials[i].reason;
    return "";
}

// Nothing is proven on a machine that was busy.
static void reopen(struct time_change *change, struct time_trial *trials, size_t count)
{
    change->all.open = change->all.regression;
    change->all.regression = false;
    for (size_t i = 0; i < change->group_count; i++) {
        change->groups[i].open |= change->groups[i].regression;
        change->groups[i].regression = false;
    }
    for (size_t i = 0; i < count; i++) {
        trials[i].open |= trials[i].regression;
        trials[i].regression = false;
    }
}

// Whether the machine was too restless for any ratio to mean much. A spread above the threshold also hides what it
// should show, so that not even the same can be told then.
static bool restless(const struct time_change *change)
{
    return change->spread_known && change->spread > log(1 + change->threshold);
}

static bool busy(const struct time_change *change)
{
    return change->unsteady >= 2 && (double)change->unsteady > BUSY_SHARE * (double)change->measured;
}

static void conclude(struct time_change *change, struct time_trial *trials, size_t count, struct findings findings)
{
    const char *looks = findings.regression                  ? "something looks slower, but "
                        : change->all.verdict == TIME_FASTER ? "it looks faster, but "
                                                             : "";
    change->verdict = TIME_CANNOT_TELL;
    if (change->measured == 0)
        change->verdict = TIME_NOT_MEASURED;
    else if (restless(change))
        snprintf(change->reason, sizeof change->reason,
                 "%strials that are alike differ by %.0f %%: the machine drifted; measure again", looks,
                 100 * (exp(change->spread) - 1));
    else if (busy(change) && *looks)
        snprintf(change->reason, sizeof change->reason,
                 "%sin %zu of %zu trials the samples scatter: the machine was busy; measure again", looks,
                 change->unsteady, change->measured);
    else if (findings.regression)
        change->verdict = TIME_SLOWER;
    else if (2 * change->judged < change->measured)
        snprintf(change->reason, sizeof change->reason, "%zu of %zu trials cannot be judged: %s",
                 change->measured - change->judged, change->measured, first_reason(trials, count));
    else if (findings.open)
        snprintf(change->reason, sizeof change->reason,
                 "%s looks slower, but this is not proven; measure more rounds, both builds in turn (longbp run "
                 "--rounds --against)",
                 findings.open);
    else if ((change->verdict = change->all.verdict) == TIME_CANNOT_TELL)
        snprintf(
            change->reason, sizeof change->reason, "the ratio over all trials is too uncertain; measure again, %s",
            change->all.processor_time
                ? "in more rounds, both builds in turn (longbp run --rounds --against), or beside fewer programs"
                : "with more samples");
    if (restless(change) || busy(change))
        reopen(change, trials, count);
}

void time_change_judge(struct time_change *change, double threshold, struct time_trial *trials, size_t count)
{
    *change = (struct time_change){.threshold = threshold};
    judge_trials(change, trials, count);
    find_spread(change, trials, count);
    find_shared(change, trials, count);
    find_chance(change, trials, count);
    change->all = group_of(change, trials, count, -1, "all trials");
    find_groups(change, trials, count);
    conclude(change, trials, count, find_regressions(change, trials, count));
}

void time_change_free(struct time_change *change)
{
    free(change->groups);
    *change = (struct time_change){0};
}
