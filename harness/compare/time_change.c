#include "harness/compare/time_change.h"
#include "kernels/base/status.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_MIN    0.01 // of a trial's log ratio, at least: placement of memory and code
#define STANDS_OUT   4    // errors; one less for a group of three trials or more, because there are fewer groups
#define EXCESS_MIN   0.05 // and by this ratio
#define DISTURBED    0.10 // of a round's time over the minimum
#define CHANCE_MAX   0.01 // expected number of trials that look slower by chance
#define PAIRED_BELOW 0.5  // times the error of minimum times
#define NEARLY       0.02 // below the threshold, as a logarithm

// Data of all judged trials.
struct sheet {
    const struct time_trial **trials; // [count]
    size_t count, rounds, places;     // rounds: maximum per trial; places: distinct rounds over all trials
    bool identical;                   // both files have the same measurements
    double *ratios;                   // [count]: logarithms, new / base
    double *medians, *values;         // scratch: [places], [rounds + 2 count]
    double middle;                    // the median log ratio of all trials
    struct sample_mean mean;          // over the rounds, of the median log ratio of all trials
};

static const double *times_of(const struct time_trial *trial, size_t side)
{
    return side ? trial->new : trial->base;
}

static size_t place_of(const struct time_trial *trial, size_t round)
{
    return trial->places ? (size_t)trial->places[round] : round;
}

// The log ratio of a trial in a round.
static double pair_of(const struct time_trial *trial, size_t round)
{
    return trial->new[round] - trial->base[round];
}

static double median(const double *values, size_t count)
{
    return sample_quantile(values, count, 0.5);
}

// Standard deviation of the difference of two minima divided by the gap: sqrt 2 times the standard deviation of the
// minimum of this many normal values over the median distance to the second smallest.
static double error_per_gap(size_t rounds)
{
    static const double factors[] = {1.23, 1.52, 1.67, 1.77, 1.84, 1.90, 1.94, 1.98, 2.02};
    size_t last = sizeof factors / sizeof *factors - 1, at = rounds - 2;
    return factors[at < last ? at : last];
}

// Sets ratios to those of the trials' minimum times; returns their error.
static double find_minima(struct sheet *sheet)
{
    double *sorted = sheet->values, *gaps = sheet->values + sheet->rounds;
    size_t found = 0;
    for (size_t i = 0; i < sheet->count; i++) {
        size_t rounds = sheet->trials[i]->rounds;
        for (size_t side = 0; side < 2; side++) {
            memcpy(sorted, times_of(sheet->trials[i], side), rounds * sizeof *sorted);
            qsort(sorted, rounds, sizeof *sorted, sample_by_value);
            sheet->ratios[i] = side ? sorted[0] - sheet->ratios[i] : sorted[0];
            if (rounds > 1)
                gaps[found++] = sorted[1] - sorted[0];
        }
    }
    return found ? median(gaps, found) * error_per_gap(sheet->rounds) : INFINITY;
}

// Standard deviation of the median of this many normal values over their median absolute deviation. The factors
// make that deviation unbiased (Croux and Rousseeuw 1992, section 3).
static double error_per_deviation(size_t rounds)
{
    static const double factors[] = {1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107};
    double n = (double)rounds, factor = rounds < 10 ? factors[rounds - 2] : n / (n - 0.8);
    return sqrt(M_PI / 2 / n) * 1.4826 * factor;
}

// Sets ratios to the trials' medians over rounds; returns their error.
static double find_medians(struct sheet *sheet)
{
    double *deviations = sheet->values + sheet->rounds;
    size_t found = 0;
    for (size_t i = 0; i < sheet->count; i++) {
        size_t rounds = sheet->trials[i]->rounds;
        for (size_t k = 0; k < rounds; k++)
            sheet->values[k] = pair_of(sheet->trials[i], k);
        sheet->ratios[i] = median(sheet->values, rounds);
        for (size_t k = 0; k < rounds; k++)
            sheet->values[k] = fabs(sheet->values[k] - sheet->ratios[i]);
        if (rounds > 1)
            deviations[found++] = median(sheet->values, rounds) * error_per_deviation(rounds);
    }
    return found ? median(deviations, found) : INFINITY;
}

// The share of disturbed rounds, plus one, because none observed does not mean none: times above the minimum, for
// medians rounds that far from the trial's ratio in either direction.
static double disturbed_share(const struct time_change *change, const struct sheet *sheet)
{
    size_t disturbed = 1, rounds = 2;
    for (size_t i = 0; i < sheet->count; i++) {
        const struct time_trial *trial = sheet->trials[i];
        rounds += change->paired ? trial->rounds : 2 * (trial->rounds - 1);
        for (size_t k = 0; change->paired && k < trial->rounds; k++)
            disturbed += fabs(pair_of(trial, k) - sheet->ratios[i]) > log(1 + DISTURBED);
        for (size_t side = 0; !change->paired && side < 2; side++) {
            const double *times = times_of(trial, side), min = sample_quantile(times, trial->rounds, 0);
            for (size_t k = 0; k < trial->rounds; k++)
                disturbed += times[k] > min + log(1 + DISTURBED);
        }
    }
    return (double)disturbed / (double)rounds;
}

// In 3 rounds, medians alone call 54 % of equal builds the same (minima 93 %) if 15 % of records take 1.25 times as
// long; in 5 rounds, minima alone find 78 % of builds with a method slower by 15 % (medians 100 %) if speed varies.
static void find_ratios(struct time_change *change, struct sheet *sheet)
{
    double by_minima = find_minima(sheet), by_medians = find_medians(sheet);
    change->paired = sheet->rounds > 2 && by_medians < PAIRED_BELOW * by_minima;
    change->error = fmax(change->paired ? by_medians : find_minima(sheet), ERROR_MIN);
    change->disturbed = disturbed_share(change, sheet);
}

static struct sheet sheet_of(const struct time_trial *trials, size_t count)
{
    struct sheet sheet = {.trials = calloc(count + 1, sizeof *sheet.trials), .identical = true};
    for (size_t i = 0; i < count; i++) {
        if (!trials[i].rounds || trials[i].unusable)
            continue;
        sheet.trials[sheet.count++] = &trials[i];
        sheet.identical &= !memcmp(trials[i].base, trials[i].new, trials[i].rounds * sizeof *trials[i].base);
        sheet.rounds = trials[i].rounds > sheet.rounds ? trials[i].rounds : sheet.rounds;
        for (size_t k = 0; k < trials[i].rounds; k++)
            if (place_of(&trials[i], k) >= sheet.places)
                sheet.places = place_of(&trials[i], k) + 1;
    }
    sheet.ratios = calloc(3 * sheet.count + sheet.rounds + sheet.places + 1, sizeof *sheet.ratios);
    sheet.medians = sheet.ratios + sheet.count;
    sheet.values = sheet.medians + sheet.places;
    return sheet;
}

// --- all trials

// Rounds that less than half of the trials have are ignored.
static struct sample_mean mean_of_rounds(const struct sheet *sheet)
{
    size_t rounds = 0;
    for (size_t place = 0; place < sheet->places; place++) {
        size_t found = 0;
        for (size_t i = 0; i < sheet->count; i++) {
            const struct time_trial *trial = sheet->trials[i];
            for (size_t k = 0; k < trial->rounds; k++)
                if (place_of(trial, k) == place)
                    sheet->values[found++] = pair_of(trial, k);
        }
        if (found && 2 * found >= sheet->count)
            sheet->medians[rounds++] = median(sheet->values, found);
    }
    return sample_mean(sheet->medians, rounds);
}

static double threshold_of(const struct time_change *change, size_t trials)
{
    bool all = trials > 1 && trials == change->judged;
    return log(1 + change->threshold * (all ? 1 : 1 + 0.5 / sqrt((double)trials)));
}

static enum verdict judge_all(const struct time_change *change, struct sample_mean mean, size_t rounds)
{
    double half = sample_half_interval(mean, rounds, ERROR_MIN / 2), min = log(1 + change->threshold / 2);
    if (mean.estimate - half > 0 && mean.estimate > min)
        return VERDICT_WORSE;
    if (mean.estimate + half < 0 && mean.estimate < -min)
        return VERDICT_BETTER;
    return mean.estimate + half <= threshold_of(change, change->judged) ? VERDICT_SAME : VERDICT_UNDECIDED;
}

// --- a trial, or a group of them

// Log ratios of some trials: their mean, and the two middle ones, equal if their number is odd.
struct part {
    size_t first, trials; // index of the first trial; number of trials
    double mean, low, high;
};

static bool belongs(const struct time_trial *trial, int axis, const char *name)
{
    return axis < 0 || strcmp(trial->groups[axis], name) == 0;
}

static struct part part_of_one(const struct sheet *sheet, size_t at)
{
    return (struct part){at, 1, sheet->ratios[at], sheet->ratios[at], sheet->ratios[at]};
}

static struct part part_of(const struct sheet *sheet, int axis, const char *name)
{
    struct part part = {0};
    for (size_t i = sheet->count; i-- > 0;)
        if (belongs(sheet->trials[i], axis, name)) {
            part.first = i;
            sheet->values[part.trials++] = sheet->ratios[i];
        }
    for (size_t i = 0; i < part.trials; i++)
        part.mean += sheet->values[i] / (double)part.trials;
    qsort(sheet->values, part.trials, sizeof *sheet->values, sample_by_value);
    part.low = sheet->values[(part.trials - 1) / 2];
    part.high = sheet->values[part.trials / 2];
    return part;
}

static double error_of(const struct time_change *change, size_t rounds)
{
    double error = rounds > 1 ? change->error * sqrt((double)change->rounds / (double)rounds) : INFINITY;
    return fmax(error, ERROR_MIN);
}

// Tells whether disturbances may explain a trial's ratio: those of all of its rounds, or for medians of half of
// them.
static bool may_be_chance(const struct time_change *change, size_t rounds)
{
    double sum = 0, n = (double)rounds, q = change->disturbed;
    for (size_t k = change->paired ? (rounds + 1) / 2 : rounds; k <= rounds; k++) {
        double ways = lgamma(n + 1) - lgamma((double)k + 1) - lgamma(n - (double)k + 1);
        sum += exp(ways) * pow(q, (double)k) * pow(1 - q, n - (double)k);
    }
    return (double)change->judged * sum > CHANCE_MAX;
}

// Judges some trials by their ratios, given this many rounds.
static enum verdict judge_part(const struct time_change *change, const struct sheet *sheet, struct part part,
                               size_t rounds)
{
    double error = error_of(change, rounds) / sqrt((double)part.trials), limit = threshold_of(change, part.trials);
    double excess = fmax((STANDS_OUT - (part.trials > 2)) * error, log(1 + EXCESS_MIN));
    bool proves = part.trials > 1 || !may_be_chance(change, rounds);
    if (proves && part.low - sheet->middle > excess && part.low > limit - NEARLY)
        return VERDICT_WORSE;
    if (proves && sheet->middle - part.high > excess && part.high < NEARLY - limit)
        return VERDICT_BETTER;
    return part.mean + error <= limit ? VERDICT_SAME : VERDICT_UNDECIDED;
}

// In a group that is slower, a trial that is also slower by itself is judged worse.
static enum verdict judge_in_group(const struct time_group *group, const struct time_trial *trial)
{
    bool within = belongs(trial, group->axis, group->name);
    if (within && group->verdict == VERDICT_WORSE && trial->ratio.low > 1)
        return VERDICT_WORSE;
    return within && group->verdict == VERDICT_BETTER && trial->ratio.high < 1 ? VERDICT_BETTER : VERDICT_NONE;
}

// Judges as unchanged.
static void judge_same(struct time_trial *trial)
{
    bool judged = trial->rounds && !trial->unusable;
    trial->verdict = judged ? VERDICT_SAME : trial->unusable ? VERDICT_UNDECIDED : VERDICT_NONE;
    trial->reason = trial->unusable ? trial->unusable : "";
    trial->ratio = judged ? (struct shift){1, 1, 1} : (struct shift){NAN, NAN, NAN};
}

static void judge_trials(struct time_change *change, const struct sheet *sheet, struct time_trial *trials,
                         size_t count)
{
    for (size_t i = 0, at = 0; i < count; i++) {
        struct time_trial *trial = &trials[i];
        if (trial->verdict != VERDICT_SAME)
            continue;
        struct part part = part_of_one(sheet, at++);
        trial->ratio = sample_ratio(part.mean, 2 * error_of(change, trial->rounds));
        trial->verdict = judge_part(change, sheet, part, trial->rounds);
        if (sheet->count == 1) { // it is all trials
            trial->ratio = change->all.ratio;
            trial->verdict = change->all.verdict;
        }
        enum verdict shared = judge_in_group(&change->all, trial);
        for (size_t g = 0; g < change->group_count; g++)
            shared = verdict_worst(shared, judge_in_group(&change->groups[g], trial));
        trial->verdict = shared != VERDICT_NONE && trial->verdict != VERDICT_WORSE ? shared : trial->verdict;
        if (trial->verdict == VERDICT_UNDECIDED)
            trial->reason = trial->rounds > 1 ? "the rounds differ too much, or are too few" : "one round";
    }
}

// Judges every group of at least two trials, but not all trials.
static void judge_groups(struct time_change *change, const struct sheet *sheet)
{
    for (int axis = 0; axis < TIME_AXES; axis++) {
        for (size_t i = 0; i < sheet->count; i++) {
            const char *name = sheet->trials[i]->groups[axis];
            struct part part = part_of(sheet, axis, name);
            if (part.first != i || part.trials < 2 || part.trials == sheet->count)
                continue;
            double half = 2 * error_of(change, change->rounds) / sqrt((double)part.trials);
            enum verdict verdict = judge_part(change, sheet, part, change->rounds);
            if (verdict == VERDICT_UNDECIDED && change->all.verdict == VERDICT_WORSE)
                verdict = part.mean > 0 ? VERDICT_WORSE : VERDICT_NONE;
            change->groups = realloc(change->groups, (change->group_count + 1) * sizeof *change->groups);
            CHECK(change->groups);
            change->groups[change->group_count++] =
                (struct time_group){axis, name, part.trials, verdict, sample_ratio(part.mean, half)};
        }
    }
}

// --- number of rounds required

static bool settled(const struct time_change *change, const struct sheet *sheet, size_t rounds)
{
    enum verdict worst = judge_all(change, sheet->mean, rounds);
    for (size_t i = 0; sheet->count > 1 && i < sheet->count; i++)
        worst = verdict_worst(worst, judge_part(change, sheet, part_of_one(sheet, i), rounds));
    for (size_t i = 0; i < change->group_count; i++) {
        struct part part = part_of(sheet, change->groups[i].axis, change->groups[i].name);
        worst = verdict_worst(worst, judge_part(change, sheet, part, rounds));
    }
    return worst != VERDICT_UNDECIDED;
}

static size_t rounds_wanted(const struct time_change *change, const struct sheet *sheet)
{
    if (sheet->rounds < 2)
        return 3;
    for (size_t rounds = sheet->rounds + 1; rounds <= TIME_ROUNDS_MAX; rounds++)
        if (settled(change, sheet, rounds))
            return rounds;
    return 0;
}

void time_change_judge(struct time_change *change, double threshold, struct time_trial *trials, size_t count)
{
    struct sheet sheet = sheet_of(trials, count);
    *change = (struct time_change){.threshold = threshold,
                                   .judged = sheet.count,
                                   .rounds = sheet.rounds,
                                   .all = {.axis = -1, .name = "all trials", .trials = sheet.count}};
    for (size_t i = 0; i < count; i++) {
        change->timed += trials[i].rounds || trials[i].unusable;
        judge_same(&trials[i]);
    }
    if (sheet.count && sheet.identical) {
        change->all.verdict = VERDICT_SAME;
        change->all.ratio = (struct shift){1, 1, 1};
    } else if (sheet.count) {
        find_ratios(change, &sheet);
        sheet.middle = part_of(&sheet, -1, NULL).low;
        sheet.mean = mean_of_rounds(&sheet);
        double half = sample_half_interval(sheet.mean, sheet.mean.count, ERROR_MIN / 2);
        change->all.verdict = judge_all(change, sheet.mean, sheet.mean.count);
        change->all.ratio = sample_ratio(sheet.mean.estimate, half);
        judge_groups(change, &sheet);
        judge_trials(change, &sheet, trials, count);
    }
    change->verdict = change->all.verdict;
    for (size_t i = 0; i < change->group_count; i++)
        change->verdict = verdict_worst(change->verdict, change->groups[i].verdict);
    for (size_t i = 0; i < count; i++)
        change->verdict = verdict_worst(change->verdict, trials[i].unusable ? VERDICT_NONE : trials[i].verdict);
    if (change->verdict == VERDICT_UNDECIDED) {
        change->rounds_wanted = rounds_wanted(change, &sheet);
        change->restless = !change->rounds_wanted;
    }
    if (change->judged < change->timed)
        change->verdict = verdict_worst(change->verdict, VERDICT_UNDECIDED);
    free(sheet.trials);
    free(sheet.ratios);
}

void time_change_free(struct time_change *change)
{
    free(change->groups);
    change->groups = NULL;
}
