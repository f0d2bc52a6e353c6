// Watch: reads the sensors of a card in a thread of its own while steps run.
#pragma once
#include "kernels/device/device.h"

#define WATCH_PERIOD_MS 100
// No energy is reported for samples that were shorter together: cards update it every 20 to 100 ms.
#define WATCH_ENERGY_MS 500

// NAN: not known.
struct watch_report {
    double energy_j; // by the card's counter where it has one, else its power, integrated by trapezoids
    double sm_clock_min_mhz, sm_clock_median_mhz, sm_clock_max_mhz;
};

// NULL if the device is no card or has no sensors; the other functions then do nothing.
struct watch;
struct watch *watch_open(const struct device *device);
void watch_close(struct watch *watch);
// Reports the card's activity between start and stop; neither waits for the device.
void watch_start(struct watch *watch);
void watch_stop(struct watch *watch, struct watch_report *report);
