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
    double *numbers;                  // storage of the following
    double *level[2],
        *medians;          // [places]: common change of a round over all trials of BASE and of NEW; log(new / base)
    double *min[2], *gaps; // [count], [2 count]: minimum time, and the distance of the second smallest from it
    double *ratios;        // [count]: logarithms, new / base
    double *values;        // [count + rounds], scratch
    bool paired;           // ratios are medians over rounds rather than ratios of minimum times
    double error;          // of a ratio; infinite: one round
    size_t gap_count;
    double gap;    // median gap; infinite: one round
    double middle; // the median log ratio of all trials
};

static const double *times_of(const struct time_trial *trial, size_t side)
{
    return side ? trial->new : trial->base;
}

static size_t place_of(const struct time_trial *trial, size_t round)
{
    return trial->places ? (size_t)trial->places[round] : round;
}

// Index of the trial's round at this place; the number of rounds if there is none.
static size_t round_at(const struct time_trial *trial, size_t place)
{
    size_t round = 0;
    while (round < trial->rounds && place_of(trial, round) != place)
        round++;
    return round;
}

// A time relative to its round's common change.
static double time_of(const struct sheet *sheet, size_t at, size_t side, size_t round)
{
    const struct time_trial *trial = sheet->trials[at];
    return times_of(trial, side)[round] - sheet->level[side][place_of(trial, round)];
}

static double median(const double *values, size_t count)
{
    return sample_quantile(values, count, 0.5);
}

// A round's common change: the median, over trials that have it, of the distance of its time from the trial's
// median. A single trial shows no common change.
static double level_of(const struct sheet *sheet, size_t side, size_t place)
{
    size_t found = 0;
    for (size_t i = 0; i < sheet->count; i++) {
        const struct time_trial *trial = sheet->trials[i];
        size_t round = round_at(trial, place);
        if (round < trial->rounds)
            sheet->values[found++] = times_of(trial, side)[round] - median(times_of(trial, side), trial->rounds);
    }
    return found > 1 ? median(sheet->values, found) : 0;
}

static void find_min(struct sheet *sheet, size_t at, size_t side)
{
    double min = INFINITY, second = INFINITY;
    for (size_t k = 0; k < sheet->trials[at]->rounds; k++) {
        double time = time_of(sheet, at, side, k);
        second = fmin(second, fmax(time, min));
        min = fmin(min, time);
    }
    sheet->min[side][at] = min;
    if (sheet->trials[at]->rounds > 1)
        sheet->gaps[sheet->gap_count++] = second - min;
}

// Finds all minimum times; returns the median gap.
static double find_all_min(struct sheet *sheet)
{
    sheet->gap_count = 0;
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < sheet->count; i++)
            find_min(sheet, i, side);
    return sheet->gap_count ? median(sheet->gaps, sheet->gap_count) : INFINITY;
}

static void find_levels(struct sheet *sheet)
{
    double without = find_all_min(sheet);
    for (size_t side = 0; side < 2; side++)
        for (size_t place = 0; place < sheet->places; place++)
            sheet->level[side][place] = level_of(sheet, side, place);
    sheet->gap = find_all_min(sheet);
    if (sheet->gap < without)
        return;
    // Without common changes if they do not reduce the gap: disturbances then hit single trials.
    memset(sheet->level[0], 0, 2 * sheet->places * sizeof(double));
    sheet->gap = find_all_min(sheet);
}

// Standard deviation of the difference of two minima divided by the gap: sqrt 2 times the standard deviation of the
// minimum of this many normal values over the median distance to the second smallest.
static double error_per_gap(size_t rounds)
{
    static const double factors[] = {1.23, 1.52, 1.67, 1.77, 1.84, 1.90, 1.94, 1.98, 2.02};
    size_t last = sizeof factors / sizeof *factors - 1, at = rounds - 2;
    return factors[at < last ? at : last];
}

// Standard deviation of the median of this many normal values over their median absolute deviation. The factors
// make that deviation unbiased (Croux and Rousseeuw 1992, section 3).
static double error_per_deviation(size_t rounds)
{
    static const double factors[] = {1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107};
    double n = (double)rounds, factor = rounds < 10 ? factors[rounds - 2] : n / (n - 0.8);
    return sqrt(M_PI / 2 / n) * 1.4826 * factor;
}

// The log ratio of a trial in a round.
static double pair_of(const struct time_trial *trial, size_t round)
{
    return trial->new[round] - trial->base[round];
}

// Sets ratios to the trials' medians over rounds; returns their error.
static double find_paired(struct sheet *sheet)
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

// Uses minimum times, which rare disturbances do not affect, unless pairs have a much smaller error because the
// machine's speed varies more than disturbances do.
static void find_ratios(struct sheet *sheet)
{
    double min = sheet->gap * error_per_gap(sheet->rounds), paired = find_paired(sheet);
    sheet->paired = sheet->rounds > 2 && paired < PAIRED_BELOW * min;
    sheet->error = fmax(sheet->paired ? paired : min, ERROR_MIN);
    for (size_t i = 0; !sheet->paired && i < sheet->count; i++)
        sheet->ratios[i] = sheet->min[1][i] - sheet->min[0][i];
}

static void sheet_make(struct sheet *sheet, const struct time_trial *trials, size_t count)
{
    *sheet = (struct sheet){.trials = calloc(count + 1, sizeof *sheet->trials)};
    CHECK(sheet->trials);
    for (size_t i = 0; i < count; i++) {
        if (!trials[i].rounds || trials[i].unusable)
            continue;
        sheet->trials[sheet->count++] = &trials[i];
        sheet->rounds = trials[i].rounds > sheet->rounds ? trials[i].rounds : sheet->rounds;
        for (size_t k = 0; k < trials[i].rounds; k++)
            if (place_of(&trials[i], k) >= sheet->places)
                sheet->places = place_of(&trials[i], k) + 1;
    }
    sheet->numbers = calloc(3 * sheet->places + 6 * sheet->count + sheet->rounds + 1, sizeof *sheet->numbers);
    CHECK(sheet->numbers);
    sheet->level[0] = sheet->numbers;
    sheet->level[1] = sheet->level[0] + sheet->places;
    sheet->medians = sheet->level[1] + sheet->places;
    sheet->min[0] = sheet->medians + sheet->places;
    sheet->min[1] = sheet->min[0] + sheet->count;
    sheet->gaps = sheet->min[1] + sheet->count;
    sheet->ratios = sheet->gaps + 2 * sheet->count;
    sheet->values = sheet->ratios + sheet->count;
    find_levels(sheet);
    find_ratios(sheet);
}

// The share of disturbed rounds, plus one, because none observed does not mean none. In pairs, rounds as far from
// the trial's ratio in either direction.
static double disturbed_share(const struct sheet *sheet)
{
    size_t disturbed = 1, rounds = 2;
    for (size_t i = 0; i < sheet->count; i++) {
        const struct time_trial *trial = sheet->trials[i];
        for (size_t k = 0; k < trial->rounds; k++) {
            for (size_t side = 0; !sheet->paired && side < 2; side++)
                disturbed += time_of(sheet, i, side, k) > sheet->min[side][i] + log(1 + DISTURBED);
            if (sheet->paired)
                disturbed += fabs(pair_of(trial, k) - sheet->ratios[i]) > log(1 + DISTURBED);
        }
        rounds += sheet->paired ? trial->rounds : 2 * (trial->rounds - 1);
    }
    return (double)disturbed / (double)rounds;
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
            size_t round = round_at(trial, place);
            if (round < trial->rounds)
                sheet->values[found++] = pair_of(trial, round);
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

// Tells whether both files have identical measurements.
static bool is_one_file(const struct sheet *sheet)
{
    bool same = true;
    for (size_t i = 0; same && i < sheet->count; i++)
        for (size_t k = 0; same && k < sheet->trials[i]->rounds; k++)
            same = sheet->trials[i]->base[k] == sheet->trials[i]->new[k];
    return same;
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

// Log ratios of some trials: their mean, and the bounds of the middle half.
struct part {
    size_t trials;
    double mean, low, high;
};

static bool belongs(const struct time_trial *trial, int axis, const char *name)
{
    return axis < 0 || strcmp(trial->groups[axis], name) == 0;
}

static struct part part_of_one(const struct sheet *sheet, size_t at)
{
    return (struct part){1, sheet->ratios[at], sheet->ratios[at], sheet->ratios[at]};
}

static struct part part_of(const struct sheet *sheet, int axis, const char *name)
{
    struct part part = {0};
    for (size_t i = 0; i < sheet->count; i++)
        if (belongs(sheet->trials[i], axis, name))
            sheet->values[part.trials++] = sheet->ratios[i];
    if (!part.trials)
        return part;
    for (size_t i = 0; i < part.trials; i++)
        part.mean += sheet->values[i] / (double)part.trials;
    qsort(sheet->values, part.trials, sizeof *sheet->values, sample_by_value);
    part.low = sheet->values[(part.trials - 1) / 2];
    part.high = sheet->values[part.trials / 2];
    return part;
}

// The evidence on subsets of trials, given this many rounds.
struct evidence {
    double middle;  // the median log ratio of all trials
    double error;   // of a trial's log ratio
    bool no_chance; // chance cannot slow a trial in every round
};

// Probability that a trial's ratio is disturbed: all of its rounds, in pairs half of them.
static double chance_of(const struct sheet *sheet, double disturbed, size_t rounds)
{
    double sum = 0, n = (double)rounds;
    for (size_t k = sheet->paired ? (rounds + 1) / 2 : rounds; k <= rounds; k++) {
        double ways = lgamma(n + 1) - lgamma((double)k + 1) - lgamma(n - (double)k + 1);
        sum += exp(ways) * pow(disturbed, (double)k) * pow(1 - disturbed, n - (double)k);
    }
    return sum;
}

static struct evidence evidence_of(const struct time_change *change, const struct sheet *sheet, size_t rounds)
{
    double error = rounds > 1 ? change->error * sqrt((double)sheet->rounds / (double)rounds) : INFINITY;
    return (struct evidence){.middle = sheet->middle,
                             .error = fmax(error, ERROR_MIN),
                             .no_chance =
                                 (double)sheet->count * chance_of(sheet, change->disturbed, rounds) <= CHANCE_MAX};
}

static enum verdict judge_part(const struct time_change *change, const struct part *part,
                               const struct evidence *evidence)
{
    double error = evidence->error / sqrt((double)part->trials), limit = threshold_of(change, part->trials);
    double excess = fmax((STANDS_OUT - (part->trials > 2)) * error, log(1 + EXCESS_MIN));
    bool proves = part->trials > 1 || evidence->no_chance;
    if (proves && part->low - evidence->middle > excess && part->low > limit - NEARLY)
        return VERDICT_WORSE;
    if (proves && evidence->middle - part->high > excess && part->high < NEARLY - limit)
        return VERDICT_BETTER;
    return part->mean + error <= limit ? VERDICT_SAME : VERDICT_UNDECIDED;
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
        struct evidence evidence = evidence_of(change, sheet, trial->rounds);
        struct part part = part_of_one(sheet, at++);
        trial->ratio = sample_ratio(part.mean, 2 * evidence.error);
        trial->verdict = judge_part(change, &part, &evidence);
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

static bool has_group(const struct time_change *change, int axis, const char *name)
{
    for (size_t i = 0; i < change->group_count; i++)
        if (change->groups[i].axis == axis && strcmp(change->groups[i].name, name) == 0)
            return true;
    return false;
}

// Judges every group of at least two trials, but not all trials.
static void judge_groups(struct time_change *change, const struct sheet *sheet)
{
    struct evidence evidence = evidence_of(change, sheet, sheet->rounds);
    for (int axis = 0; axis < TIME_AXES; axis++) {
        for (size_t i = 0; i < sheet->count; i++) {
            const char *name = sheet->trials[i]->groups[axis];
            if (has_group(change, axis, name))
                continue;
            struct part part = part_of(sheet, axis, name);
            if (part.trials < 2 || part.trials == sheet->count)
                continue;
            double half = 2 * evidence.error / sqrt((double)part.trials);
            enum verdict verdict = judge_part(change, &part, &evidence);
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

static bool settled(const struct time_change *change, const struct sheet *sheet, struct sample_mean mean,
                    size_t rounds)
{
    struct evidence evidence = evidence_of(change, sheet, rounds);
    enum verdict worst = judge_all(change, mean, rounds);
    for (size_t i = 0; sheet->count > 1 && i < sheet->count; i++) {
        struct part part = part_of_one(sheet, i);
        worst = verdict_worst(worst, judge_part(change, &part, &evidence));
    }
    for (size_t i = 0; i < change->group_count; i++) {
        struct part part = part_of(sheet, change->groups[i].axis, change->groups[i].name);
        worst = verdict_worst(worst, judge_part(change, &part, &evidence));
    }
    return worst != VERDICT_UNDECIDED;
}

static size_t rounds_wanted(const struct time_change *change, const struct sheet *sheet, struct sample_mean mean)
{
    if (sheet->rounds < 2)
        return 3;
    for (size_t rounds = sheet->rounds + 1; rounds <= TIME_ROUNDS_MAX; rounds++)
        if (settled(change, sheet, mean, rounds))
            return rounds;
    return 0;
}

void time_change_judge(struct time_change *change, double threshold, struct time_trial *trials, size_t count)
{
    struct sheet sheet;
    sheet_make(&sheet, trials, count);
    *change = (struct time_change){.threshold = threshold,
                                   .judged = sheet.count,
                                   .rounds = sheet.rounds,
                                   .all = {.axis = -1, .name = "all trials", .trials = sheet.count}};
    for (size_t i = 0; i < count; i++) {
        change->timed += trials[i].rounds || trials[i].unusable;
        judge_same(&trials[i]);
    }
    if (sheet.count && is_one_file(&sheet)) {
        change->all.verdict = VERDICT_SAME;
        change->all.ratio = (struct shift){1, 1, 1};
    } else if (sheet.count) {
        struct sample_mean mean = mean_of_rounds(&sheet);
        sheet.middle = part_of(&sheet, -1, NULL).low;
        change->error = sheet.error;
        change->paired = sheet.paired;
        change->disturbed = disturbed_share(&sheet);
        change->all.verdict = judge_all(change, mean, mean.count);
        change->all.ratio = sample_ratio(mean.estimate, sample_half_interval(mean, mean.count, ERROR_MIN / 2));
        judge_groups(change, &sheet);
        judge_trials(change, &sheet, trials, count);
    }
    change->verdict = change->all.verdict;
    for (size_t i = 0; i < change->group_count; i++)
        change->verdict = verdict_worst(change->verdict, change->groups[i].verdict);
    for (size_t i = 0; i < count; i++)
        if (!trials[i].unusable)
            change->verdict = verdict_worst(change->verdict, trials[i].verdict);
    if (change->verdict == VERDICT_UNDECIDED)
        change->rounds_wanted = rounds_wanted(change, &sheet, mean_of_rounds(&sheet));
    change->restless = change->verdict == VERDICT_UNDECIDED && !change->rounds_wanted;
    for (size_t i = 0; i < count; i++)
        change->verdict = verdict_worst(change->verdict, trials[i].verdict);
    free(sheet.trials);
    free(sheet.numbers);
}

void time_change_free(struct time_change *change)
{
    free(change->groups);
    change->groups = NULL;
}
