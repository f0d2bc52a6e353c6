// Breakdown: a step's time by operation, GEMMs also by shape. FLOPs, bytes and launches are those of the
// operations' fronts. Time is measured by device marks around each operation, so that all rows, including idle, add
// up to the timer's milliseconds; estimates add up too, with waits for copies as idle. A device without data has no
// time.
#pragma once
#include "kernels/device/observer.h"

struct breakdown_row {
    enum work work;
    const char *operation; // "gemm", as in the device's table; parts of an operation have their own names
    size_t m, n, k;        // of a GEMM
    double ms, estimate_s, flops, bytes_moved;
    uint64_t launches;
};

#define BREAKDOWN_DEPTH 16

struct breakdown {
    struct observer observer;
    struct breakdown_row *rows; // the first is idle
    size_t row_count, capacity;
    // The open ranges: their level, and the row charged for time between inner ranges.
    struct {
        enum range_level level;
        size_t row;
    } open[BREAKDOWN_DEPTH];
    size_t depth;
    bool timed;
    struct counters seen;
    double waited_s; // of the estimate, before the timed part
    // Moments at which another row's time began, with that row; earlier time is already added.
    struct {
        size_t mark, row;
    } begun[DEVICE_MARKS];
    size_t begun_count, next_mark;
};

// Divides the time of the device's timer until the stop: one step, or the sum of several.
void breakdown_start(struct breakdown *breakdown, struct device *device);
void breakdown_stop(struct breakdown *breakdown, struct device *device);
void breakdown_free(struct breakdown *breakdown);
