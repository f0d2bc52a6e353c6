// Breakdown: where a step's time goes, by operation; a GEMM's by its shape. FLOPs, bytes and launches are what the
// operations' fronts count. Time is taken by the device's marks before and after each operation, so that the
// milliseconds of all rows, idle's among them, are those of the timer; an estimate's are, too, and idle's is that
// of waits for copies. A device without data has no time.
#pragma once
#include "kernels/device/observer.h"

struct breakdown_row {
    enum work work;
    const char *operation; // "gemm", as in the device's table; an operation's part has a name of its own
    size_t m, n, k;        // of a GEMM
    double ms, estimate_s, flops, bytes_moved;
    uint64_t launches;
};

#define BREAKDOWN_DEPTH 16

struct breakdown {
    struct observer observer;
    struct breakdown_row *rows; // the first is idle
    size_t row_count, capacity;
    // The open ranges: their level, and the row that time between ranges inside of them goes to.
    struct {
        enum range_level level;
        size_t row;
    } open[BREAKDOWN_DEPTH];
    size_t depth;
    bool timed;
    struct counters seen;
    double waited_s; // of the estimate, before what is timed
    // Moments at which another row's time began, and which row's; the time of those before is added up.
    struct {
        size_t mark, row;
    } begun[DEVICE_MARKS];
    size_t begun_count, next_mark;
};

// Takes apart what the device's timer times from here to the stop: one step, or several added up.
void breakdown_start(struct breakdown *breakdown, struct device *device);
void breakdown_stop(struct breakdown *breakdown, struct device *device);
void breakdown_free(struct breakdown *breakdown);
