// A machine's speed varies: other programs on its host take processors, caches and bandwidth, for a second or an
// hour. All points are therefore measured in rounds, each in another order. Each time is divided by the reference
// kernel's times just before and after it; the median of these ratios, times the reference kernel's own median, is
// the point's time. A disturbed point then deviates little from its neighbours, and all rates refer to one speed,
// the reference kernel's, which the profile states.
//
// On a card the first round runs from the smallest points up: each time predicts whether the next larger one fits;
// otherwise it takes its neighbour's rate.
//
// Operands that steps access late (weights, their gradients, keys and values) rotate over as many sets as exceed
// the caches; recently written ones stay the same. A sample is a batch of runs long enough for the clock.
#include "harness/calibrate/calibrate_rates.h"
#include "harness/machine/rate_probe.h"
#include "harness/stats/sample.h"
#include "kernels/base/clock.h"
#include "kernels/device/ops.h"
#include "kernels/measure/timer.h"
#include <math.h>
#include <stdlib.h>

#define SETS_MAX         24
#define SETS_HURRIED     2                  // if there is time for only a run or two
#define SETS_BYTES       ((size_t)64 << 20) // an H200 has caches of 50 MiB
#define SAMPLES_MAX      5
#define SAMPLE_S         2e-4
#define VISIT_S          2e-3 // per visit
#define REFERENCE_KERNEL 0.2  // of the time, at most, for the reference kernel
// The largest point on the CPU in a minute: FLOPs, or elements of operations without FLOPs. Larger points take
// their neighbour's rate.
#define FLOPS_MAX    6e9
#define ELEMENTS_MAX 68e6 // at least as many as any point has
// The largest point on a card, for any time: attention of 8,192 queries over 131,072 keys.
#define CARD_FLOPS_MAX 5e13
#define RUNS_MIN       4   // for a point, including operands
#define LEFT_SHARE     0.2 // maximum share of the remaining time that the next point is expected to take

// A point of a grid, and its time in each round, the median of some samples.
struct point {
    const struct rate_probe *probe;
    size_t at[RATE_DIMENSIONS];
    size_t rate, place, neighbour; // its grid, its index there, and the neighbour whose rate it may take
    bool measured;                 // false: takes the neighbour's rate
    double work;                   // approximately its FLOPs, or bytes if it has none
    double visit_s;                // time of the latest visit
    double amount;                 // FLOPs, or bytes if it has none
    double seconds[CALIBRATE_ROUNDS_MAX];
    size_t moment[CALIBRATE_ROUNDS_MAX]; // index of the reference kernel's last run before it
};

struct calibration {
    struct device *device;
    struct tensor numbers;
    struct reference_kernel *reference_kernel;
    struct point *points; // [point_count]
    size_t point_count, rounds, *order;
    double *reference_kernel_s; // [moments]
    size_t moments, capacity;
    double began_s, ended_s; // end of the latest visit
    double until_s;          // end of the measurement
};

// --- a point

static void take_reference_kernel(struct calibration *c)
{
    if (c->moments == c->capacity) {
        c->capacity = 2 * c->capacity + 1024;
        c->reference_kernel_s = realloc(c->reference_kernel_s, c->capacity * sizeof *c->reference_kernel_s);
    }
    device_synchronize(c->device); // the reference kernel has queues of its own
    c->began_s = clock_s();
    c->reference_kernel_s[c->moments++] = reference_kernel_s(c->reference_kernel, 1);
    c->ended_s = clock_s();
}

static double batch_s(struct probe_operands *sets, size_t set_count, const struct rate_probe *probe, size_t runs,
                      size_t *turn)
{
    device_timer_start(sets->device);
    for (size_t i = 0; i < runs; i++)
        probe->run(&sets[(*turn)++ % set_count]);
    return 1e-3 * device_timer_stop_ms(sets->device) / (double)runs;
}

// Seconds of a run: the median of as many samples as fit into `budget_s`, at least one, limited to that time unless
// a single run is longer.
static double time_sets(struct probe_operands *sets, size_t set_count, const struct rate_probe *probe,
                        double budget_s)
{
    double samples[SAMPLES_MAX];
    size_t turn = 0, count = 0;
    double first_s = batch_s(sets, set_count, probe, 1, &turn), start_s = clock_s();
    double sample_s = fmin(SAMPLE_S, budget_s);
    size_t runs = first_s < sample_s ? (size_t)(sample_s / fmax(first_s, 1e-8)) + 1 : 1;
    do
        samples[count++] = batch_s(sets, set_count, probe, runs, &turn);
    while (count < SAMPLES_MAX && clock_s() - start_s < budget_s);
    return sample_quantile(samples, count, 0.5);
}

static void measure_point(struct calibration *c, struct point *point, double budget_s)
{
    struct probe_operands sets[SETS_MAX];
    const struct rate_probe *probe = point->probe;
    struct device *device = c->device;
    size_t live = device->arena.live_bytes, count = 0, max = budget_s < SAMPLE_S ? SETS_HURRIED : SETS_MAX;
    do
        probe_operands_open(&sets[count], device, c->numbers, probe, point->at, count ? &sets[0] : NULL);
    while (++count < max && device->status.code == STATUS_OK && probe->late &&
           device->arena.live_bytes - live < SETS_BYTES);
    device->counters = (struct counters){0};
    probe->run(&sets[0]); // libraries take longer the first time
    point->amount = device->counters.flops > 0 ? device->counters.flops : device->counters.bytes_moved;
    point->moment[c->rounds] = c->moments - 1;
    if (device->status.code == STATUS_OK)
        point->seconds[c->rounds] = time_sets(sets, count, probe, budget_s);
    while (count-- > 0)
        probe_operands_close(&sets[count]);
}

// --- the grids

static size_t points_of(struct rate *rate, const struct rate_probe *probe, bool card)
{
    size_t points = 1;
    snprintf(rate->operation, sizeof rate->operation, "%s", probe->operation);
    rate->dimensions = probe->dimensions;
    for (size_t d = 0; d < probe->dimensions; d++) {
        const size_t *axis = card ? probe->card_axes[d] : probe->axes[d];
        for (rate->counts[d] = 0; axis[rate->counts[d]]; rate->counts[d]++)
            rate->axes[d][rate->counts[d]] = (double)axis[rate->counts[d]];
        points *= rate->counts[d];
    }
    return points;
}

// Extents of the grid's point, and its neighbour with a smaller longest extent.
static size_t place_at(const struct rate *rate, size_t place, size_t at[RATE_DIMENSIONS])
{
    size_t stride = 1, neighbour = place;
    double longest = 0;
    for (size_t d = rate->dimensions, left = place; d-- > 0;) {
        size_t i = left % rate->counts[d];
        left /= rate->counts[d];
        at[d] = (size_t)rate->axes[d][i];
        if (i > 0 && rate->axes[d][i] > longest) {
            longest = rate->axes[d][i];
            neighbour = place - stride;
        }
        stride *= rate->counts[d];
    }
    return neighbour;
}

// share: of the work of the largest point on the CPU.
static bool is_worth_it(const struct calibration *c, const struct point *point, double share)
{
    bool moves = point->probe->dimensions == 1;
    if (probe_on_card(c->device))
        return moves || point->work <= CARD_FLOPS_MAX;
    return point->work <= share * (moves ? ELEMENTS_MAX : FLOPS_MAX);
}

static void place_points(struct calibration *c, struct rates *rates, double share)
{
    bool card = probe_on_card(c->device);
    for (const struct rate_probe *probe = rate_probes; probe->operation; probe++)
        c->point_count += points_of(&rates->items[rates->count++], probe, card);
    c->points = calloc(c->point_count + 1, sizeof *c->points);
    c->order = calloc(c->point_count + 1, sizeof *c->order);
    struct point *point = c->points;
    for (size_t p = 0; p < rates->count; p++) {
        struct rate *rate = &rates->items[p];
        for (size_t i = 0, count = points_of(rate, &rate_probes[p], card); i < count; i++, point++) {
            point->probe = &rate_probes[p];
            point->rate = p;
            point->place = i;
            point->neighbour = place_at(rate, i, point->at);
            point->work = probe_flops(point->probe, c->device, point->at);
            if (point->probe->dimensions == 1)
                point->work = (double)point->at[0];
            point->measured = point->neighbour == i || is_worth_it(c, point, share);
        }
    }
}

// --- the rounds

static int compare_work(const void *a, const void *b, void *points)
{
    const struct point *x = (const struct point *)points + *(const size_t *)a,
                       *y = (const struct point *)points + *(const size_t *)b;
    return (x->work > y->work) - (x->work < y->work);
}

// Shuffles all points for the round (Fisher-Yates).
static void order_points(struct calibration *c)
{
    struct random random = random_named(c->rounds, "calibrate");
    for (size_t i = 0; i < c->point_count; i++) {
        size_t j = random_below(&random, i, i + 1);
        c->order[i] = c->order[j];
        c->order[j] = i;
    }
}

// Tells whether there is time for the point, predicted from its neighbour, which was visited before.
static bool has_time(const struct calibration *c, const struct point *point)
{
    const struct point *smaller = point - (point->place - point->neighbour);
    if (point->neighbour == point->place)
        return true;
    double expected_s = smaller->visit_s + RUNS_MIN * smaller->seconds[0] * point->work / smaller->work;
    return smaller->measured && expected_s < LEFT_SHARE * (c->until_s - clock_s());
}

static void measure_round(struct calibration *c, double budget_s)
{
    bool growing = c->rounds == 0 && probe_on_card(c->device);
    order_points(c);
    if (growing)
        qsort_r(c->order, c->point_count, sizeof *c->order, compare_work, c->points);
    take_reference_kernel(c);
    for (size_t i = 0; i < c->point_count && c->device->status.code == STATUS_OK; i++) {
        struct point *point = &c->points[c->order[i]];
        point->measured = point->measured && (!growing || has_time(c, point));
        if (!point->measured)
            continue;
        if (c->ended_s - c->began_s < REFERENCE_KERNEL * (clock_s() - c->began_s))
            take_reference_kernel(c);
        double start_s = clock_s();
        measure_point(c, point, budget_s);
        point->visit_s = clock_s() - start_s;
    }
    take_reference_kernel(c);
    c->rounds++;
}

// Tells whether another round fits. On the CPU it takes as long as earlier ones; on a card the first included
// compiling, loading and choosing kernels.
static bool has_time_for_all(const struct calibration *c, double start_s, double round_s, double budget_s)
{
    double next_s = (clock_s() - start_s) / (double)c->rounds;
    if (probe_on_card(c->device) && c->rounds == 1) {
        next_s = 0;
        for (const struct point *p = c->points; p < c->points + c->point_count; p++)
            next_s += p->measured ? 2 * budget_s + RUNS_MIN * p->seconds[0] : 0;
    } else if (probe_on_card(c->device)) {
        next_s = round_s;
    }
    return c->rounds < CALIBRATE_ROUNDS_MAX && clock_s() + next_s < c->until_s;
}

double calibrate_steady_s(const double *seconds, const double *around_s, size_t count, double reference_kernel_s)
{
    double ratios[CALIBRATE_ROUNDS_MAX];
    for (size_t i = 0; i < count; i++)
        ratios[i] = seconds[i] / around_s[i];
    return reference_kernel_s * sample_quantile(ratios, count, 0.5);
}

// Computes rates at the reference kernel's median, and the spread of the raw times around them.
static void settle(struct calibration *c, struct rates *rates)
{
    double *spread = calloc(c->point_count * c->rounds, sizeof *spread), around_s[CALIBRATE_ROUNDS_MAX];
    size_t count = 0;
    rates->reference_kernel_s = sample_quantile(c->reference_kernel_s, c->moments, 0.5);
    for (size_t i = 0; i < c->point_count; i++) {
        const struct point *point = &c->points[i];
        double *values = rates->items[point->rate].values;
        if (!point->measured) { // its neighbour comes before it
            values[point->place] = values[point->neighbour];
            continue;
        }
        for (size_t r = 0; r < c->rounds; r++)
            around_s[r] =
                (c->reference_kernel_s[point->moment[r]] + c->reference_kernel_s[point->moment[r] + 1]) / 2;
        double seconds = calibrate_steady_s(point->seconds, around_s, c->rounds, rates->reference_kernel_s);
        values[point->place] = point->amount / seconds;
        for (size_t r = 0; r < c->rounds; r++)
            spread[count++] = point->seconds[r] / seconds;
    }
    rates->low = sample_quantile(spread, count, 0.05);
    rates->high = sample_quantile(spread, count, 0.95);
    free(spread);
}

bool calibrate_rates(struct rates *rates, const struct calibrated *what, struct status *status)
{
    *rates = (struct rates){0};
    double start_s = clock_s(), seconds = what->seconds;
    struct calibration c = {.reference_kernel =
                                reference_kernel_open(what->device, what->dtype, what->size, status)};
    c.device = c.reference_kernel ? device_open(what->device, what->dtype, 0, status) : NULL;
    if (c.device) {
        c.numbers = probe_numbers(c.device);
        place_points(&c, rates, fmin(seconds / 60, 1));
        c.until_s = start_s + seconds;
        double budget_s = fmin(VISIT_S, seconds / (double)c.point_count), round_s;
        do {
            round_s = clock_s();
            measure_round(&c, budget_s);
            round_s = clock_s() - round_s;
        } while (c.device->status.code == STATUS_OK && has_time_for_all(&c, start_s, round_s, budget_s));
        if (status_take(status, &c.device->status))
            settle(&c, rates);
        tensor_free(c.device, &c.numbers);
        device_close(c.device);
    }
    reference_kernel_close(c.reference_kernel);
    free(c.points);
    free(c.order);
    free(c.reference_kernel_s);
    return status->code == STATUS_OK;
}
