#include "harness/machine/watch.h"
#include "kernels/base/clock.h"
#include "kernels/base/sensors.h"
#include <math.h>
#include <pthread.h>

struct watch {
    struct sensors *sensors;
    struct sensor_card card;
    pthread_t thread;
    pthread_mutex_t mutex; // of `stopping`
    pthread_cond_t wake;
    bool stopping;
    struct timed_reading {
        double s;
        struct sensor_reading reading;
    } * readings;
    size_t count, capacity;
};

static void take(struct watch *watch)
{
    if (watch->count == watch->capacity) {
        watch->capacity = 2 * watch->capacity + 64;
        watch->readings = realloc(watch->readings, watch->capacity * sizeof *watch->readings);
    }
    struct timed_reading *r = &watch->readings[watch->count++];
    sensors_read(watch->sensors, &watch->card, &r->reading);
    r->s = clock_s();
}

static void *run(void *context)
{
    struct watch *watch = context;
    int64_t next_ns = clock_ns();
    pthread_mutex_lock(&watch->mutex);
    while (!watch->stopping) {
        next_ns += WATCH_PERIOD_MS * 1000000;
        struct timespec next = {.tv_sec = next_ns / 1000000000, .tv_nsec = next_ns % 1000000000};
        int woken = 0;
        while (!watch->stopping && woken == 0)
            woken = pthread_cond_timedwait(&watch->wake, &watch->mutex, &next);
        if (!watch->stopping)
            take(watch);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

struct watch *watch_open(const struct device *device)
{
    struct status why = {0}; // missing sensors are no failure: their values stay unknown
    struct sensors *sensors = *device->bus_id ? sensors_open(&why) : NULL;
    struct watch *watch = calloc(1, sizeof *watch);
    if (!sensors || !sensors_card_find(sensors, device->bus_id, &watch->card)) {
        sensors_close(sensors);
        free(watch);
        return NULL;
    }
    watch->sensors = sensors;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); // as clock_ns uses
    pthread_cond_init(&watch->wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&watch->mutex, NULL);
    return watch;
}

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    sensors_close(watch->sensors);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->mutex);
    free(watch->readings);
    free(watch);
}

void watch_start(struct watch *watch)
{
    if (!watch)
        return;
    watch->count = 0;
    watch->stopping = false;
    take(watch);
    CHECK(pthread_create(&watch->thread, NULL, run, watch) == 0);
}

static double energy_j(const struct watch *watch)
{
    const struct timed_reading *first = watch->readings, *last = first + watch->count - 1;
    if (last->s - first->s < 1e-3 * WATCH_ENERGY_MS)
        return NAN;
    double counted = last->reading.energy_j - first->reading.energy_j, integrated = 0;
    for (const struct timed_reading *r = first; r < last; r++)
        integrated += 0.5 * (r[0].reading.power_w + r[1].reading.power_w) * (r[1].s - r[0].s);
    return isnan(counted) ? integrated : counted;
}

static int by_clock(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_clock(const struct watch *watch, struct watch_report *report)
{
    double *clocks = malloc(watch->count * sizeof *clocks);
    size_t count = 0;
    for (size_t i = 0; i < watch->count; i++)
        if (!isnan(watch->readings[i].reading.sm_clock_mhz))
            clocks[count++] = watch->readings[i].reading.sm_clock_mhz;
    if (count) {
        qsort(clocks, count, sizeof *clocks, by_clock);
        report->sm_clock_min_mhz = clocks[0];
        report->sm_clock_median_mhz = (clocks[(count - 1) / 2] + clocks[count / 2]) / 2;
        report->sm_clock_max_mhz = clocks[count - 1];
    }
    free(clocks);
}

void watch_stop(struct watch *watch, struct watch_report *report)
{
    *report = (struct watch_report){NAN, NAN, NAN, NAN};
    if (!watch)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->stopping = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    take(watch);
    report->energy_j = energy_j(watch);
    report_clock(watch, report);
}
