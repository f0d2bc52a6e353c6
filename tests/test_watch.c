// Watch: clocks are reported as minimum, median and maximum of the card's sensor. The linker puts this file's
// sensors in the place of NVML's (Makefile).
#include "harness/machine/watch.h"
#include "kernels/base/sensors.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static size_t readings;

__typeof__(sensors_open) __wrap_sensors_open;
__typeof__(sensors_close) __wrap_sensors_close;
__typeof__(sensors_card_find) __wrap_sensors_card_find;
__typeof__(sensors_read) __wrap_sensors_read;
struct sensors *__wrap_sensors_open(struct status *status)
{
    (void)status;
    return (struct sensors *)&readings;
}
void __wrap_sensors_close(struct sensors *sensors)
{
    (void)sensors;
}
bool __wrap_sensors_card_find(const struct sensors *sensors, const char *bus_id, struct sensor_card *card)
{
    (void)sensors, (void)bus_id, (void)card;
    return true;
}
// Each reading 100 MHz faster than the one before it, from 1,000 MHz on; the fifth none.
void __wrap_sensors_read(const struct sensors *sensors, const struct sensor_card *card,
                         struct sensor_reading *reading)
{
    (void)sensors, (void)card;
    double clock = readings == 4 ? NAN : 1000 + 100.0 * (double)readings;
    *reading = (struct sensor_reading){NAN, NAN, NAN, clock, NAN};
    readings++;
}

// Readings by the thread lie between the two of start and stop, as many as the machine comes to.
static void clocks_have_a_median(void **state)
{
    (void)state;
    struct device device = {.bus_id = "0000:41:00.0"};
    struct watch *watch = watch_open(&device);
    assert_non_null(watch);
    for (size_t even = 0, odd = 0; !even || !odd;) {
        struct watch_report report;
        readings = 0;
        watch_start(watch);
        usleep(1000 * (useconds_t)(even ? WATCH_PERIOD_MS * 3 / 2 : 0));
        watch_stop(watch, &report);
        size_t known = readings - (readings > 4);
        double clocks[1000], last = 1000 + 100.0 * (double)(readings - 1 - (readings == 5));
        assert_true(known < sizeof clocks / sizeof *clocks);
        for (size_t i = 0; i < known; i++)
            clocks[i] = 1000 + 100.0 * (double)(i + (i > 3));
        assert_true(report.sm_clock_min_mhz == 1000 && report.sm_clock_max_mhz == last);
        assert_true(report.sm_clock_median_mhz == 0.5 * (clocks[(known - 1) / 2] + clocks[known / 2]));
        assert_true(isnan(report.energy_j));
        even += known % 2 == 0, odd += known % 2;
    }
    watch_close(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks_have_a_median)};
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
